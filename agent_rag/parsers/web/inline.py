"""How a piece of running text is written in Markdown."""

from __future__ import annotations

import re

_ORDINALS = frozenset({"st", "nd", "rd", "th", "er", "re", "e", "o", "a", "ème", "º", "ª"})
_MARKS = frozenset({"tm", "sm", "™", "®", "©", "(r)", "(tm)"})
_UNITS = frozenset({"km", "cm", "mm", "dm", "nm", "µm", "ft", "yd", "mi", "hm", "sq"})
_PLAIN_INDEX = re.compile(r"[-+−]?\w+")
_CHEMISTRY = re.compile(r"(?:(?<![^\W_])(?:[A-Z][a-z]?\d*){1,9}|[)\]])\Z")
_LAST_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]+\Z")
_BLOCK_START = re.compile(r"^( {0,3})(?=#{1,6}(?:\s|$)|`{3,}[^`\n]*$|~{3})", re.M)
_UNDERLINE = re.compile(r"(?<=\n)( {0,3})(?=(?:=+|-+)[ \t]*$)", re.M)
_TICKS = re.compile("`+")


class Code(str):
    """Inline code as written; neighbours become one."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Code:
        longest = max(map(len, _TICKS.findall(text)), default=0)
        fence = "`" * (longest + 1 if longest else 1)
        space = " " * (text.startswith("`") or text.endswith("`"))
        made = super().__new__(cls, f"{fence}{space}{text}{space}{fence}")
        made.text = text
        return made


def fenced(text: str, language: str = "") -> str:
    """A block of code; the fence is longer than any in it."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def escaped_lines(paragraph: str) -> str:
    """A paragraph none of whose lines begins a heading or code: those get a backslash, as Markdown wants it."""
    if "#" in paragraph or "```" in paragraph or "~~~" in paragraph:
        paragraph = _BLOCK_START.sub(r"\1\\", paragraph)
    if "\n" in paragraph and ("\n-" in paragraph or "\n=" in paragraph):
        paragraph = _UNDERLINE.sub(r"\1\\", paragraph)
    return paragraph


def superscript(before: str, text: str, *, is_link: bool) -> str:
    """``2^32``, ``x^(n+1)``, ``1st``, and ``see[3]`` for a note; `before` is the text in front of it."""
    if not text or text.lower() in _MARKS or (before[-1:].isdigit() and text.lower() in _ORDINALS):
        return text
    if text.startswith(("[", "(")) or not any(map(str.isalnum, text)):
        return text
    if is_link or (text.isdigit() and _is_note(before)):
        return f"[{text}]"
    return _index("^", text) if before and not before[-1].isspace() else text


def subscript(before: str, text: str) -> str:
    """``x_1``, ``V_in``, and ``H2O`` for a number behind a chemical element."""
    if not text or not before or before[-1].isspace() or (not before[-1].isalnum() and before[-1] not in ")]"):
        return text
    if text.isdigit() and _CHEMISTRY.search(before[-20:]):
        return text
    return _index("_", text)


def _is_note(before: str) -> bool:
    """Whether a number here points to a note: behind a word, a full stop or nothing, not behind a variable or unit."""
    if not before or before[-1].isspace() or before[-1] in ".,;:!?\"'”’»)":
        return not before.endswith(")")
    word = _LAST_WORD.search(before[-40:])
    return word is not None and len(word[0]) > 1 and word[0] not in _UNITS


def _index(sign: str, text: str) -> str:
    return f"{sign}{text}" if _PLAIN_INDEX.fullmatch(text) else f"{sign}({text})"
