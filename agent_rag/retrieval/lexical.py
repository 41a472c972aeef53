"""The one tokeniser and the one BM25 that every store shares.

Runs of Chinese, Japanese and Korean characters become single characters and pairs, runs of Thai, Lao, Khmer and Burmese
ones, which write words without blanks too, overlapping threes; other text becomes runs of letters, digits and combining
marks, lower-cased, without stop words, stemmed by Snowball. A name in snake_case is its words, one in camelCase its
words and the whole. (Measured: ``\\w`` alone costs Hindi .17 nDCG@10; pairs and singles win on Chinese; threes give
Thai .98 instead of .27 and beat twos and fours on Khmer; the full stop list is worth +.05 on questions over docs;
camelCase changes prose by -.0003 to +.002.)
"""

from __future__ import annotations

import math
import re
import sys
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable
from operator import add

import Stemmer

from .languages import FUNCTION_WORDS

__all__ = ["idf", "term_weight", "tokenize"]

K1 = 1.2
B = 0.75

_CJK = (
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u1100-\u11ff\U00020000-\U0003134f"
)
# Letters, marks and digits of Thai, Lao, Burmese and Khmer; their punctuation divides.
_SPACELESS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e80-\u0eff\u1000-\u1049\u1050-\u109d\u1780-\u17d3\u17d7\u17dc-\u17e9"
    "\ua9e0-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
)
# Script ranges whose language is known well enough to stem; what is Latin has the language of its collection.
_SCRIPTS = (("russian", "\u0400", "\u04ff"), ("arabic", "\u0600", "\u06ff"), ("hindi", "\u0900", "\u097f"),
            ("greek", "\u0370", "\u03ff"), ("tamil", "\u0b80", "\u0bff"), ("armenian", "\u0530", "\u058f"))  # fmt: skip
ENGLISH = "english"
STOP_WORDS = frozenset(  # one word after the other reads better than a list literal
    """a about above after again against all am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had
    hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just
    let ll m me might more most must mustn my myself no nor not now o of off on once only or other our ours ourselves
    out over own re s same shall shan she should shouldn so some such t than that the their theirs them themselves then
    there these they this those through to too under until up ve very was wasn we were weren what when where which while
    who whom why will with won would wouldn y you your yours yourself yourselves""".split()  # noqa: SIM905
)


def _marks() -> str:
    """Character-class text of all combining marks, which Python's ``\\w`` leaves out."""
    points = [point for point in range(0x300, 0x20000) if unicodedata.category(chr(point)).startswith("M")]
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)


_MARKS = _marks()
_WORD = rf"[^\W_{_CJK}{_SPACELESS}]"
# Some editors put zero-width blanks between the words of these scripts, others do not.
_RUN = rf"[{_SPACELESS}](?:[\u200b-\u200d\u2060]*[{_SPACELESS}])*"
# Most words of a text with one curly quote are plain: an ASCII run that ends before ASCII or punctuation comes first.
_TOKENS = re.compile(rf"[a-z0-9]++(?=[\x00-\x7f\u2010-\u2027]|\Z)|[{_CJK}]+|{_RUN}|{_WORD}+(?:[{_MARKS}]+{_WORD}*)*")
_FULL_WIDTH = re.compile("[\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff64]+")
_IS_CJK = re.compile(f"[{_CJK}]").match
_IS_SPACELESS = re.compile(f"[{_SPACELESS}]").match
_FIRST_UNSPACED = "\u0e00"
_ZERO_WIDTH = dict.fromkeys((0x200B, 0x200C, 0x200D, 0x2060))
_LETTERS_WITH_ACCENTS = re.compile("[a-z0-9\u00df-\u024f\u0300-\u036f\u0370-\u03ff\u1e00-\u1fff]+").fullmatch
_OTHER_LETTERS = str.maketrans({"\u00df": "ss", "\u00e6": "ae", "\u0153": "oe", "\u00f8": "o", "\u0142": "l",
                                "\u0111": "d", "\u0131": "i"})  # fmt: skip
"""Letters that Unicode does not take apart."""
_ASCII_WORDS = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256))
"""Lower case of letters and digits, blanks for the rest."""
# The capital that begins a part of a compound: parse|Http|Header, utf8|Decode, HTTP|Server; not URLs, not B2B.
# It comes first in the pattern, so that the search runs over the rest of the text at once.
_SEAM = re.compile("[A-Z](?:(?<=[a-z][A-Z])|(?<=[a-z][0-9][A-Z])|(?<=[a-z][0-9]{2}[A-Z])|(?<=[A-Z]{2})(?=[a-z]{2}))")
_WORD_IN_MIXED_CASE = re.compile("[A-Za-z0-9]+")
_ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_LONGEST_COMPOUND = 60
"""A longer word in mixed case is a key or a picture, not a name."""
_LONGEST_KNOWN, _MOST_KNOWN = 40, 40_000
_local = threading.local()


