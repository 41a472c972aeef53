"""The KnowledgeBase, the only door to a store, and the documents that go through it."""

from .document import Document, WriteReport
from .knowledge_base import KnowledgeBase
from .updating import DocumentChange

__all__ = ["Document", "DocumentChange", "KnowledgeBase", "WriteReport"]
