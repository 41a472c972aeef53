"""What the middleware of every framework is built on: one constructor, one start of a turn, one kind of chat model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, Unpack

from ...answers import CheckedAnswer
from ...chat import ChatMessage, ChatReply, ToolSpec
from ...content import ContentBlock, TextBlock
from ...errors import ConfigurationError
from .hint import Hint
from .options import Options
from .parameters import Parameters as RAGParameters
from .pipeline import takes_argument
from .rag import RAGMiddleware
from .search import KnowledgeBaseLike
from .turn import Ask, History, Turn

CITATIONS_KEY = "agent_rag_citations"
"""Where adapters keep the citations of a turn, as plain JSON without text, in what their framework stores."""

CHECK_KEY = "agent_rag_answer_check"
"""Where adapters keep the check of an answer beside it, as plain JSON: of passages only what the answer quotes."""

KnowledgeBases = KnowledgeBaseLike | Sequence[KnowledgeBaseLike] | RAGMiddleware


class FrameworkChatModel(ABC):
    """A framework's chat model as a `ChatModel`, for `LLMReranker` and `LLMQueryRewriter`."""

    supports_images: bool = False

    def __init__(self, model: Any) -> None:
        self._model = model

    async def __call__(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_tokens: int | None = None
    ) -> ChatReply:
        return ChatReply(text=await self.answer(messages, max_tokens))

    @abstractmethod
    async def answer(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> str:
        """The text that the framework's model answers; `max_tokens` where the framework has an option for it."""


class Adapter:
    """The middleware of a framework: a `RAGMiddleware` of the core, and what the framework needs to know of it."""

    Parameters = RAGParameters
    chat_models: ClassVar[tuple[tuple[type | tuple[type, ...], type[FrameworkChatModel]], ...]] = ()
    """Classes of the framework that are taken as `rerank_model`, each with its wrapper."""

    def __init__(
        self,
        knowledge_bases: KnowledgeBases,
        parameters: RAGParameters | None = None,
        rerank_model: Any = None,
        *,
        name: str | None = None,
        context: Callable[..., Any] | None = None,
        supports_images: bool | None = None,
        **options: Unpack[Options],
    ) -> None:
        """
        Args:
            knowledge_bases: As for `agent_rag.RAGMiddleware`, or such an object (then without its other arguments).
            rerank_model: A chat model of the framework, or whatever `LLMReranker` takes.
            name: As for `agent_rag.RAGMiddleware`; instances of one mode on one agent need different ones.
            context: From what the framework knows of the caller (or from nothing) to what the `scope` callable gets;
                default: that. Called when a turn begins.
            supports_images: Whether the agent's model takes image parts; default: what the framework says, else no.
            options: Further arguments of `agent_rag.RAGMiddleware`.

        Raises: ConfigurationError: as `agent_rag.RAGMiddleware`; arguments beside one.
        """
        if isinstance(knowledge_bases, RAGMiddleware):
            if parameters is not None or rerank_model is not None or name is not None or options:
                raise ConfigurationError("parameters and options belong to the RAGMiddleware that was passed")
            self.rag = knowledge_bases
        else:
            self.rag = RAGMiddleware(knowledge_bases, parameters, self._chat_model(rerank_model), name=name, **options)
        self._context = context
        self._supports_images = supports_images
        self._plug()

    def _plug(self) -> None:
        """Override to set up what the framework's own base class needs; `rag` is there."""

    @classmethod
    def of(cls, middleware: Any) -> Self:
        """`middleware` itself, or one around what the constructor takes."""
        return middleware if isinstance(middleware, cls) else cls(middleware)

    @classmethod
    def _chat_model(cls, model: Any) -> Any:
        wrapper = next((wrapper for kinds, wrapper in cls.chat_models if isinstance(model, kinds)), None)
        return model if wrapper is None else wrapper(model)

    def _start(
        self,
        ask: Ask | None,
        history: History,
        carried: Any = None,
        *,
        supports_images: bool | None = None,
        beside: Sequence[Adapter] = (),
    ) -> Turn:
        """A new turn.

        Args:
            carried: What the framework knows of the caller.
            supports_images: What the framework says of its model, where this was not told.
            beside: Other instances on the agent, which share the turn.
        """
        told = [one._supports_images for one in (self, *beside) if one._supports_images is not None]
        contexts = [one._context for one in (self, *beside) if one._context is not None]
        if contexts:
            carried = contexts[0](carried) if takes_argument(contexts[0]) else contexts[0]()
        return self.rag.start_turn(
            ask,
            history=history,
            context=carried,
            supports_images=any(told) if told else bool(supports_images),
        )


async def checked_with(middlewares: Iterable[RAGMiddleware], answer: Any, turn: Turn) -> dict[str, Any]:
    """What stands beside an answer: its check under `CHECK_KEY`, if one of the instances is to make it."""
    for rag in middlewares:
        await rag.check_turn(answer if isinstance(answer, str) else "", turn)
    return {} if turn.checked is None else {CHECK_KEY: turn.checked.model_dump(mode="json")}


def check_in(slots: Iterable[Mapping[str, Any] | None]) -> CheckedAnswer | None:
    """The last check in what stands beside answers."""
    found = [slot[CHECK_KEY] for slot in slots if slot and slot.get(CHECK_KEY)]
    return CheckedAnswer.model_validate(found[-1]) if found else None


def plain_text(blocks: Iterable[ContentBlock]) -> str | None:
    """Blocks of text only as one string, which every model endpoint takes; None where there are images."""
    listed = list(blocks)
    if not all(isinstance(block, TextBlock) for block in listed):
        return None
    return "\n".join(block.text for block in listed if isinstance(block, TextBlock))


def derived(original: Any, subclass: Any) -> Any:
    """A copy of `original` as an object of `subclass`, a subclass of its class. `original` is not changed."""
    made = object.__new__(subclass)  # some classes of models are factories in their __new__
    state = original.__getstate__()
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        made.__dict__.update(state)
    return made


def named_as(made: Any, kind: Any) -> Any:
    """`made`, a class, under the name of `kind`: frameworks tell some objects by the name of their class."""
    made.__name__, made.__qualname__, made.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return made


def shown_now(hint: Hint) -> Hint:
    """A hint to be inserted in this call although it is one to persist: its framework stores it elsewhere."""
    return hint.model_copy(update={"persist": False})
