"""Tokens as words of an inverted index, for engines that have one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

# A whitespace tokenizer cuts longer tokens.
_MAX_TOKEN = 200


def indexed_words(tokens: Iterable[str]) -> list[str]:
    """Tokens as they are indexed: without blanks, and short."""
    return [word if len(word) <= _MAX_TOKEN else f"#{hashlib.sha256(word.encode()).hexdigest()}" for word in tokens]
