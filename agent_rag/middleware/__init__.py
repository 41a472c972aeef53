"""The framework-neutral middleware. Adapters are modules of their own, such as `agent_rag.middleware.langchain`."""

from ..chat import HINT_NAME
from .core.citation import Citation, Source
from .core.events import AnswerChecked, HintEvent, SearchFailed, ToolCallEvent
from .core.hint import Hint, with_hints
from .core.options import Options
from .core.parameters import Parameters
from .core.rag import RAGMiddleware
from .core.result import ToolResult
from .core.search import KnowledgeBaseLike
from .core.search_results import search_result_blocks
from .core.tool import KnowledgeTool
from .core.turn import Turn, TurnRegistry

__all__ = [
    "HINT_NAME",
    "AnswerChecked",
    "Citation",
    "Hint",
    "HintEvent",
    "KnowledgeBaseLike",
    "KnowledgeTool",
    "Options",
    "Parameters",
    "RAGMiddleware",
    "SearchFailed",
    "Source",
    "ToolCallEvent",
    "ToolResult",
    "Turn",
    "TurnRegistry",
    "search_result_blocks",
    "with_hints",
]
