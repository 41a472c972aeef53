"""AutoGen: ``AssistantAgent("a", client, max_tool_iterations=5, **rag_options(RAGMiddleware([knowledge])))``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._util.extras import needs
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core import rag as core
from .core.adapter import CITATIONS_KEY, Adapter, checked_with
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.result import ToolResult
from .core.turn import Turn

_messages: Any = needs("autogen", "autogen_agentchat.messages", purpose="agent_rag.middleware.autogen")
_core: Any = needs("autogen", "autogen_core")
_contexts: Any = needs("autogen", "autogen_core.model_context")
_memories: Any = needs("autogen", "autogen_core.memory")
_models: Any = needs("autogen", "autogen_core.models")
_tools: Any = needs("autogen", "autogen_core.tools")


class RAGMiddleware(Adapter):
    """Retrieval for an AutoGen agent; see `rag_options`. The `scope` callable gets what `context` gives, called when a
    run begins, in its task. Images are shown in hints only: AutoGen writes those of tool results as base64 text."""


def rag_options(
    *middlewares: Any,
    model_context: Any = None,
    memory: Sequence[Any] = (),
    tools: Sequence[Any] = (),
    workbench: Sequence[Any] = (),
) -> dict[str, Any]:
    """The arguments `model_context`, `memory` and `workbench` of one `AssistantAgent` with retrieval: an agent that is
    made already takes none of them.

    Static: a hint after the user's message, in the model's input only, with a `MemoryQueryEvent`. Agentic: tools, with
    a `MemoryQueryEvent` for each result that holds its citations. `citations` reads these events. Call it anew for each
    agent: agents keep state.

    Args:
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.
        model_context, memory, tools, workbench: What the agent has besides; functions and tools go into a workbench.
    """
    wrapped = [RAGMiddleware.of(one) for one in middlewares]
    rags = [one.rag for one in wrapped]
    kept = RAGContext(wrapped, model_context or _contexts.UnboundedChatCompletionContext())
    given = [_static_workbench(tools)] if tools else []
    own = [RAGWorkbench(rags, kept)] if any(rag.tools for rag in rags) else []
    return {
        "model_context": kept,
        # First, so that what others add is not taken for the user's words.
        "memory": [RAGMemory(kept), *memory],
        "workbench": [*workbench, *given, *own],
    }


def citations(result: Any) -> list[Citation]:
    """What each number in a ``TaskResult`` stands for."""
    events = [message for message in result.messages if isinstance(message, _messages.MemoryQueryEvent)]
    slots = [one.metadata or {} for event in events for one in event.content]
    return collected(*(slot.get(key) or () for key in ("citations", CITATIONS_KEY) for slot in slots))


def checked(model_context: RAGContext) -> CheckedAnswer | None:
    """The check of the last answer of an agent that has this `model_context`, with ``check_answer=True``. Not of a
    summary of tool results, which no model says."""
    return model_context.turn.checked if model_context.turn is not None else None


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
        if isinstance(message, _models.AssistantMessage) and self.turn is not None:
            await checked_with([one.rag for one in self._middlewares], message.content, self.turn)

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

    async def begin(self) -> list[Hint]:
        """Start the turn of the messages added since the last one, and search."""
        new, self._new, self._hints = self._new, [], []
        # In a team the other agents' answers come as user messages too, under their names.
        asks = [message for message in new if message.source == "user"] or new
        self._ask = asks[-1] if asks else None
        messages = list(await self._inner.get_messages())
        self.turn = self._middlewares[0]._start(
            list(_blocks(self._ask.content)) if asks else None,
            lambda: list(_history(messages[: _last(messages, self._ask)])),
            beside=self._middlewares[1:],
        )
        hints = [hint for one in self._middlewares if (hint := await one.rag.hint(self.turn)) is not None]
        for hint in hints:
            message = _hint_message(hint)
            if hint.persist:
                await self._inner.add_message(message)
            self._hints.append((hint, message))
        return hints


class RAGMemory(_memories.Memory):  # type: ignore[misc]
    """Begins the turn: AutoGen asks its memories once for each turn, before the first model call."""

    def __init__(self, kept: RAGContext) -> None:
        self._kept = kept

    async def update_context(self, model_context: Any) -> Any:
        hints = await self._kept.begin()
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

    def __init__(self, rags: Sequence[core.RAGMiddleware], kept: RAGContext) -> None:
        super().__init__([])
        self._rags = rags
        self._kept = kept

    async def list_tools(self) -> list[Any]:
        # Described anew each time, since fields of the stores may be known by now.
        listed = [tool for rag in self._rags for tool in await rag.list_tools(refresh=False)]
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
            shown = self._kept.turn.citations if self._kept.turn is not None else []
            about = {**result.structured(), "tool": name, "call_id": call_id}
            about[CITATIONS_KEY] = [citation.place() for citation in shown]
            yield _messages.MemoryQueryEvent(content=[_memory_content(result.text, about)], source=name)
        yield _tool_result(name, result)

    async def _answer(self, name: str, arguments: Any, cancellation_token: Any) -> ToolResult | None:
        """None: there is no such tool, or the token was cancelled."""
        rag = next((rag for rag in self._rags if any(tool.name == name for tool in rag.tools)), None)
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
        if isinstance(message, _models.UserMessage):
            name = HINT_NAME if _is_hint(message) else None
            yield ChatMessage(role="user", content=list(_blocks(message.content)), name=name)
        elif isinstance(message, _models.FunctionExecutionResultMessage):
            for result in message.content:
                yield ChatMessage(role="tool", content=[TextBlock(text=result.content)])
        elif isinstance(message, _models.AssistantMessage) and isinstance(message.content, str):
            yield ChatMessage(role="assistant", content=[TextBlock(text=message.content)])


def _is_user(message: Any) -> bool:
    return isinstance(message, _models.UserMessage) and not _is_hint(message)


def _is_hint(message: Any) -> bool:
    return isinstance(message, _models.UserMessage) and message.source == HINT_NAME


__all__ = ["RAGContext", "RAGMemory", "RAGMiddleware", "RAGWorkbench", "checked", "citations", "rag_options"]
