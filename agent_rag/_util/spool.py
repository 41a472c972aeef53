"""Objects on disk: what is too much for memory between being made and being used."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, Generic, Self, TypeVar

T = TypeVar("T")


class Spool(Generic[T]):
    """Objects written one after the other into a private file, then read in that order any number of times.

    For one thread and one reader at a time. Leaving it as a context manager closes the file, and so does `aclose`, off
    the event loop: to give a large file back takes a while.
    """

    def __init__(self, file: BinaryIO, count: int = 0) -> None:
        """
        Args:
            file: Open for reading, and for writing where something is to be added.
            count: Objects that it has.
        """
        self._file = file
        self._count = count

    def __len__(self) -> int:
        return self._count

    def append(self, one: T) -> None:
        """Raises: OSError: the disk is full."""
        pickle.dump(one, self._file, protocol=5)
        self._count += 1

    def __iter__(self) -> Iterator[T]:
        self._file.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._file)

    def close(self) -> None:
        self._file.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def in_threads(items: Iterable[T]) -> AsyncIterator[T]:
    """`items`, each made in a thread."""
    iterator = iter(items)
    end = object()
    while (one := await asyncio.to_thread(next, iterator, end)) is not end:
        yield one  # type: ignore[misc]
