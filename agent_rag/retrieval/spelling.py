"""Words of a query that are one typing error away from words of the collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_lowercase

from .lexical import STOP_WORDS, tokenize, words_of

__all__ = ["correctable", "corrections", "spellings"]

_SHORTEST = 5
"""Shorter words have too many neighbours."""
_LONGEST = 24


def correctable(text: str) -> dict[str, str]:
    """Words of `text` that may be misspelt, as they are written there in lower case -> their tokens."""
    found = {}
    for word in words_of(text):
        plain = word.isascii() and word.isalpha() and _SHORTEST <= len(word) <= _LONGEST
        if plain and word not in STOP_WORDS:
            found[word] = tokenize(word)[0]
    return found


def spellings(word: str) -> dict[str, str]:
    """Tokens of the words that are one letter away from `word` (left out, added, changed, or swapped with the next) and
    begin as it does, each with the first of these words. (Names that nobody has are mostly near words with another
    first letter, and few errors are there.)"""
    parts = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    near = [left + right[1:] for left, right in parts if right]
    near += [left + right[1] + right[0] + right[2:] for left, right in parts if len(right) > 1]
    near += [left + letter + right[1:] for left, right in parts if right for letter in ascii_lowercase]
    near += [left + letter + right for left, right in parts for letter in ascii_lowercase]
    found: dict[str, str] = {}
    for other in near:
        if other != word and other not in STOP_WORDS:
            found.setdefault(tokenize(other)[0], other)
    return found


def corrections(words: Iterable[str], frequency: Mapping[str, int]) -> dict[str, str]:
    """Word -> a word near it with the token that most chunks have; words with none near are left out.

    Args:
        frequency: Token -> number of chunks that have it, of all tokens of `spellings` that there are.
    """
    found = {}
    for word in words:
        near = {token: other for token, other in spellings(word).items() if frequency.get(token)}
        if near:
            found[word] = near[max(near, key=lambda token: (frequency[token], near[token]))]
    return found
