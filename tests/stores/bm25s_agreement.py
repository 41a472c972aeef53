"""Comparison of keyword search with bm25s, an independent implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from agent_rag.retrieval.lexical import tokenize
from agent_rag.stores.base import RetrieveRequest, VectorStoreBase


async def agreement(store: VectorStoreBase, collection: str, texts: Mapping[str, str], queries: Sequence[str]) -> float:
    """Share of `queries` with the same 10 documents in the same order, over documents of one chunk each.

    Args:
        texts: Document id -> text, as they are stored.
    """
    bm25s = pytest.importorskip("bm25s")
    names = np.array(sorted(texts))
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index([tokenize(texts[name]) for name in names], show_progress=False)
    same = 0
    for query in queries:
        scores = index.get_scores(tokenize(query))
        best = np.lexsort((np.arange(len(names)), -scores))[:10]
        expected = [str(names[n]) for n in best if scores[n] > 0]
        hits = await store.retrieve(collection, RetrieveRequest(texts=[query], limit=10))
        same += [hit.document_id for hit in hits] == expected
    return same / len(queries)
