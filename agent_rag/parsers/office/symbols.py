"""Characters of the fonts Symbol and Wingdings, which Word stores by their position in the font."""

from __future__ import annotations

_GREEK = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ",
        strict=True,
    )
)
_SYMBOL = {ord(latin): greek for latin, greek in _GREEK.items()} | {
    0x22: "∀", 0x24: "∃", 0x27: "∋", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥", 0xA2: "′", 0xA3: "≤", 0xA5: "∞", 0xAB: "↔",
    0xAC: "←", 0xAD: "↑", 0xAE: "→", 0xAF: "↓", 0xB0: "°", 0xB1: "±", 0xB2: "″", 0xB3: "≥", 0xB4: "×", 0xB5: "∝",
    0xB6: "∂", 0xB7: "•", 0xB8: "÷", 0xB9: "≠", 0xBA: "≡", 0xBB: "≈", 0xBC: "…", 0xC5: "⊕", 0xC6: "∅", 0xC7: "∩",
    0xC8: "∪", 0xCC: "⊂", 0xCD: "⊆", 0xCE: "∈", 0xCF: "∉", 0xD0: "∠", 0xD1: "∇", 0xD2: "®", 0xD3: "©", 0xD4: "™",
    0xD5: "∏", 0xD6: "√", 0xD7: "⋅", 0xD8: "¬", 0xD9: "∧", 0xDA: "∨", 0xDB: "⇔", 0xDC: "⇐", 0xDE: "⇒", 0xE5: "∑",
    0xF2: "∫",
}  # fmt: skip
"""Positions of Adobe's Symbol encoding (https://unicode.org/Public/MAPPINGS/VENDORS/ADOBE/symbol.txt)."""
_WINGDINGS = {
    0x4A: "☺", 0x6C: "●", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x76: "❖", 0x9F: "•", 0xA7: "▪", 0xA8: "◻", 0xD8: "➢",
    0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}


def symbol(font: str, code: str) -> str:
    """The character of a w:sym; one of another font, or unknown, is given by its code point.

    Args:
        code: Hexadecimal, usually in the private use range F000 to F0FF.
    """
    try:
        point = int(code, 16)
    except ValueError:
        return ""
    position = point & 0xFF if 0xF000 <= point <= 0xF0FF else point
    known = _FONTS.get(font.strip().lower(), {}).get(position)
    if known:
        return known
    valid = 0x20 <= position < 0x110000 and not 0xD800 <= position < 0xE000
    return chr(position if position < 0x7F else point) if valid else ""
