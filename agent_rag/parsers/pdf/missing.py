"""Text of a PDF page that one engine has and the other does not."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
_GLYPH_NAME = re.compile(r"/[A-Za-z]*\d+\b|/\w+\.\w+|\ufffd|[\ue000-\uf8ff]")
_WRITTEN_TOGETHER = dict.fromkeys(("HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH"), "CJK")
_WHOLE_LINE = 0.5
_MIN_WORD = 3


def with_missing_lines(text: str, other: str) -> str:
    """The text with the lines of `other` of which most words are not in it, each before the line that follows it there.

    Lines of glyph names (/g12), which pypdf gives for letters that nothing maps to text, are left out, and so are those
    of letters from several scripts that are not written together: it mapped them wrongly. Where as many lines of the
    text are not in `other`, the same lines were read in another way, and nothing is missing.
    """
    words, others = set(_words(text)), set(_words(other))
    lines = [line for line in other.splitlines() if _words(line) and not _GLYPH_NAME.search(line)]
    missing = [not _mixes_scripts(line) and _says_something(_new_words(line, words)) for line in lines]
    if sum(missing) <= sum(bool(_new_words(line, others)) for line in text.splitlines()):
        return text
    result, position = "", 0
    pending: list[str] = []
    for line, is_missing in zip(lines, missing, strict=True):
        if is_missing:
            pending.append(line.strip())
            continue
        found = text.find(line.strip(), position)
        if found >= 0 and pending:
            start = text.rfind("\n", 0, found) + 1
            start = max(start, position)
            result += text[position:start] + "\n".join(pending) + "\n"
            position, pending = start, []
    rest = text[position:]
    return result + "\n".join(part for part in (rest, *pending) if part)


def _new_words(line: str, words: set[str]) -> list[str]:
    """The words of a line that are none of `words`, where most of them are not."""
    own = _words(line)
    new = [word for word in own if word not in words]
    return new if len(new) > _WHOLE_LINE * len(own) else []


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _says_something(words: list[str]) -> bool:
    """Whether most of it are words: letters of a drawing come one by one."""
    said = sum(len(word) for word in words if not word.isascii() or (len(word) >= _MIN_WORD and word.isalpha()))
    return 2 * said > sum(map(len, words))


def _mixes_scripts(line: str) -> bool:
    """Whether there are letters of more than two scripts beside Latin and Greek; those of East Asia count as one."""
    scripts = {
        unicodedata.name(letter, "").partition(" ")[0] for letter in line if letter > "\u03ff" and letter.isalpha()
    }
    return len({_WRITTEN_TOGETHER.get(script, script) for script in scripts} - {"LATIN", "GREEK"}) > 2


def is_readable(text: str) -> bool:
    """Whether it is made of letters, not of glyph names and of characters that nobody assigned."""
    return 2 * len(_GLYPH_NAME.findall(text)) < max(1, len(text.split()))
