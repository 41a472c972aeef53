"""What is indexed of a chunk for keyword search, and what is asked for: fields of one bag of tokens.

A chunk is one bag with one length, so that BM25 is the same on every store. Tokens of the fields beside the words begin
with a prefix that no word can have; a query gives each of them the weight of its field. (Measured against a BM25 of its
own for each field on 9 sets: nDCG@10 within .003 on six, .009 at most.)

A word with accents is indexed, and asked for, as it is and once more without them; so a question without accents finds
it, and where they are right the exact word is first. (Questions whose accents were left out: recall in xquad_en .96 to
1.0, of German words 0 to .91; as written nothing changes.)

A chunk says itself which fields it has (`Chunk.analysis`), so that it is indexed in the same way whenever that is done
again. All chunks of a collection should have the same: one with more fields than others outscores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, pairwise

from ..documents import Chunk
from .languages import FUNCTION_WORDS
from .lexical import ENGLISH, STOP_WORDS, is_unspaced, tokenize, unaccented, words_of

__all__ = [
    "FIELDS",
    "FIELD_PREFIXES",
    "GRAMS",
    "WORDS",
    "fields_of",
    "has_grams",
    "index_tokens",
    "language_of",
    "query_weights",
]

WORDS = "words"
"""What a chunk without `Chunk.analysis` has."""
FIELDS = "words+title+pairs"
"""Words, words of title and headings once more, and pairs of neighbouring words."""
GRAMS = "words+title+pairs+grams"
"""The same and the four-character parts of words: for rich endings, compounds, names in code, and typing errors."""

TITLE_WEIGHT = 0.2
PAIR_WEIGHT = 0.05
"""(.1 and .2 are as good on short documents, and cost .003 recall at 2,000 tokens of long English prose.)"""
GRAM_WEIGHT = 0.2

PLAIN_WEIGHT = 0.5
"""Of a word without its accents, beside 1 for the word as it was asked for."""

CORRECTION_WEIGHT = 0.7
"""Beside 1 for a word that is there. (Questions with one typing error gain .022 nDCG@10 in xquad_en, .027 in scifact;
those without change by +.002 and -.002; .5 and 1 are as good.)"""

_TITLE, _PAIR, _GRAM = "t:", "p:", "g:"
FIELD_PREFIXES = (_TITLE, _PAIR, _GRAM)
"""How the tokens of the fields beside the words begin."""
_GRAM_SIZE = 4
_LONGEST_WORD = 40
"""A longer one is a key or a picture."""
_MOST_KNOWN = 20_000


def fields_of(*, grams: bool, language: str = ENGLISH) -> str:
    """A `Chunk.analysis`; a language other than English stands at its end."""
    fields = GRAMS if grams else FIELDS
    return fields if language == ENGLISH else f"{fields}+{language}"


def has_grams(analysis: str | None) -> bool:
    """Whether parts of words are indexed."""
    return "grams" in (analysis or "").split("+")


def language_of(analysis: str | None) -> str:
    """Whose function words are left out and whose endings are cut, in Latin script."""
    last = (analysis or "").rpartition("+")[2]
    return last if last in FUNCTION_WORDS else ENGLISH


def index_tokens(chunk: Chunk) -> list[str]:
    """Tokens of `Chunk.indexed_text`, then those of the other fields that the chunk has; its length is their number."""
    text, language = chunk.indexed_text, language_of(chunk.analysis)
    words = tokenize(text, language)
    if chunk.analysis is None:
        return words
    fields = chunk.analysis.split("+")
    tokens = words + _plain(text, language)
    if "title" in fields and chunk.embed_text is None:
        path = " ".join(part for part in (chunk.title, *chunk.heading_path) if part)
        tokens += [_TITLE + word for word in tokenize(path, language) + _plain(path, language)] if path else ()
    if "pairs" in fields:
        tokens += _pairs(words)
    if "grams" in fields:
        tokens += _grams(text)
    return tokens


def query_weights(
    text: str, *, grams: bool = True, corrections: Mapping[str, str] | None = None, language: str = ENGLISH
) -> dict[str, float]:
    """Token -> weight of its field, times its count in a query, in order of their fields.

    Args:
        grams: Whether to ask for parts of words, which only some collections have.
        corrections: Misspelt word -> a word that is asked for beside it, with `CORRECTION_WEIGHT`.
        language: Of the collection.
    """
    words = tokenize(text, language)
    weights: dict[str, float] = {}
    for tokens, weight in ((words, 1.0), (_plain(text, language), PLAIN_WEIGHT)):
        for token in tokens:
            weights[token] = weights.get(token, 0.0) + weight
    for word in words_of(text) if corrections else ():
        if corrections and word in corrections:
            for token in tokenize(corrections[word], language):
                weights[token] = weights.get(token, 0.0) + CORRECTION_WEIGHT
    weights |= {_TITLE + token: TITLE_WEIGHT * count for token, count in weights.items()}
    for tokens, weight in ((_pairs(words), PAIR_WEIGHT), (_grams(text) if grams else [], GRAM_WEIGHT)):
        for token in tokens:
            weights[token] = weights.get(token, 0.0) + weight
    return weights


def _plain(text: str, language: str) -> list[str]:
    """Tokens of the words that have accents, without these; none where a stemmer takes them away anyway."""
    if text.isascii():
        return []
    found: list[str] = []
    for word in words_of(text):
        if not word.isascii() and (plain := unaccented(word)) != word:
            tokens = tokenize(plain, language)
            found += tokens if tokens != tokenize(word, language) else ()
    return found


def _pairs(words: list[str]) -> list[str]:
    """Neighbouring words; of scripts without blanks the words are pieces that overlap already."""
    found = [f"{_PAIR}{first}_{second}" for first, second in pairwise(words)]
    if "".join(words).isascii():
        return found
    spaced = [not is_unspaced(word) for word in words]
    return [pair for pair, first, second in zip(found, spaced, spaced[1:], strict=False) if first and second]


def _grams(text: str) -> list[str]:
    return list(chain.from_iterable(map(_known.__getitem__, words_of(text))))


class _Known(dict[str, tuple[str, ...]]):
    """Word -> its parts, of the word between two marks; none of stop words, numbers and scripts without blanks."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        marked = f"_{word}_"
        if word in STOP_WORDS or word.isdigit() or len(word) > _LONGEST_WORD or is_unspaced(word):
            return ()
        starts = range(max(1, len(marked) - _GRAM_SIZE + 1))
        found = tuple(f"{_GRAM}{marked[start : start + _GRAM_SIZE]}" for start in starts)
        if len(self) >= _MOST_KNOWN:
            self.clear()
        self[word] = found
        return found


_known = _Known()
