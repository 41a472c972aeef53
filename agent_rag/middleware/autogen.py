"""AutoGen: ``AssistantAgent("a", client, max_tool_iterations=5, **rag_options(RAGMiddleware([knowledge])))``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._util.extras import needs
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.hint import Hint, with_hints
from .core.rag import RAGMiddleware
from .core.result import ToolResult
from .core.turn import Turn

_messages: Any = needs("autogen", "autogen_agentchat.messages", purpose="agent_rag.middleware.autogen")
_core: Any = needs("autogen", "autogen_core")
_contexts: Any = needs("autogen", "autogen_core.model_context")
_memories: Any = needs("autogen", "autogen_core.memory")
_models: Any = needs("autogen", "autogen_core.models")
_tools: Any = needs("autogen", "autogen_core.tools")


def rag_options(
    middleware: RAGMiddleware | Sequence[RAGMiddleware],
    *,
    context: Callable[[], Any] | None = None,
    supports_images: bool = False,
    model_context: Any = None,
    memory: Sequence[Any] = (),
    tools: Sequence[Any] = (),
    workbench: Sequence[Any] = (),
) -> dict[str, Any]:
    """The arguments `model_context`, `memory` and `workbench` of one `AssistantAgent` with retrieval.

    Static: a hint after the user's message, in the model's input only, with a `MemoryQueryEvent`. Agentic: tools, with
    a `MemoryQueryEvent` for each result that holds its citations. Call it anew for each agent: agents keep state.

    Args:
        context: Gives what the `scope` callable gets; called when a run begins, in the task of the run.
        supports_images: Whether the agent's model takes image parts; hints only, since AutoGen writes the images of
            tool results as base64 text.
        model_context, memory, tools, workbench: What the agent has besides; functions and tools go into a workbench.
    """
    middlewares = [middleware] if isinstance(middleware, RAGMiddleware) else list(middleware)
    kept = RAGContext(middlewares, model_context or _contexts.UnboundedChatCompletionContext())
    given = [_static_workbench(tools)] if tools else []
    own = [RAGWorkbench(middlewares, kept)] if any(rag.tools for rag in middlewares) else []
    return {
        "model_context": kept,
        # First, so that what others add is not taken for the user's words.
        "memory": [RAGMemory(middlewares, kept, context, supports_images=supports_images), *memory],
        "workbench": [*workbench, *given, *own],
    }


class RAGContext(_contexts.ChatCompletionContext):  # type: ignore[misc]
    """A model context around another: the hints are in what it gives to the model, not in what it keeps."""

    def __init__(self, middlewares: Sequence[RAGMiddleware], inner: Any) -> None:
        super().__init__()
        self.turn: Turn | None = None
        self._middlewares = middlewares
        self._inner = inner
        self._new: list[Any] = []
        self._ask: Any = None
        self._hints: list[tuple[Hint, Any]] = []

    async def add_message(self, message: Any) -> None:
        if _is_user(message):
            self._new.append(message)
        await self._inner.add_message(message)

    async def get_messages(self) -> list[Any]:
        messages = await self._inner.get_messages()
        # By value, since contexts may copy; not the last user message, since memories may add some.
        return with_hints(messages, self._hints, is_ask=lambda message: message == self._ask, is_hint=_is_hint)

    async def clear(self) -> None:
        self.turn, self._new, self._ask, self._hints = None, [], None, []
        await self._inner.clear()

    async def save_state(self) -> Mapping[str, Any]:
        return await self._inner.save_state()  # type: ignore[no-any-return]

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await self._inner.load_state(state)

    # --- for RAGMemory ---

    async def begin(self, context: Any, *, supports_images: bool) -> list[Hint]:
        """Start the turn of the messages added since the last one, and search."""
        new, self._new, self._hints = self._new, [], []
        # In a team the other agents' answers come as user messages too, under their names.
        asks = [message for message in new if message.source == "user"] or new
        self._ask = asks[-1] if asks else None
        messages = list(await self._inner.get_messages())
        self.turn = self._middlewares[0].start_turn(
            list(_blocks(self._ask.content)) if asks else None,
            history=lambda: list(_history(messages[: _last(messages, self._ask)])),
            context=context,
            supports_images=supports_images,
        )
        hints = [hint for rag in self._middlewares if (hint := await rag.hint(self.turn)) is not None]
        for hint in hints:
            message = _hint_message(hint)
            if hint.persist:
                await self._inner.add_message(message)
            self._hints.append((hint, message))
        return hints


class RAGMemory(_memories.Memory):  # type: ignore[misc]
    """Begins the turn: AutoGen asks its memories once for each turn, before the first model call."""

    def __init__(
        self,
        middlewares: Sequence[RAGMiddleware],
        kept: RAGContext,
        context: Callable[[], Any] | None,
        *,
        supports_images: bool,
    ) -> None:
        self._middlewares = middlewares
        self._kept = kept
        self._context = context
        self._supports_images = supports_images

    async def update_context(self, model_context: Any) -> Any:
        context = self._context() if self._context is not None else None
        hints = await self._kept.begin(context, supports_images=self._supports_images)
        found = [_memory_content(hint.text, hint.event.model_dump(mode="json")) for hint in hints if hint.event]
        return _memories.UpdateContextResult(memories=_memories.MemoryQueryResult(results=found))

    async def query(self, query: Any, cancellation_token: Any = None, **options: Any) -> Any:
        return _memories.MemoryQueryResult(results=[])

    async def add(self, content: Any, cancellation_token: Any = None) -> None:
        """Nothing: documents come into a knowledge base by ingestion."""

    async def clear(self) -> None:
        """Nothing: the knowledge bases stay."""

    async def close(self) -> None:
        """Nothing: the store is the caller's."""


