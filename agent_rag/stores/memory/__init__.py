"""Records in this process, searched with numpy: the reference that the others are compared with."""

from .store import MemoryStore

__all__ = ["MemoryStore"]
