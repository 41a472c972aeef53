"""Microsoft Agent Framework: ``Agent(client=client, context_providers=[RAGContextProvider([knowledge])])``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._util.extras import needs
from ..chat import HINT_NAME, ChatMessage, Role, data_url
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core import rag as core
from .core.hint import Hint, with_hints
from .core.parameters import Parameters as RAGParameters
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn

_framework = needs("agent-framework", "agent_framework", purpose="agent_rag.middleware.agent_framework")

_RUN_KEY = "agent_rag_run"


class RAGContextProvider(_framework.ContextProvider):  # type: ignore[misc, name-defined]
    """Retrieval as context provider. Static: a hint after the user's message. Agentic: tools of the run.

    Citations are in ``additional_properties["citations"]`` of the first item of the function result. A streamed static
    turn carries its `HintEvent` in ``additional_properties["agent_rag_hints"]`` of the first update. One object serves
    any number of agents and runs.
    """

    Parameters = RAGParameters

    def __init__(
        self,
        knowledge_bases: Sequence[Any] | core.RAGMiddleware | Any,
        parameters: RAGParameters | None = None,
        rerank_model: Any = None,
        *,
        context: Callable[[Any], Any] = lambda session: session,
        supports_images: bool = False,
        **options: Any,
    ) -> None:
        """
        Args:
            knowledge_bases: As for `agent_rag.RAGMiddleware`, or such an object.
            rerank_model: A chat client of the framework, or whatever `LLMReranker` takes.
            context: What the `scope` callable gets: a function of the run's ``AgentSession``, for example by its
                ``session_id``; default the session itself.
            supports_images: Whether the agent's model takes image parts.
            options: Further arguments of `agent_rag.RAGMiddleware`. Instances of one mode on one agent need names.
        """
        if isinstance(knowledge_bases, core.RAGMiddleware):
            self.rag = knowledge_bases
        else:
            if isinstance(rerank_model, _framework.SupportsChatGetResponse):
                rerank_model = _RerankModel(rerank_model)
            self.rag = core.RAGMiddleware(knowledge_bases, parameters, rerank_model, **options)
        super().__init__(self.rag.name)
        self._context = context
        self._supports_images = supports_images

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Add the tools, and what puts the hint into each model call; all instances share the run."""
        run = context.metadata.setdefault(_RUN_KEY, _Run(session, context))
        tools = [_function_tool(tool, run) for tool in await self.rag.list_tools(refresh=False)]
        context.extend_tools(self.source_id, tools)
        context.extend_middleware(self.source_id, [_ToolStep(tools), _ModelStep(self, run)])

    def _start(self, session: Any, messages: Sequence[Any]) -> Turn:
        position = max((index for index, message in enumerate(messages) if _is_ask(message)), default=-1)
        return self.rag.start_turn(
            _blocks(messages[position].contents) if position >= 0 else None,
            history=lambda: _history(messages[: max(position, 0)]),
            context=self._context(session),
            supports_images=self._supports_images,
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

    def __init__(self, provider: RAGContextProvider, run: _Run) -> None:
        self._provider = provider
        self._run = run

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        run, rag = self._run, self._provider.rag
        if run.turn is None:
            run.turn = self._provider._start(run.session, context.messages)
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

    def __init__(self, tools: Sequence[Any]) -> None:
        self._tools = tools

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        if any(context.function is tool for tool in self._tools):
            context.result = await context.function.func(**context.arguments)
        else:
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


class _RerankModel:
    """A chat client of the framework as `ChatModel`."""

    supports_images = False

    def __init__(self, client: Any) -> None:
        self._client = client

    async def ainvoke(self, messages: Sequence[tuple[str, str]]) -> str:
        response = await self._client.get_response([_framework.Message(role, [text]) for role, text in messages])
        return str(response.text)


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
    roles: dict[str, Role] = {"user": "user", "assistant": "assistant"}
    return [
        ChatMessage(role=roles[message.role], content=message.text, name=message.author_name)
        for message in messages
        if message.role in roles
    ]


def _is_ask(message: Any) -> bool:
    """A message of the user that is neither a hint nor the approval of a tool call."""
    return bool(message.role == "user" and not _is_hint(message) and _blocks(message.contents))


def _is_hint(message: Any) -> bool:
    return bool(message.author_name == HINT_NAME)


__all__ = ["RAGContextProvider"]
