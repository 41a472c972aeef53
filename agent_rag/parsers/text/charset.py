"""Which 8-bit or double-byte charset a text without any declaration is in.

A detector by statistics (charset-normalizer) needs some hundred bytes; what a line of text tells by the shape of its
words is told first.
"""

from __future__ import annotations

import re

# Printable signs of windows-1252 between and around words, apart from letters.
_WESTERN_SIGNS = frozenset("€‚„…‰‹‘’“”•–—™›\xa0¡¢£¥§©ª«®°±²³´µ·¹º»¼½¾¿×÷†‡ƒˆ˜¦¨¬\xad¯¶¸¤")
_WESTERN_LETTERS = frozenset("ŠŒŽšœžŸ" + "".join(chr(c) for c in range(0xC0, 0x100) if c not in (0xD7, 0xF7)))
_SIGN_IN_WORD = re.compile("[a-zß-öø-ÿ][¹¾¿»º³£¥ª¯¼±¶µ¦©®¡¢][a-zß-öø-ÿ]|[^\\W\\d_][¾¹]|\\b[¾¹][a-z]")
_CENTRAL_LETTERS = frozenset("ąćęłńóśźżáčďéěíňřšťúůýžőűöüđâăîșşţțôäĺľŕëç")
_LATIN_CONTACT = re.compile("(?<=[a-z])[^\x00-\x7f]|[^\x00-\x7f](?=[a-z])")
_HIGH_PAIRS = re.compile(rb"[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]")
_KANA_PAIRS = re.compile(rb"[\xa4\xa5][\xa1-\xf6]")


_SIGNS_IN_WORDS = re.compile(
    rb"(?<=[\x00-\x7f][A-Za-z])([\x80-\x91\x93-\x9b\x9f\xa1-\xa5\xa7])(?=[a-z](?:[\x00-\x7f]|\Z))"
)
# Beside two ASCII bytes: in Shift-JIS lead bytes alternate with single letters.
_ACCENTS = frozenset("äöüßéèêàâáåæøçñíóú")
_RARE_ACCENTS = frozenset("ëîïìôòûùÿ")
_CAPITALS = re.compile(rb"(?<![\x80-\xff])[\xc0-\xde](?=[\xe0-\xff])")
_MAC_CAPITALS = re.compile(rb"(?<![\x80-\xff])[\x80-\x83\x86-\x92](?=[\xdf-\xff])")
# Without those that are quotation marks and dashes in windows-1251.


def guess_charset(sample: bytes) -> str:
    """Name of a Python codec for text that is neither UTF nor pure ASCII."""
    from charset_normalizer import from_bytes

    western = _dos_or_mac(sample) or _western(sample)
    if western:
        return western
    for codec in (_chinese(sample), _japanese(sample), _cyrillic(sample), _central_european(sample)):
        if codec:
            return codec
    best = from_bytes(sample, threshold=0.3).best()
    return best.encoding if best is not None else "cp1252"


def _dos_or_mac(data: bytes) -> str | None:
    """Western European text of DOS or classic Mac OS: its accents are windows-1252's signs, and stand inside words."""
    inside = b"".join(match[1] for match in _SIGNS_IN_WORDS.finditer(data))
    sure = len(inside.translate(None, b"\x9a\x9f"))  # the others' š and ź
    if sure < 2 or sure * 4 < len(inside) or len(inside) * 4 < sum(byte > 127 for byte in data):
        return None
    usual: dict[str, float] = {}
    for codec in ("cp850", "mac_roman"):
        text = inside.decode(codec)
        usual[codec] = sum(1.0 if char in _ACCENTS else 0.9 * (char in _RARE_ACCENTS) for char in text)
    best = max(usual, key=lambda codec: usual[codec])
    return best if usual[best] >= 0.9 * len(inside) else None


