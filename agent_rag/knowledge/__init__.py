"""The KnowledgeBase, the only door to a store, and the documents that go through it."""

from .document import Document, WriteReport
from .knowledge_base import KnowledgeBase

__all__ = ["Document", "KnowledgeBase", "WriteReport"]
