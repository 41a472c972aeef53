"""Arrays that grow at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_GROWTH = 1.25


class Growing:
    """Rows of numbers. A view that was taken keeps what it shows: rows are added behind it, never moved within it."""

    def __init__(self, dtype: npt.DTypeLike, width: tuple[int, ...] = ()) -> None:
        self._data: npt.NDArray[Any] = np.empty((0, *width), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def view(self) -> npt.NDArray[Any]:
        return self._data[: self._count]

    def reserve(self, rows: int) -> None:
        """Make room for so many rows in all."""
        held = len(self._data)
        if rows <= held:
            return
        grown = np.empty((max(rows, int(held * _GROWTH), 64), *self._data.shape[1:]), self._data.dtype)
        grown[: self._count] = self.view
        self._data = grown

    def extend(self, rows: npt.ArrayLike) -> None:
        added = np.asarray(rows, self._data.dtype)
        end = self._count + len(added)
        self.reserve(end)
        self._data[self._count : end] = added
        self._count = end  # last, so that what fails has added nothing

    def keep(self, rows: npt.NDArray[Any]) -> None:
        """Keep the rows with these numbers, or where this mask is true, in an array of their own."""
        self._data = self.view[rows]
        self._count = len(self._data)
