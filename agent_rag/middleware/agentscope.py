"""AgentScope: ``Agent(middlewares=[rag], toolkit=Toolkit(tools=await rag.list_tools()))``, as with its own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatch
from typing import Any

from .._util.extras import needs
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock, URLSource
from .core.adapter import CITATIONS_KEY, Adapter, FrameworkChatModel, check_in, checked_with
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.tool import KnowledgeTool
from .core.turn import Turn, TurnRegistry

_middleware = needs("agentscope", "agentscope.middleware", purpose="agent_rag.middleware.agentscope")
_events = needs("agentscope", "agentscope.event")
_messages = needs("agentscope", "agentscope.message")
_models = needs("agentscope", "agentscope.model")
_permissions = needs("agentscope", "agentscope.permission")
_tools = needs("agentscope", "agentscope.tool")

# By session and reply id, which AgentScope draws at random: its state, the only per-run carrier, holds JSON alone.
_turns = TurnRegistry()


class ChatModel(FrameworkChatModel):
    """An AgentScope chat model as the chat model of `LLMReranker`, by its structured output, and `LLMQueryRewriter`."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.supports_images = _takes_images(model)

    async def answer(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> str:
        answer = await self._model(self._asked(messages))
        parts = [answer] if hasattr(answer, "content") else [part async for part in answer]
        return "".join(block.text for block in parts[-1].content if block.type == "text")

    async def generate_structured_output(self, messages: Sequence[ChatMessage], structured_model: Any) -> Any:
        return await self._model.generate_structured_output(self._asked(messages), structured_model)

    def _asked(self, messages: Sequence[ChatMessage]) -> list[Any]:
        return [
            _messages.Msg(name="user", role="user", content=[_block(block) for block in message.content])
            for message in messages
        ]


class RAGMiddleware(Adapter, _middleware.MiddlewareBase):  # type: ignore[misc, name-defined]
    """Retrieval as AgentScope middleware. Static: a HintBlock after the user's message. Agentic: a tool.

    Both modes need the middleware on the agent; agentic mode also needs ``Toolkit(tools=await rag.list_tools())``.
    Citations are in ``ToolResultBlock.metadata["citations"]`` and in the metadata of the reply; `citations` reads them.
    A static turn streams a ``HintBlockEvent`` with ``metadata["citations"]``. The `scope` callable gets the run's
    ``AgentState``, or what `context` makes of it. One object serves any number of agents.
    """

    chat_models = ((_models.ChatModelBase, ChatModel),)

    async def get_middleware_key(self) -> str:
        return self.rag.name

    async def list_tools(self) -> list[Any]:
        """The tools of agentic mode, for ``Toolkit(tools=...)``; none in static mode."""
        return [_SearchTool(tool, self._turn) for tool in await self.rag.list_tools()]

    # --- the turn begins and ends ---

    async def on_reply(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        over = True
        try:
            ended = False
            async for event in next_handler(**input_kwargs):
                if isinstance(event, _events.ReplyStartEvent):
                    self._turn(agent.state, agent, _asks(input_kwargs.get("inputs")))
                ended = ended or isinstance(event, _events.ReplyEndEvent)
                if ended:
                    await self._cite(agent.state, event)
                yield event
            # A reply that waits for the user's approval goes on later, in the same turn.
            over = ended
        finally:
            if over:
                _turns.end(_key(agent.state))

    async def on_reasoning(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        turn = self._turn(agent.state, agent)
        hint = await self.rag.hint(turn)
        if hint is not None and agent.state.cur_iter == 0:
            block = self._hint_block(hint, turn)
            if hint.persist:
                agent.state.append_context(agent.name, [block])
            if hint.event is not None:
                yield _events.HintBlockEvent(
                    reply_id=agent.state.reply_id,
                    block_id=block.id,
                    source=block.source,
                    hint=block.hint,
                    metadata=hint.event.model_dump(mode="json"),
                )
        async for event in next_handler(**input_kwargs):
            yield event

    # --- each model call ---

    async def on_model_call(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        turn = self._turn(agent.state, agent)
        hint = await self.rag.hint(turn)
        changed = dict(input_kwargs)
        if hint is not None:
            message = _messages.Msg(name=HINT_NAME, role="assistant", content=[self._hint_block(hint, turn)])
            changed["messages"] = _with_hints(changed["messages"], [(hint, message)], agent.state.reply_id)
        changed["tools"] = self._described(changed.get("tools"))
        return await next_handler(**changed)

    def _described(self, schemas: Sequence[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        """The schemas for the model, with those of our tools in full."""
        own = {tool.name: tool for tool in self.rag.tools}
        if schemas is None or not own:
            return None if schemas is None else list(schemas)
        described = []
        for schema in schemas:
            tool = own.get(schema["function"]["name"])
            full = {} if tool is None else {"description": tool.description, "parameters": tool.parameters}
            described.append({**schema, "function": {**schema["function"], **full}})
        return described

    # --- turns ---

    def _turn(self, state: Any, agent: Any = None, asks: Sequence[Any] | None = None) -> Turn:
        """The running turn, shared by all instances on the agent; after a restart, one made from the state."""
        return _turns.get_or_start(_key(state), lambda: self._begin(state, agent, asks))

    async def _cite(self, state: Any, event: Any) -> None:
        """Put the citations and the check into the reply, as it is stored and as it is given back."""
        turn = self._turn(state)
        replies = [message for message in state.context[-1:] if _is_own(message, state.reply_id)]
        for message in [*replies, *([event] if isinstance(event, _messages.Msg) else [])]:
            message.metadata.update(await checked_with([self.rag], _said(message), turn))
            if turn.citations:
                message.metadata[CITATIONS_KEY] = [citation.place() for citation in turn.citations]

    def _begin(self, state: Any, agent: Any, asks: Sequence[Any] | None) -> Turn:
        earlier = [message for message in state.context if not _is_own(message, state.reply_id)]
        asks = earlier[-1:] if asks is None else asks
        ids = {message.id for message in asks}
        return self._start(
            [block for message in asks for block in _blocks(message.content)],
            _history(message for message in earlier if message.id not in ids),
            state,
            supports_images=agent is not None and _takes_images(agent.model),
        )

    def _hint_block(self, hint: Hint, turn: Turn) -> Any:
        content = [_block(block) for block in hint.blocks]
        only_text = all(isinstance(block, TextBlock) for block in hint.blocks)
        return _messages.HintBlock(
            id=f"{self.rag.key}-{turn.id}",
            hint=hint.text if only_text else content,
            # The form that AgentScope's own middleware has, which its front end reads.
            source=json.dumps({"label": "KnowledgeBase", "sublabel": self.rag.name}),
        )


class _SearchTool(_tools.ToolBase):  # type: ignore[misc, name-defined]
    """A `KnowledgeTool` for the Toolkit."""

    is_read_only = True
    is_concurrency_safe = True
    is_state_injected = True

    def __init__(self, tool: KnowledgeTool, turn_of: Callable[[Any], Turn]) -> None:
        super().__init__()
        self.name = tool.name
        self.description = tool.description
        self.input_schema = _unchecked(tool.parameters)
        self._tool = tool
        self._turn_of = turn_of

    async def check_permissions(self, tool_input: dict[str, Any], context: Any) -> Any:
        return _permissions.PermissionDecision(
            behavior=_permissions.PermissionBehavior.ALLOW, message=f"{self.name} only reads."
        )

    async def call(self, _agent_state: Any = None, **arguments: Any) -> Any:
        turn = None if _agent_state is None else self._turn_of(_agent_state)
        result = await self._tool(arguments, turn=turn)
        states = _messages.ToolResultState
        return _tools.ToolChunk(
            content=[_block(block) for block in result.blocks],
            state=states.ERROR if result.is_error else states.SUCCESS,
            metadata=result.structured(),
        )


def citations(reply: Any) -> list[Citation]:
    """What each number in a reply (or another message) stands for."""
    results = [block.metadata or {} for block in reply.content if block.type == "tool_result"]
    return collected(*(result.get("citations") or () for result in results), reply.metadata.get(CITATIONS_KEY) or ())


def checked(reply: Any) -> CheckedAnswer | None:
    """The check of a reply, with ``check_answer=True``."""
    return check_in([reply.metadata])


def _said(message: Any) -> str:
    """The text behind the last tool result of a reply."""
    texts: list[str] = []
    for block in message.content:
        texts = [*texts, block.text] if block.type == "text" else [] if block.type == "tool_result" else texts
    return "\n".join(texts)


def _unchecked(parameters: dict[str, Any]) -> dict[str, Any]:
    """The schema with descriptions only. AgentScope refuses arguments by this one, in words of its own ("not valid
    under any of the given schemas"); the core reads them tolerantly and answers with what is allowed."""
    described = {}
    for name, value in parameters["properties"].items():
        names = value.get("items", {}).get("enum")
        description = value["description"] + (f" Any of: {', '.join(names)}." if names else "")
        described[name] = {"description": description}
    return {"type": "object", "properties": described}


def _with_hints(messages: Sequence[Any], made: Sequence[tuple[Hint, Any]], reply_id: str) -> list[Any]:
    """The hint after the last message that is not of this reply."""
    # AgentScope may have put hints of its own (the time) into the reply's message before the first call.
    begun = bool(messages) and _is_own(messages[-1], reply_id) and _is_only_hints(messages[-1])
    head, rest = (messages[:-1], messages[-1:]) if begun else (messages, [])
    shown = with_hints(
        head,
        made,
        is_ask=lambda message: message.role != "system" and not _is_own(message, reply_id) and not _is_hint(message),
        is_hint=_is_hint,
    )
    return [*shown, *rest]


def _is_own(message: Any, reply_id: str) -> bool:
    return bool(message.role == "assistant" and message.id == reply_id)


def _is_hint(message: Any) -> bool:
    return bool(message.name == HINT_NAME)


def _is_only_hints(message: Any) -> bool:
    return all(block.type == "hint" for block in message.content)


def _asks(inputs: Any) -> list[Any] | None:
    """The messages of a reply's inputs; None where it goes on without new ones."""
    listed = inputs if isinstance(inputs, list) else [inputs]
    return [item for item in listed if isinstance(item, _messages.Msg)] or None


def _key(state: Any) -> tuple[str, str]:
    return state.session_id, state.reply_id


def _takes_images(model: Any) -> bool:
    patterns = getattr(getattr(model, "formatter", None), "supported_input_media_types", ())
    return any(fnmatch("image/png", pattern) for pattern in patterns)


def _history(messages: Iterable[Any]) -> list[ChatMessage]:
    history = []
    for message in messages:
        if message.role in ("user", "assistant"):
            history.append(
                ChatMessage(
                    role=message.role,
                    content=_blocks(message.content),
                    name=message.name,
                    artifact=citations(message),
                )
            )
        for block in message.content:
            if block.type == "tool_result":
                said = block.output if isinstance(block.output, str) else _blocks(block.output)
                history.append(ChatMessage.model_validate({"role": "tool", "content": said}))
            elif block.type == "hint":
                hint = block.hint if isinstance(block.hint, str) else _blocks(block.hint)
                history.append(ChatMessage.model_validate({"role": "user", "content": hint, "name": HINT_NAME}))
    return history


def _blocks(content: Iterable[Any]) -> list[ContentBlock]:
    """The text and the data of AgentScope blocks."""
    blocks: list[ContentBlock] = []
    for block in content:
        if block.type == "text":
            blocks.append(TextBlock(text=block.text))
        elif block.type == "data":
            source = block.source
            if source.type == "base64":
                blocks.append(DataBlock(source=Base64Source(data=source.data, media_type=source.media_type)))
            else:
                blocks.append(DataBlock(source=URLSource(url=source.url, media_type=source.media_type)))
    return blocks


def _block(block: ContentBlock) -> Any:
    if isinstance(block, TextBlock):
        return _messages.TextBlock(text=block.text)
    source = block.source
    if isinstance(source, Base64Source):
        made = _messages.Base64Source(data=source.data, media_type=source.media_type)
    else:
        made = _messages.URLSource(url=source.url, media_type=source.media_type)
    return _messages.DataBlock(source=made, name=block.name)


__all__ = ["ChatModel", "RAGMiddleware", "checked", "citations"]
