"""The KnowledgeBase, the only door to a store, and the documents that go through it."""

from .document import Document, WriteReport
from .finding import DocumentMatches, FindResult, TextMatch
from .knowledge_base import KnowledgeBase
from .outline import DocumentOutline, OutlineEntry
from .updating import DocumentChange

__all__ = [
    "Document",
    "DocumentChange",
    "DocumentMatches",
    "DocumentOutline",
    "FindResult",
    "KnowledgeBase",
    "OutlineEntry",
    "TextMatch",
    "WriteReport",
]
