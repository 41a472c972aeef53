"""What this process remembers by a name that nobody can guess."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values by name, the latest `most` of them. Safe to use from several threads."""

    def __init__(self, most: int = 1_024) -> None:
        self._most = most
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, name: str, value: T) -> None:
        with self._lock:
            self._values[name] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def of(self, name: str) -> T | None:
        return self._values.get(name)
