"""Microsoft Agent Framework: ``Agent(client=client, context_providers=[RAGMiddleware([knowledge])])``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._util.extras import needs
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage, Role, data_url
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.adapter import CITATIONS_KEY, Adapter, FrameworkChatModel, check_in, checked_with
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn

_framework = needs("agent-framework", "agent_framework", purpose="agent_rag.middleware.agent_framework")

_RUN_KEY = "agent_rag_run"


class ChatModel(FrameworkChatModel):
    """A chat client of the framework as the chat model of `LLMReranker` and `LLMQueryRewriter`."""

    async def answer(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> str:
        asked = [_framework.Message(message.role, [message.text]) for message in messages]
        options = {} if max_tokens is None else {"options": {"max_tokens": max_tokens}}
        return str((await self._model.get_response(asked, **options)).text)


class RAGMiddleware(Adapter, _framework.ContextProvider):  # type: ignore[misc, name-defined]
    """Retrieval as context provider. Static: a hint after the user's message. Agentic: tools of the run.

    Citations are in ``additional_properties["citations"]`` of the first item of the function result, and in those of
    the answer; `citations` reads them. A streamed static turn carries its `HintEvent` in
    ``additional_properties["agent_rag_hints"]`` of the first update. The `scope` callable gets the run's
    ``AgentSession``, or what `context` makes of it. One object serves any number of agents and runs.
    """

    chat_models = ((_framework.SupportsChatGetResponse, ChatModel),)

    def _plug(self) -> None:
        _framework.ContextProvider.__init__(self, self.rag.name)

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Add the tools, and what puts the hint into each model call; all instances share the run."""
        run = context.metadata.setdefault(_RUN_KEY, _Run(session, context))
        tools = [_function_tool(tool, run) for tool in await self.rag.list_tools(refresh=False)]
        context.extend_tools(self.source_id, tools)
        context.extend_middleware(self.source_id, [_ToolStep(tools, run), _ModelStep(self, run)])

    async def after_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Put the citations and the check beside the answer."""
        run = context.metadata.get(_RUN_KEY)
        messages = context.response.messages if context.response is not None else []
        if run is None or run.turn is None or not messages:
            return
        beside = await checked_with([self.rag], messages[-1].text, run.turn)
        if run.turn.citations:
            beside[CITATIONS_KEY] = [citation.place() for citation in run.turn.citations]
        messages[-1].additional_properties = {**(messages[-1].additional_properties or {}), **beside}

    def start(self, session: Any, messages: Sequence[Any]) -> Turn:
        """The turn of a run in `session`, from what its first model call is sent."""
        position = max((index for index, message in enumerate(messages) if _is_ask(message)), default=-1)
        return self._start(
            _blocks(messages[position].contents) if position >= 0 else None,
            lambda: _history(messages[: max(position, 0)]),
            session,
        )


@dataclass
class _Run:
    """A run's turn, made at the first model call: only then the whole history is loaded."""

    session: Any
    context: Any
    turn: Turn | None = None
    stored: set[str] = field(default_factory=set)
    """Instances whose hint is in the history."""


class _ModelStep(_framework.ChatMiddleware):  # type: ignore[misc, name-defined]
    """Puts the hint into each model call of one run."""

    def __init__(self, provider: RAGMiddleware, run: _Run) -> None:
        self._provider = provider
        self._run = run

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        run, rag = self._run, self._provider.rag
        if run.turn is None:
            run.turn = self._provider.start(run.session, context.messages)
        hint = await rag.hint(run.turn)
        if hint is not None:
            made = [(_shown_now(hint), _hint_message(hint, self._provider.source_id))]
            if rag.key not in run.stored:
                run.stored.add(rag.key)
                if hint.event is not None:
                    context.stream_transform_hooks.append(_Announce(hint.event.model_dump(mode="json")))
                if hint.persist:
                    run.context.input_messages = with_hints(run.context.input_messages, made, is_ask=_is_ask)
            context.messages = with_hints(context.messages, made, is_ask=_is_ask, is_hint=_is_hint)
        await call_next()


