"""Vectors in memory, compared exactly."""

from __future__ import annotations

import numpy as np
import pytest

from agent_rag.stores.rows.products import products
from agent_rag.stores.rows.vectors import VectorRows


def rows_of(count: int, dimensions: int = 8, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)


@pytest.mark.parametrize("shape", [(0, 4), (3, 4), (1_000, 256), (70_001, 256), (1, 17_000_000), (7, 3_000_000)])
def test_products_are_those_of_the_matrix(shape: tuple[int, int]) -> None:
    """Of small ones, and of large ones, which are computed in parts."""
    matrix, vector = rows_of(*shape), rows_of(1, shape[1], seed=2)[0]
    expected = matrix.astype(np.float64) @ vector.astype(np.float64)

    for _ in range(3):
        found = products(matrix, vector)

        assert found.dtype == np.float32
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-2)


@pytest.mark.parametrize("count", [0, 3, 700, 30_000])
def test_products_of_some_rows_come_in_their_order(count: int) -> None:
    """They are gathered in blocks."""
    matrix, vector = rows_of(50_000, 256), rows_of(1, 256, seed=2)[0]
    among = np.random.default_rng(3).permutation(50_000)[:count]

    found = products(matrix, vector, among)

    assert found == pytest.approx(products(matrix, vector)[among], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("distance", ["Cosine", "Dot", "Euclid", "Manhattan"])
def test_the_best_rows_are_those_of_64_bit_arithmetic(distance: str) -> None:
    """Of all live rows, of few of them and of most of them."""
    matrix, query = rows_of(3_000), rows_of(1, seed=2)[0]
    rows = VectorRows(8, distance)
    rows.append(matrix[:1_700])
    rows.append(matrix[1_700:])
    for row in range(0, 3_000, 7):
        rows.remove(row)
    a, b = matrix.astype(np.float64), query.astype(np.float64)
    expected = {
        "Cosine": a @ b / (np.linalg.norm(a, axis=1) * np.linalg.norm(b)),
        "Dot": a @ b,
        "Euclid": -np.linalg.norm(a - b, axis=1),
        "Manhattan": -np.abs(a - b).sum(axis=1),
    }[distance]

    live = np.array([row for row in range(3_000) if row % 7])
    for among in (None, live[live % 50 == 1], live[live % 5 > 0]):
        wanted = live if among is None else among
        found, scores = rows.nearest(query, 10, among)

        assert set(found.tolist()) == set(wanted[np.argsort(-expected[wanted])[:10]].tolist())
        assert scores == pytest.approx(expected[found], abs=1e-6)


def test_rows_that_tie_with_the_last_come_too() -> None:
    """Equal vectors have equal scores wherever they lie."""
    rows = VectorRows(256, "Cosine")
    matrix = rows_of(20_000, 256)
    matrix[[5, 9_999, 17_001, 19_999]] = matrix[5]
    rows.append(matrix)

    found, scores = rows.nearest(matrix[5], 2)

    assert sorted(found.tolist()) == [5, 9_999, 17_001, 19_999]
    assert len(set(scores.tolist())) == 1


def test_compacting_keeps_the_live_rows_in_order() -> None:
    """It tells where each row is now."""
    rows = VectorRows(2, "Cosine")
    rows.append(np.array([[3, 4], [1, 0], [0, 2]], dtype=np.float32))
    rows.remove(1)

    new_rows = rows.compact()

    assert new_rows.tolist() == [0, -1, 1]
    assert (len(rows), rows.live_count) == (2, 2)
    assert rows.vector(0) == pytest.approx([3, 4])
    assert rows.vector(1) == pytest.approx([0, 2])


def test_rows_that_fail_are_not_there() -> None:
    """A vector may be as long as 32-bit numbers make it, also where numpy was told to raise."""
    rows = VectorRows(2, "Cosine")

    with np.errstate(all="raise"):
        rows.append(np.array([[1, 0], [3e38, 3e38]], dtype=np.float32))
    with pytest.raises(ValueError):
        rows.append(np.ones((4, 3), dtype=np.float32))

    assert (len(rows), rows.live_count, len(rows.alive)) == (2, 2, 2)
    assert rows.vector(1) == pytest.approx([3e38, 3e38])
    assert sorted(rows.nearest(np.array([1, 0], dtype=np.float32), 2)[0].tolist()) == [0, 1]
