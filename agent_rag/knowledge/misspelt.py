"""Words of a query that nothing in a collection has, and what is asked for beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from ..documents import VectorSearchResult
from ..retrieval.lexical import tokenize, words_of
from ..retrieval.spelling import correctable, corrections, spellings
from ..stores.native import NativeStoreBase

_MOST_WORDS = 4
"""Of one search: each costs some hundred look-ups, and more are hardly errors of typing."""


async def corrections_for(
    store: NativeStoreBase, collection: str, texts: Sequence[str], results: Iterable[VectorSearchResult]
) -> dict[str, str]:
    """Misspelt word -> the word of the collection that is one letter away.

    Args:
        results: What was found without: the words that stand there need no look at the collection.
    """
    suspects = {word: token for text in texts for word, token in correctable(text).items()}
    most = max(1, len(suspects) // 2)
    if suspects:
        seen = {token for result in results for token in tokenize(result.chunk.indexed_text)}
        suspects = {word: token for word, token in suspects.items() if token not in seen}
    if not suspects:
        return {}
    known = await store.word_counts(collection, sorted(set(suspects.values())))
    if known is None:
        return {}
    unknown = [word for word, token in suspects.items() if token not in known]
    if not unknown or len(unknown) > min(most, _MOST_WORDS):  # many: a question in another language
        return {}
    near = await asyncio.to_thread(lambda: sorted({token for word in unknown for token in spellings(word)}))
    return corrections(unknown, await store.word_counts(collection, near) or {})


def shown_corrections(corrected: Mapping[str, str], results: Iterable[VectorSearchResult]) -> dict[str, str]:
    """Misspelt word -> the word as what was found has it. Others are left out: a collection has words of other scopes,
    which nobody else may see."""
    if not corrected:
        return {}
    found = {tokenize(word)[0]: word for result in results for word in words_of(result.chunk.indexed_text)}
    tokens = {word: tokenize(other)[0] for word, other in corrected.items()}
    return {word: found[token] for word, token in tokens.items() if token in found}