class _ToolStep(_framework.FunctionMiddleware):  # type: ignore[misc, name-defined]
    """Answers calls of our tools before the framework checks the arguments, which hides the reason from the model."""

    def __init__(self, tools: Sequence[Any], run: _Run) -> None:
        self._tools = tools
        self._run = run

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        if any(context.function is tool for tool in self._tools):
            context.result = await context.function.func(**context.arguments)
        elif self._run.turn is None:
            await call_next()
        else:
            # It may run a subagent, whose numbers go on.
            with self._run.turn.active():
                await call_next()


class _Announce:
    """Writes an event into the first update of a stream."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._events = [event]

    def __call__(self, update: Any) -> Any:
        if self._events:
            before = dict(update.additional_properties or {})
            update.additional_properties = {
                **before,
                "agent_rag_hints": [*before.get("agent_rag_hints", ()), self._events.pop()],
            }
        return update


def citations(response: Any) -> list[Citation]:
    """What each number in a run's response stands for."""
    return collected(*(slot for message in response.messages for slot in _slots(message)))


def checked(response: Any) -> CheckedAnswer | None:
    """The check of a run's response, with ``check_answer=True``."""
    return check_in(message.additional_properties for message in response.messages)


def _slots(message: Any) -> Iterator[Any]:
    yield (message.additional_properties or {}).get(CITATIONS_KEY) or ()
    for content in message.contents:
        items = (content.items or [])[:1] if content.type == "function_result" else []
        for item in items:
            yield (item.additional_properties or {}).get("citations") or ()


def _function_tool(tool: KnowledgeTool, run: _Run) -> Any:
    async def answer(**arguments: Any) -> list[Any]:
        return _contents(await tool(arguments, turn=run.turn))

    return _framework.FunctionTool(
        name=tool.name, description=tool.description, func=answer, input_model=tool.parameters
    )


def _shown_now(hint: Hint) -> Hint:
    """A persisted hint comes from the history in later runs only; in its own run we show it."""
    return hint.model_copy(update={"persist": False, "scope": "turn"}) if hint.persist else hint


def _hint_message(hint: Hint, source_id: str) -> Any:
    # Attribution keeps a message out of the history where the framework stores each model call.
    attribution = {} if hint.persist else {"_attribution": {"source_id": source_id}}
    return _framework.Message(
        "user", [_content(block) for block in hint.blocks], author_name=HINT_NAME, additional_properties=attribution
    )


def _contents(result: ToolResult) -> list[Any]:
    first, *rest = [_content(block) for block in result.blocks]
    first.additional_properties = result.structured()
    return [first, *rest]


def _content(block: ContentBlock) -> Any:
    if isinstance(block, TextBlock):
        return _framework.Content.from_text(block.text)
    return _framework.Content.from_uri(data_url(block), media_type=block.source.media_type)


def _blocks(contents: Iterable[Any]) -> list[ContentBlock]:
    """The text and the data of the framework's contents."""
    blocks: list[ContentBlock] = []
    for content in contents:
        if content.type == "text" and content.text:
            blocks.append(TextBlock(text=content.text))
        elif content.type == "data":
            data = str(content.uri).partition(";base64,")[2]
            blocks.append(DataBlock(source=Base64Source(data=data, media_type=content.media_type)))
    return blocks


def _history(messages: Iterable[Any]) -> list[ChatMessage]:
    roles: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool"}
    return [
        ChatMessage(
            role=roles[message.role],
            content=_said(message),
            name=message.author_name,
            artifact=collected(*_slots(message)),
        )
        for message in messages
        if message.role in roles
    ]


def _said(message: Any) -> Any:
    results = [one for one in message.contents if one.type == "function_result"]
    texts = [item.text or "" for result in results for item in result.items or [] if item.type == "text"]
    return "\n".join([message.text, *texts]).strip()


def _is_ask(message: Any) -> bool:
    """A message of the user that is neither a hint nor the approval of a tool call."""
    return bool(message.role == "user" and not _is_hint(message) and _blocks(message.contents))


def _is_hint(message: Any) -> bool:
    return bool(message.author_name == HINT_NAME)


__all__ = ["ChatModel", "RAGMiddleware", "checked", "citations"]
