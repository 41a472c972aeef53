"""Looking for a text or a regular expression: what counts as an occurrence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ..errors import PatternError

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # not a public module: without it every text has to be looked through
    _parser = None

MAX_PATTERN_CHARACTERS = 1_000

Span = tuple[int, int]
"""``text[start:end]``."""

_MARKS = ("Mn", "Me")
_BREAK = ""
_INLINE = ("SUBPATTERN", "ATOMIC_GROUP")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_OF_NO_WIDTH = ("AT", "ASSERT", "ASSERT_NOT")


class TextPattern:
    """What is looked for. Occurrences are those of Python's `re`, without empty ones, and do not overlap.

    A text is taken literally, but for its white space: each run of it stands for any run, since lines of a document are
    broken anywhere. ``^`` and ``$`` of a regular expression are the begin and end of a line.
    """

    def __init__(
        self, pattern: str, *, regex: bool = False, ignore_case: bool = True, ignore_accents: bool = False
    ) -> None:
        """
        Args:
            ignore_case: As ``re.IGNORECASE``.
            ignore_accents: Compare without combining marks: ``Muller`` is ``Müller``, written either way.

        Raises: PatternError: it is blank or longer than 1,000 characters. Whether a regular expression is one shows
            when it is used.
        """
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise PatternError(
                f"the pattern has {len(pattern)} characters; at most {MAX_PATTERN_CHARACTERS} are looked for"
            )
        if not pattern.strip():
            raise PatternError("the pattern is blank; give a text that is to be found")
        self.pattern = pattern
        self.is_regex = regex
        self.ignore_case = ignore_case
        self.ignore_accents = ignore_accents
        self.plain = without_accents(pattern) if ignore_accents else pattern
        if not self.plain.strip():
            raise PatternError(f"nothing is left of the pattern {pattern!r} without accents; set ignore_accents=False")
        self.expression = self.plain if regex else _expression_of(self.plain)
        """For `re`, with `flags`."""
        self.flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)

    @cached_property
    def words(self) -> list[str]:
        """Texts without blanks that stand in every occurrence, but for case and accents where these are ignored."""
        texts = required_texts(self.expression, self.flags) if self.is_regex else [self.plain]
        return [word for text in texts for word in text.split()]

    def __repr__(self) -> str:
        return f"TextPattern({self.pattern!r}, regex={self.is_regex})"

    def spans(self, text: str) -> list[Span]:
        """The occurrences in `text`, in order. Not for a regular expression of a stranger: it may take for ever."""
        if not self.is_regex and self.ignore_case and text.isascii() and self.plain.isascii():
            # `re` finds small letters in small ones ten times quicker than in those of either case.
            return spans_of(re.compile(_expression_of(self.plain.lower())), text.lower())
        return spans_of(re.compile(self.expression, self.flags), text, ignore_accents=self.ignore_accents)

    def folded(self, text: str) -> str:
        """Equal for what is compared as equal, character by character, so that parts of a text fold to parts."""
        if self.ignore_accents:
            text = without_accents(text)
        if not self.ignore_case:
            return text
        if text.isascii():
            return text.lower()
        # Beyond case folding, `re` takes the Turkish letters for an i.
        return text.replace("\u0130", "i").replace("\u0131", "i").casefold()


def _expression_of(plain: str) -> str:
    return r"\s+".join(map(re.escape, plain.split()))


def spans_of(compiled: re.Pattern[str], text: str, *, ignore_accents: bool = False) -> list[Span]:
    """Occurrences that are not empty, in order, as they stand in `text`."""
    if not ignore_accents or text.isascii():
        return [match.span() for match in compiled.finditer(text) if match.end() > match.start()]
    plain, places = _plain_with_places(text)
    found = (match.span() for match in compiled.finditer(plain))
    return [(places[start], places[end - 1] + 1) for start, end in found if end > start]


def without_accents(text: str) -> str:
    """`text` without combining marks, also without those that are part of a character."""
    return text if text.isascii() else text.translate(_plain)


class _PlainCharacters(dict[int, str]):
    """Each character without its marks, by code point. Syllables of Hangul stay whole."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        parts = character if 0xAC00 <= code <= 0xD7A3 else unicodedata.normalize("NFD", character)
        plain = self[code] = "".join(part for part in parts if unicodedata.category(part) not in _MARKS)
        return plain


_plain = _PlainCharacters()


def _plain_with_places(text: str) -> tuple[str, list[int]]:
    """`without_accents`, and where each of its characters stands in `text`."""
    characters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        plain = _plain[ord(character)]
        characters.append(plain)
        places += [place] * len(plain)
    return "".join(characters), places


# --- what every occurrence of a regular expression holds, from the parts that `re` makes of it ---


def required_texts(expression: str, flags: int) -> list[str]:
    """Texts that stand in every occurrence; empty where none is known, also for what is no expression.

    Args:
        flags: As for ``re.compile``; an expression that sets another case for itself says nothing.
    """
    try:
        parsed = _parser.parse(expression, flags) if _parser is not None else None
        parts = list(_letters(parsed)) if parsed is not None else []
    except (re.error, RecursionError, OverflowError):
        return []
    if parsed is None or (parsed.state.flags ^ flags) & re.IGNORECASE:
        return []
    texts = [""]
    for part in parts:
        if part == _BREAK:
            texts.append("")
        else:
            texts[-1] += part
    return [text for text in texts if text]


def _letters(parsed: Any) -> Iterator[str]:
    """The letters that are there in any case, in order, with a break where something else may stand between."""
    for operation, argument in parsed:
        name = str(operation)
        if name == "LITERAL":
            yield chr(argument)
        elif name in _INLINE:
            own_flags = name == "SUBPATTERN" and (argument[1] or argument[2])
            inner = argument[-1] if name == "SUBPATTERN" else argument
            yield from [_BREAK] if own_flags else _letters(inner)
        elif name in _REPEATS:
            least, _, inner = argument
            yield _BREAK
            if least:
                yield from _letters(inner)
                yield _BREAK
        elif name not in _OF_NO_WIDTH:
            yield _BREAK
