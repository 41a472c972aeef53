"""A sentence as tokens that can be compared with another one's: words by their stem, numbers by their value."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal

import Stemmer

from .numbers import CJK_DIGITS, MULTIPLIERS, WORDS, chinese_value, fraction_of, value_of
from .words import CJK_STOP, NEGATIONS, POLES, SAME, STOP

Kind = Literal["number", "negation", "name", "pole", "word", "stop", "cjk"]

_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_FRACTIONS = "\u00bc-\u00be\u2150-\u215e"
_PARTS = re.compile(
    rf"(?P<number>\d+(?:[.,'’\u00a0\u202f]\d+)*)|(?P<chinese>[{CJK_DIGITS}]+)"
    rf"|(?P<stop>{'|'.join(CJK_STOP)})|(?P<cjk>[{_CJK}])|(?P<fraction>[{_FRACTIONS}])|(?P<sign>[%％€$£¥])"
    rf"|(?P<word>[^\W\d_{_CJK}{_FRACTIONS}]+(?:[’'][^\W\d_{_CJK}]+)?)"
)
_ENDINGS = ("s", "es", "n", "en", "e", "er", "em", "ern", "r")
_local = threading.local()


@dataclass(frozen=True)
class Token:
    """A word, a number, a sign, or one Chinese character or particle."""

    key: str
    """Equal where two tokens say the same."""
    kind: Kind
    start: int
    end: int
    """Characters in the text."""
    surface: str = ""
    """Folded, not stemmed."""

    @property
    def content(self) -> bool:
        return self.kind != "stop"


def tokens(text: str) -> list[Token]:
    """Tokens of `text`, in order. A number and the word that multiplies it are one."""
    made: list[Token] = []
    for token in _tokens(text):
        before = made[-1] if made else None
        factor = MULTIPLIERS.get(token.surface)
        if factor and before and before.kind == "number" and text[before.end : token.start].strip(" \u00a0-") == "":
            value = Decimal(before.key[1:]) * factor
            made[-1] = _number(value, before.start, token.end)
        else:
            made.append(token)
    return made


def related(first: Token, second: Token) -> bool:
    """Whether two tokens of one key are one name: equal, or another case of it."""
    short, long = sorted((first.surface, second.surface), key=len)
    return short == long or (long.startswith(short) and long[len(short) :] in _ENDINGS)


def _tokens(text: str) -> Iterator[Token]:
    for match in _PARTS.finditer(text):
        kind, found, start, end = match.lastgroup, match[0], match.start(), match.end()
        if kind == "number":
            yield _number(value_of(_ascii(found)), start, end)
        elif kind == "chinese":
            yield from _chinese(found, start)
        elif kind == "fraction":
            yield _number(fraction_of(found) or Decimal(0), start, end)
        elif kind == "stop":
            yield Token(found, "stop", start, end, found)
        elif kind == "cjk":
            yield Token(found, "negation" if found in NEGATIONS else "cjk", start, end, found)
        elif kind == "sign":
            sign = unicodedata.normalize("NFKC", found)
            yield Token(sign, "pole", start, end, sign)
        else:
            yield from _word(found, start)


def _number(value: Decimal, start: int, end: int) -> Token:
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return Token(f"#{text}", "number", start, end, f"#{text}")


def _ascii(digits: str) -> str:
    return digits if digits.isascii() else "".join(_digit(character) for character in digits)


def _digit(character: str) -> str:
    value = unicodedata.digit(character, None)
    return character if value is None else str(value)


def _chinese(run: str, start: int) -> Iterator[Token]:
    """A number; a multiplier alone, as behind other digits, is left for `tokens`."""
    if run in MULTIPLIERS:
        yield Token(run, "pole", start, start + 1, run)
    else:
        yield _number(chinese_value(run), start, start + len(run))


def _word(found: str, start: int) -> Iterator[Token]:
    plain = found.replace("’", "'")
    end = start + len(found)
    lowered = plain.lower()
    if lowered == "cannot" or lowered.endswith("n't"):
        cut = 3
        stem = found[: len(found) - cut]
        yield Token(fold(stem), "stop", start, end - cut, fold(stem))
        yield Token("not", "negation", end - cut, end, "not")
        return
    if lowered[-2:] in ("'s", "s'"):
        lowered, plain = lowered.rstrip("s").rstrip("'"), plain[:-2]
    word = fold(lowered)
    if lowered in WORDS:
        yield _number(WORDS[lowered], start, end)
    elif lowered in NEGATIONS:
        yield Token("kein" if lowered.startswith("kein") else lowered, "negation", start, end, word)
    elif lowered in SAME:
        yield Token(SAME[lowered], "pole", start, end, word)
    elif lowered in STOP and lowered not in POLES and not (plain == "May" and start):
        yield Token(word, "stop", start, end, word)
    else:
        capital = plain[:1].isupper()
        kind: Kind = (
            "pole"
            if lowered in POLES or plain == "May"
            else "name"
            if capital or plain[1:].lower() != plain[1:]
            else "word"
        )
        yield Token(stemmed(word), kind, start, end, word)


def fold(word: str) -> str:
    """Lower case without accents and typographic forms; German sharp s as ss."""
    word = word.lower()
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


@lru_cache(maxsize=20_000)
def stemmed(word: str) -> str:
    # A Stemmer keeps a cache and must not be shared by threads.
    stemmer: Stemmer.Stemmer | None = _local.__dict__.get("stemmer")
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    found: str = stemmer.stemWord(word)
    return found