def _western(sample: bytes) -> str | None:
    """windows-1252, its Turkish sister or, for Hungarian, its Central European one, where the text reads as such.

    Read as windows-1252 it must look it: few accents, each inside a word of Latin letters, usual signs. Text in
    another script is mostly accents when read this way.
    """
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return None
    letters = signs = lone = 0
    for index, char in enumerate(text):
        if char <= "\x7f":
            continue
        if char in _WESTERN_LETTERS:
            letters += 1
            around = text[max(0, index - 1) : index] + text[index + 1 : index + 2]
            lone += not any(c.isascii() and c.isalpha() for c in around)
            lone += char.isupper() and index > 0 and text[index - 1].islower()
        elif char in _WESTERN_SIGNS:
            signs += 1
        else:
            return None
    plain = sum(1 for c in text if c.isascii() and c.isalpha())
    if lone * 5 > letters or letters * 3 > plain + 4 or signs * 4 > plain + 8:
        return None
    return _western_member(text, letters, signs)


def _western_member(text: str, letters: int, signs: int) -> str | None:
    """Which of the sister code pages, None for one whose letters only a detector can tell."""
    found = set(text)
    if (text.count("‚") + text.count("ƒ")) * 5 > letters + signs + 4:
        return None  # lead bytes of Shift-JIS
    if len(_SIGN_IN_WORD.findall(text)) * 20 > letters + signs:
        return None  # Polish and Czech have letters there
    if sum(text.count(char) for char in "ýþðÝÞÐ") * 4 > letters:
        # Windows-1254 has ı ş ğ İ Ş Ğ where windows-1252 has six letters that Icelandic uses, beside á and é.
        return None if found & set("áéíóúæÁÉÍÓÚÆ") else "cp1254"
    if found & set("šžŠŽ") and found & set("èæìøùðÈÆÌØÙ"):
        return None
    if found & set("õûÕÛ") and found & set("áéíóú") and found & set("öü") and not found & set("ãçêñâàè"):
        return "cp1250"  # Hungarian ő and ű
    return "cp1252"


def _central_european(data: bytes) -> str | None:
    """windows-1250 or ISO 8859-2, where nearly all letters beyond ASCII are of their languages and in Latin words."""
    best, share = None, 0.85
    for codec in ("cp1250", "iso8859-2"):
        text = data.decode(codec, "replace").lower()
        high = [c for c in text if c > "\x7f"]
        usual = _CENTRAL_LETTERS if "ł" in text else _CENTRAL_LETTERS - {"ą"}
        good = sum(c in usual or c in "„”“–—…’" for c in high) / max(1, len(high))
        in_words = len(_LATIN_CONTACT.findall(text))
        if in_words > 0.6 * len(high) and good > share:
            best, share = codec, good
    return best


def _cyrillic(data: bytes) -> str | None:
    """The Cyrillic code page in which about half are the ten commonest small letters (in Russian 64 %).

    Hebrew reaches 45 % when read as windows-1251; nothing but Russian fills the small letters of KOI8-R.
    """
    best, most = None, 0.0
    for codec, least in (("cp1251", 0.52), ("koi8-r", 0.42), ("iso8859-5", 0.52), ("cp866", 0.52)):
        high = [c for c in data.decode(codec, "replace") if c > "\x7f"]
        common = sum(c in "оеаинтсрвл" for c in high) / max(1, len(high))
        if len(high) >= 6 and common > max(least, most):
            best, most = codec, common
    if best == "cp1251" and len(_MAC_CAPITALS.findall(data)) > len(_CAPITALS.findall(data)):
        return "mac_cyrillic"  # the same small letters but one, other capitals
    return best


def _japanese(data: bytes) -> str | None:
    """EUC-JP, where a third or more of the pairs are kana."""
    try:
        data.decode("euc_jp")
    except UnicodeDecodeError:
        return None
    high = sum(byte > 127 for byte in data)
    return "euc_jp" if 6 * len(_KANA_PAIRS.findall(data)) >= high > 0 else None


def _chinese(data: bytes) -> str | None:
    """GB 2312, where every pair is a frequent character, with some that Korean text never has.

    GB 2312 sorts its 3,755 frequent characters by sound into rows B0 to D7; Korean syllables fill rows B0 to C8.
    """
    pairs = _HIGH_PAIRS.findall(data)
    if 2 * len(pairs) != sum(byte > 127 for byte in data):
        return None
    rows = [pair[0] for pair in pairs if pair[0] >= 0xB0]
    usual = bool(rows) and sum(row > 0xC8 for row in rows) * 5 >= len(rows) >= len(pairs) // 2
    return "gb18030" if usual else None
