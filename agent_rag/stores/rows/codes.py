"""8-bit codes of vectors, a quarter of their memory: sign bits find 3 %, codes the best of those, the file decides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..engine.records import Matrix, Rows
from .vectors import Mask, Scores, first_scores, similarity

_PIECE = 65_536
"""Rows that are allocated at once: doubling one array would break the promise at the moment that it grows."""
_SIGN_SHARE = 0.04
"""Share of the rows that their sign bits let through. (200,000 real embeddings: 3 % kept .9945 of the best 10.)"""
_FEWEST = 20_000
_RESCORED = 50
"""Rows that codes let through, at least; 20 gave a recall of 1.0 there."""


class CodeRows:
    """Rows are added at the end; readers pass what they know to be alive."""

    def __init__(self, dimensions: int, distance: str) -> None:
        self._dimensions, self._distance = dimensions, distance
        self._words = (dimensions + 63) // 64
        self._pieces: list[_Piece] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def reserve(self, rows: int) -> None:
        """Nothing: pieces are of one size."""

    def append(self, matrix: Matrix) -> None:
        done = 0
        while done < len(matrix):
            used = self._count % _PIECE
            if used == 0:
                self._pieces.append(_Piece(self._dimensions, self._words))
            some = matrix[done : done + _PIECE - used]
            self._pieces[-1].put(used, some)
            done += len(some)
            self._count += len(some)

    def nearest(
        self, query: Matrix, limit: int, alive: Mask, among: Rows | None, read: Callable[[Rows], Matrix]
    ) -> tuple[Rows, Scores]:
        """The best `limit` rows and those that tie with the last of them, scored by their vectors in the file."""
        if limit <= 0:
            return np.empty(0, np.intp), np.empty(0)
        unit = query.astype(np.float64)
        if self._distance == "Cosine":
            unit /= np.linalg.norm(unit) or 1.0
        rows = np.flatnonzero(alive) if among is None else among
        fewest = max(_FEWEST, 20 * limit, int(len(alive) * _SIGN_SHARE))
        if self._distance == "Cosine" and among is None and len(rows) > 2 * fewest:
            rows = self._by_signs(unit, alive, fewest)
        wanted = max(_RESCORED, 5 * limit)
        if len(rows) > wanted:
            scores = self._by_codes(rows, unit.astype(np.float32)).astype(np.float64)
            rows, _ = first_scores(rows, scores, wanted)
        return first_scores(rows, similarity(read(rows).astype(np.float64), self._distance, unit), limit)

    def _by_signs(self, query: Scores, alive: Mask, count: int) -> Rows:
        """About `count` live rows whose numbers have most signs in common with the query's."""
        wanted = _signs(query[None].astype(np.float32), self._words)[:, 0]
        apart = np.concatenate([piece.apart(wanted) for piece in self._pieces])[: len(alive)]
        apart[~alive] = 65_535
        histogram = np.cumsum(np.bincount(apart, minlength=self._dimensions + 1))
        bound = int(np.searchsorted(histogram, count))
        return np.flatnonzero(apart <= min(bound, self._dimensions))

    def _by_codes(self, rows: Rows, query: Matrix) -> npt.NDArray[np.float32]:
        scores = np.empty(len(rows), np.float32)
        pieces = rows // _PIECE
        for number in np.unique(pieces).tolist():
            of_piece = np.flatnonzero(pieces == number)
            scores[of_piece] = self._pieces[number].products(rows[of_piece] - number * _PIECE, query)
        return scores


class _Piece:
    def __init__(self, dimensions: int, words: int) -> None:
        self.codes = np.zeros((_PIECE, dimensions), np.int8)
        self.scales = np.zeros(_PIECE, np.float32)
        self.signs = np.zeros((words, _PIECE), np.uint64)

    def put(self, at: int, matrix: Matrix) -> None:
        """Store rows from `at` on."""
        end = at + len(matrix)
        scales = np.abs(matrix).max(axis=1, initial=0.0) / 127
        self.scales[at:end] = scales
        self.codes[at:end] = np.rint(matrix / np.where(scales > 0, scales, 1.0)[:, None])
        self.signs[:, at:end] = _signs(matrix, len(self.signs))

    def apart(self, signs: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
        """In how many signs each row differs."""
        found = np.zeros(_PIECE, np.uint16)
        for row, word in zip(self.signs, signs, strict=True):
            found += np.bitwise_count(row ^ word)
        return found

    def products(self, rows: Rows, query: Matrix) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = (self.codes[rows].astype(np.float32) @ query) * self.scales[rows]
        return found


def _signs(matrix: Matrix, words: int) -> npt.NDArray[np.uint64]:
    """A bit for each number above 0; shape ``(words, rows)``."""
    packed = np.zeros((len(matrix), words * 8), np.uint8)
    bits = np.packbits(matrix > 0, axis=1)
    packed[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(packed.view(np.uint64).T)