def tokenize(text: str, language: str = ENGLISH) -> list[str]:
    """Tokens of `text` in order, as indexed and as searched; behind them the parts of words in camel case.

    Stop words are gone unless nothing else is left.

    Args:
        language: Of words in Latin script: English, or one of `FUNCTION_WORDS`.
    """
    known, known_ascii = _KNOWN.get(language) or _KNOWN.setdefault(language, _caches(language))
    if _SEAM.search(text):
        text = f"{text} {_parts_of_compounds(text)}"
    if text.isascii():
        words = text.encode().translate(_ASCII_WORDS).split()
        return list(filter(None, map(known_ascii.__getitem__, words))) or [_stem(language, w.decode()) for w in words]
    found = _TOKENS.findall(_normalized(text).lower())
    tokens: list[str] = []
    for word in found:
        if word[0] >= _FIRST_UNSPACED and is_unspaced(word):
            tokens += _pieces(word)
        elif (token := known[word]) is not None:
            tokens.append(token)
    return tokens or [_token_of(word, language) for word in found]


def words_of(text: str) -> list[str]:
    """Words of `text` in order, lower-cased, stop words included, and its runs of scripts without blanks, whole; behind
    them the parts of words in camel case."""
    if _SEAM.search(text):
        text = f"{text} {_parts_of_compounds(text)}"
    if text.isascii():
        return text.encode().translate(_ASCII_WORDS).decode().split()
    found: list[str] = _TOKENS.findall(_normalized(text).lower())
    return found


def unaccented(word: str) -> str:
    """A lower-case word of Latin or Greek script without accents: ``muller``, ``strasse``, ``lodz``; else as it is."""
    if not _LETTERS_WITH_ACCENTS(word):
        return word
    decomposed = unicodedata.normalize("NFD", word.translate(_OTHER_LETTERS))
    return "".join(letter for letter in decomposed if not "\u0300" <= letter <= "\u036f")


def is_unspaced(word: str) -> bool:
    """Whether a word or token is of a script that writes words without blanks."""
    return bool(_IS_CJK(word) or _IS_SPACELESS(word))


def _pieces(run: str) -> list[str]:
    """Tokens of a run of characters that has no blanks between its words."""
    if _IS_CJK(run):
        return [*run, *map(add, run, run[1:])]
    run = run.translate(_ZERO_WIDTH)
    return list(map("".join, zip(run, run[1:], run[2:], strict=False))) or [run]


def _normalized(text: str) -> str:
    """NFKC, in which full-width punctuation may be blanks: Chinese text is mostly normalised but for that."""
    if unicodedata.is_normalized("NFKC", text):
        return text
    text = _FULL_WIDTH.sub(" ", text)
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


class _Known(dict[str, str | None]):
    """Word -> its token, None for a stop word: most words of a text were met before."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language
        self._stop_words = FUNCTION_WORDS.get(language, STOP_WORDS)

    def __missing__(self, word: str) -> str | None:
        token = None if word in self._stop_words else _token_of(word, self._language)
        if len(word) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[word] = token
        return token


class _KnownASCII(dict[bytes, str | None]):
    """The same of words as bytes, which are cut three times faster than text."""

    def __init__(self, known: _Known) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, word: bytes) -> str | None:
        token = self._known[word.decode()]
        if len(word) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[word] = token
        return token


def _caches(language: str) -> tuple[_Known, _KnownASCII]:
    known = _Known(language)
    return known, _KnownASCII(known)


_KNOWN: dict[str, tuple[_Known, _KnownASCII]] = {}


def _parts_of_compounds(text: str) -> str:
    """The parts of each word in camel case, so that it is found by them as well as whole: "parse Http Header"."""
    parts: list[str] = []
    stop = 0
    for seam in _SEAM.finditer(text):
        start = seam.start()
        if start < stop:
            continue
        while start > stop and text[start - 1] in _ALPHANUMERIC:
            start -= 1
        word = _WORD_IN_MIXED_CASE.match(text, start)
        stop = word.end() if word else seam.end()
        if word and stop - start <= _LONGEST_COMPOUND:
            parts.append(_SEAM.sub(r" \g<0>", word[0]))
    return " ".join(parts)


def term_id(token: str) -> int:
    """A stable unsigned 32-bit id of a token, for sparse vectors. (Two tokens share one in about 1 of 40,000.)"""
    return zlib.crc32(token.encode("utf-8", "surrogatepass"))


def idf(documents: int, frequency: int) -> float:
    """Lucene's inverse document frequency, >= 0.

    Args:
        documents: Number of chunks in the collection.
        frequency: Number of chunks with the term.

    Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, as in Lucene.
    """
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def term_weight(frequency: int, length: int, average_length: float) -> float:
    """The part of BM25 that the chunk alone decides, in (0, 1): ``tf / (tf + k1 (1 - b + b length / average))``."""
    return frequency / (frequency + K1 * (1 - B + B * length / max(average_length, 1e-9)))


def counts(tokens: Iterable[str]) -> Counter[str]:
    """Token -> number of times it occurs."""
    return Counter(map(sys.intern, tokens))


def _token_of(word: str, language: str) -> str:
    """Token of one word, which may be a stop word."""
    first = word[0]
    if first < "\u0370":
        return _stem(language, word)
    for of_script, low, high in _SCRIPTS:
        if low <= first <= high:
            return _stem(of_script, word)
    return word


def _stem(language: str, word: str) -> str:
    # A Stemmer keeps a cache and must not be shared by threads.
    stemmers: dict[str, Stemmer.Stemmer] = _local.__dict__.setdefault("stemmers", {})
    stemmer = stemmers.get(language)
    if stemmer is None:
        stemmer = stemmers[language] = Stemmer.Stemmer(language)
    stemmed: str = stemmer.stemWord(word)
    return stemmed
