"""Vectors for tests of approximate search, and the share of the nearest that a store finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from agent_rag.filters import FilterLike
from agent_rag.stores import PostgresStore

Vectors = npt.NDArray[np.float32]


def clustered(count: int, dimensions: int = 32, seed: int = 5) -> Vectors:
    """Unit vectors around 200 centres, as texts are."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(200, dimensions))
    vectors = centres[rng.integers(0, 200, count)] + rng.normal(size=(count, dimensions)) * 0.6
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1)[:, None]).astype(np.float32)
    return unit


async def recall(
    store: PostgresStore, vectors: Vectors, queries: Vectors, where: FilterLike | None, mask: Any, top: int = 10
) -> float:
    """Share of the `top` nearest of the `mask` that a search finds in the collection "c", whose documents are named
    ``d`` and the row of their vector. Scores and order of the hits are checked."""
    found = 0
    for query in queries:
        scores = np.where(mask, vectors @ query, -9.0)
        best = set(np.argsort(-scores)[:top].tolist())
        hits = await store.search("c", query.tolist(), top, where)
        rows = [int(hit.document_id[1:]) for hit in hits]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.score for hit in hits] == pytest.approx(scores[rows].tolist(), abs=1e-5)
        found += len(best & set(rows))
    return found / (top * len(queries))
