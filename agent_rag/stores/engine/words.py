"""Tokens as words of an inverted index, for engines that have one."""

from __future__ import annotations

import hashlib

from ...retrieval.lexical import tokenize

# A whitespace tokenizer cuts longer tokens.
_MAX_TOKEN = 200


def words_of(text: str) -> list[str]:
    """Tokens as they are indexed: without blanks, and short."""
    return [
        word if len(word) <= _MAX_TOKEN else f"#{hashlib.sha256(word.encode()).hexdigest()}" for word in tokenize(text)
    ]