class RAGWorkbench(_tools.StaticStreamWorkbench):  # type: ignore[misc]
    """The tools of all instances on an agent. Of this class, since AutoGen takes events from no other workbench."""

    def __init__(self, middlewares: Sequence[RAGMiddleware], kept: RAGContext) -> None:
        super().__init__([])
        self._middlewares = middlewares
        self._kept = kept

    async def list_tools(self) -> list[Any]:
        # Described anew each time, since fields of the stores may be known by now.
        listed = [tool for rag in self._middlewares for tool in await rag.list_tools(refresh=False)]
        return [{**tool.spec.model_copy(deep=True).model_dump(), "strict": False} for tool in listed]

    async def call_tool(
        self, name: str, arguments: Any = None, cancellation_token: Any = None, call_id: str | None = None
    ) -> Any:
        result = await self._answer(name, arguments, cancellation_token)
        return _tool_result(name, result)

    async def call_tool_stream(
        self, name: str, arguments: Any = None, cancellation_token: Any = None, call_id: str | None = None
    ) -> AsyncGenerator[Any, None]:
        result = await self._answer(name, arguments, cancellation_token)
        if result is not None and result.citations:
            about = {**result.structured(), "tool": name, "call_id": call_id}
            yield _messages.MemoryQueryEvent(content=[_memory_content(result.text, about)], source=name)
        yield _tool_result(name, result)

    async def _answer(self, name: str, arguments: Any, cancellation_token: Any) -> ToolResult | None:
        """None: there is no such tool, or the token was cancelled."""
        rag = next((rag for rag in self._middlewares if any(tool.name == name for tool in rag.tools)), None)
        if rag is None:
            return None
        answering = asyncio.ensure_future(rag.call_tool(arguments, self._kept.turn, name=name))
        if cancellation_token is not None:
            cancellation_token.link_future(answering)
        try:
            return await answering
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if cancellation_token is None or not cancellation_token.is_cancelled() or (task and task.cancelling()):
                answering.cancel()
                raise
            # An error from here would leave the run waiting for ever; its next model call sees the token.
            return None


def _tool_result(name: str, result: ToolResult | None) -> Any:
    text = result.text if result is not None else f"The tool {name} gave no answer."
    is_error = result is None or result.is_error
    return _tools.ToolResult(name=name, result=[_tools.TextResultContent(content=text)], is_error=is_error)


def _static_workbench(tools: Sequence[Any]) -> Any:
    made = [
        tool if isinstance(tool, _tools.BaseTool) else _tools.FunctionTool(tool, description=tool.__doc__ or "")
        for tool in tools
    ]
    return _tools.StaticStreamWorkbench(made)


# --- translation ---


def _memory_content(text: str, metadata: dict[str, Any]) -> Any:
    return _memories.MemoryContent(content=text, mime_type=_memories.MemoryMimeType.TEXT, metadata=metadata)


def _hint_message(hint: Hint) -> Any:
    parts = list(_parts(hint.blocks))
    has_images = any(not isinstance(part, str) for part in parts)
    return _models.UserMessage(content=parts if has_images else hint.text, source=HINT_NAME)


def _parts(blocks: Iterable[ContentBlock]) -> Iterator[Any]:
    """AutoGen takes pixels only: an image that cannot be read, or is behind a URL, has its note in the text."""
    for block in blocks:
        if isinstance(block, TextBlock):
            yield block.text
        elif isinstance(block.source, Base64Source):
            try:
                yield _core.Image.from_base64(block.source.data)
            except (OSError, ValueError):
                continue


def _blocks(content: Any) -> Iterator[ContentBlock]:
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str):
            yield TextBlock(text=part)
        else:
            yield DataBlock(source=Base64Source(data=part.to_base64(), media_type="image/png"))


def _last(messages: Sequence[Any], ask: Any) -> int:
    return max((index for index, message in enumerate(messages) if message == ask), default=len(messages))


def _history(messages: Sequence[Any]) -> Iterator[ChatMessage]:
    for message in messages:
        if _is_user(message):
            yield ChatMessage(role="user", content=list(_blocks(message.content)))
        elif isinstance(message, _models.AssistantMessage) and isinstance(message.content, str):
            yield ChatMessage(role="assistant", content=[TextBlock(text=message.content)])


def _is_user(message: Any) -> bool:
    return isinstance(message, _models.UserMessage) and not _is_hint(message)


def _is_hint(message: Any) -> bool:
    return isinstance(message, _models.UserMessage) and message.source == HINT_NAME


__all__ = ["RAGContext", "RAGMemory", "RAGWorkbench", "rag_options"]
