"""The framework-neutral middleware. Adapters are modules of their own, such as `agent_rag.middleware.langchain`."""

from .citation import Citation, Source
from .events import HintEvent, SearchFailed, ToolCallEvent
from .hint import Hint, with_hints
from .parameters import Parameters
from .rag import RAGMiddleware
from .tool import KnowledgeTool, ToolResult
from .turn import HINT_NAME, Turn, TurnRegistry

__all__ = [
    "HINT_NAME",
    "Citation",
    "Hint",
    "HintEvent",
    "KnowledgeTool",
    "Parameters",
    "RAGMiddleware",
    "SearchFailed",
    "Source",
    "ToolCallEvent",
    "ToolResult",
    "Turn",
    "TurnRegistry",
    "with_hints",
]
