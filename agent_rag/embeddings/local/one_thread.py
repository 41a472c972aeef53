"""Keeps the matrix library of numpy to one thread, while texts are embedded in several threads of ours."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class OneThread:
    """A library that shares one product among threads makes them wait for each other at its end, thousands of times a
    text. Where other programs use the cores too, or a container has fewer than the machine, they wait in vain:
    1,570 ms of CPU time for a chunk instead of 128 (2 cores, load 16). Texts of their own need not wait.

    Other users of numpy in this process get one thread meanwhile. The first block that is entered sets it, the last
    one that is left gives it back.
    """

    def __init__(self) -> None:
        try:
            import threadpoolctl
        except ImportError:
            self._library: Any = None
        else:
            self._library = threadpoolctl.ThreadpoolController().select(user_api="blas")
        self._lock = threading.Lock()
        self._blocks = 0
        self._limit: Any = None

    @property
    def works(self) -> bool:
        """Whether there is a library whose threads can be set."""
        return bool(self._library)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._blocks += 1
            if self._blocks == 1 and self.works:
                self._limit = self._library.limit(limits=1)
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if self._blocks == 0 and self._limit is not None:
                    self._limit.restore_original_limits()
                    self._limit = None
