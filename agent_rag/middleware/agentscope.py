"""AgentScope: ``Agent(middlewares=[rag], toolkit=Toolkit(tools=await rag.list_tools()))``, as with its own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatch
from typing import Any

from .._util.extras import needs
from ..chat import HINT_NAME, ChatMessage, Role
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock, URLSource
from .core import rag as core
from .core.hint import Hint, with_hints
from .core.parameters import Parameters as RAGParameters
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


class RAGMiddleware(_middleware.MiddlewareBase):  # type: ignore[misc, name-defined]
    """Retrieval as AgentScope middleware. Static: a HintBlock after the user's message. Agentic: a tool.

    Both modes need the middleware on the agent; agentic mode also needs ``Toolkit(tools=await rag.list_tools())``.
    Citations are in ``ToolResultBlock.metadata["citations"]``; a static turn streams a ``HintBlockEvent`` with
    ``metadata["citations"]``. One object serves any number of agents.
    """

    Parameters = RAGParameters

    def __init__(
        self,
        knowledge_bases: Sequence[Any] | core.RAGMiddleware | Any,
        parameters: RAGParameters | None = None,
        rerank_model: Any = None,
        *,
        context: Callable[[Any], Any] = lambda state: state,
        supports_images: bool | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            knowledge_bases: As for `agent_rag.RAGMiddleware`, or such an object.
            rerank_model: An AgentScope chat model, or whatever `LLMReranker` takes.
            context: What the `scope` callable gets: a function of the run's ``AgentState``, for example by
                ``state.session_id``; default the state itself.
            supports_images: Whether the agent's model takes image parts; default: what its formatter says.
            options: Further arguments of `agent_rag.RAGMiddleware`.
        """
        if isinstance(rerank_model, _models.ChatModelBase):
            rerank_model = _RerankModel(rerank_model)
        if isinstance(knowledge_bases, core.RAGMiddleware):
            self.rag = knowledge_bases
        else:
            self.rag = core.RAGMiddleware(knowledge_bases, parameters, rerank_model, **options)
        self._context = context
        self._supports_images = supports_images

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
        return _turns.get_or_start(_key(state), lambda: self._start(state, agent, asks))

    def _start(self, state: Any, agent: Any, asks: Sequence[Any] | None) -> Turn:
        earlier = [message for message in state.context if not _is_own(message, state.reply_id)]
        asks = earlier[-1:] if asks is None else asks
        ids = {message.id for message in asks}
        supports_images = self._supports_images
        if supports_images is None:
            supports_images = agent is not None and _takes_images(agent.model)
        return self.rag.start_turn(
            [block for message in asks for block in _blocks(message.content)],
            history=_history(message for message in earlier if message.id not in ids),
            context=self._context(state),
            supports_images=supports_images,
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


class _RerankModel:
    """An AgentScope chat model for `LLMReranker`, which has messages of another kind."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.supports_images = _takes_images(model)

    async def generate_structured_output(self, messages: Sequence[ChatMessage], structured_model: Any) -> Any:
        asked = [
            _messages.Msg(name="user", role="user", content=[_block(block) for block in message.content])
            for message in messages
        ]
        return await self._model.generate_structured_output(asked, structured_model)


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
    roles: dict[str, Role] = {"user": "user", "assistant": "assistant"}
    return [
        ChatMessage(role=roles[message.role], content=list(_blocks(message.content)), name=message.name)
        for message in messages
        if message.role in roles
    ]


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


__all__ = ["RAGMiddleware"]
