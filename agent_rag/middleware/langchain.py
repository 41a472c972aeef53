"""LangChain: ``create_agent(model, middleware=[RAGMiddleware([knowledge])])``. Also for LangGraph and deepagents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, NotRequired

from .._util.extras import needs
from .._util.sync import run_sync
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage, Role
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.adapter import CITATIONS_KEY, Adapter, check_in, checked_with, plain_text
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.result import ToolResult
from .core.search_results import search_result_blocks
from .core.tool import KnowledgeTool
from .core.turn import Turn, TurnRegistry

_types = needs("langchain", "langchain.agents.middleware.types", purpose="agent_rag.middleware.langchain")
_messages = needs("langchain", "langchain_core.messages")
_tools = needs("langchain", "langchain_core.tools")
_config = needs("langchain", "langgraph.config")
_channels = needs("langchain", "langgraph.channels.untracked_value")

_STATE_KEY = "agent_rag_turn"

# Only after an interrupt: the untracked channel is then empty, while the turn goes on.
_resumed = TurnRegistry(max_turns=256)


class _TurnRef(str):
    """The turn's id for whoever streams or prints the state, the turn itself for us. All instances share it."""

    turn: Turn


class RAGState(_types.AgentState):  # type: ignore[misc, name-defined]
    """The agent's state with the turn in a private channel that no checkpoint keeps."""

    agent_rag_turn: NotRequired[Annotated[str, _channels.UntrackedValue, _types.PrivateStateAttr]]  # type: ignore[valid-type]


class RAGMiddleware(Adapter, _types.AgentMiddleware):  # type: ignore[misc, name-defined]
    """Retrieval as LangChain middleware. Static: a hint after the user's message. Agentic: tools of the agent.

    `citations` reads what was shown from the agent's result: from ``ToolMessage.artifact`` and from the metadata of the
    answer, which checkpoints keep and no provider is sent. A static turn writes its `HintEvent` to the custom stream as
    ``{"type": "agent_rag_hint", ...}``. The `scope` callable gets the run's ``runtime.context``. Works in ``invoke``
    and ``ainvoke``; in ``invoke`` the searches run in the event loop of `agent_rag.run_sync`, so open the store
    there too.
    """

    state_schema = RAGState

    @property
    def name(self) -> str:
        """The same in every process, since checkpoints hold it."""
        return self.rag.name

    @cached_property
    def tools(self) -> list[Any]:
        """The tools of agentic mode."""
        return self._langchain_tools()

    # --- the turn begins ---

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return run_sync(self._begin(state, runtime))

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return await self._begin(state, runtime)

    async def _begin(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        turn = _turn_in(state)
        if turn is None:
            turn = self._start_at(state["messages"], runtime)
        await self.rag.list_tools(refresh=False)
        hint = await self.rag.hint(turn)
        update: dict[str, Any] = {_STATE_KEY: _ref(turn)}
        if hint is not None and hint.event is not None:
            runtime.stream_writer({"type": "agent_rag_hint", **hint.event.model_dump(mode="json")})
        if hint is not None and hint.persist:
            update["messages"] = [_hint_message(hint)]
        return update

    # --- each model call ---

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        response, turn = handler(run_sync(self._prepared(request))), self._turn(request.state, request.runtime)
        return run_sync(self._ended(response, turn))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        response, turn = await handler(await self._prepared(request)), self._turn(request.state, request.runtime)
        return await self._ended(response, turn)

    async def _ended(self, response: Any, turn: Turn) -> Any:
        """The response; an answer with its check and the citations of its turn in metadata, which no provider gets."""
        if hasattr(response, "model_response"):
            return replace(response, model_response=await self._ended(response.model_response, turn))
        if hasattr(response, "result"):
            return replace(response, result=[await self._ended(message, turn) for message in response.result])
        if response.type != "ai" or response.tool_calls:
            return response
        beside = await checked_with([self.rag], str(response.text), turn)
        if turn.citations:
            beside[CITATIONS_KEY] = [citation.place() for citation in turn.citations]
        return response.model_copy(update={"response_metadata": {**response.response_metadata, **beside}})

    async def _prepared(self, request: Any) -> Any:
        """The request with the hint in its messages, and with the tools as the stores' fields make them."""
        if self.rag.parameters.filter_fields == "auto":
            fresh = {tool.name: tool for tool in self._langchain_tools()}
            request = request.override(tools=[fresh.get(getattr(tool, "name", ""), tool) for tool in request.tools])
        hint = await self.rag.hint(self._turn(request.state, request.runtime))
        if hint is None:
            return request
        made = [(hint, _hint_message(hint))]
        return request.override(messages=with_hints(request.messages, made, is_ask=_is_ask, is_hint=_is_hint))

    # --- each tool call ---

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        # Active for every tool: one may run a subagent, whose numbers go on with ours.
        with self._turn(request.state, request.runtime).active():
            return self._with_status(request, handler(request))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        with self._turn(request.state, request.runtime).active():
            return self._with_status(request, await handler(request))

    def _with_status(self, request: Any, answer: Any) -> Any:
        """LangChain sets the status of a tool message by exceptions only, and ours never raises."""
        artifact = getattr(answer, "artifact", None)
        own = any(tool.name == request.tool_call["name"] for tool in self.tools)
        if own and isinstance(artifact, dict) and artifact.get("is_error"):
            return answer.model_copy(update={"status": "error"})
        return answer

    # --- turns ---

    def _turn(self, state: Any, runtime: Any) -> Turn:
        """The running turn; after an interrupt, one made from the stored messages, the same until the turn ends."""
        turn = _turn_in(state)
        if turn is not None:
            return turn
        messages = state["messages"]
        ask = next((message for message in reversed(messages) if _is_ask(message)), None)
        thread = _thread_id()
        if ask is None or ask.id is None or thread is None:
            return self._start_at(messages, runtime)
        return _resumed.get_or_start((thread, ask.id, ask.text), lambda: self._start_at(messages, runtime))

    def _start_at(self, messages: Sequence[Any], runtime: Any) -> Turn:
        position = max((index for index, message in enumerate(messages) if _is_ask(message)), default=-1)
        return self._start(
            _blocks(messages[position].content) if position >= 0 else None,
            lambda: _history(messages[: max(position, 0)]),
            getattr(runtime, "context", None),
        )

    def _langchain_tools(self) -> list[Any]:
        return [_structured_tool(tool) for tool in self.rag.tools]


def _structured_tool(tool: KnowledgeTool) -> Any:
    async def run(**arguments: Any) -> tuple[Any, dict[str, Any]]:
        return _content_and_artifact(await tool(arguments))

    def run_in_sync(**arguments: Any) -> tuple[Any, dict[str, Any]]:
        return _content_and_artifact(run_sync(tool(arguments)))

    return _tools.StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.parameters,
        func=run_in_sync,
        coroutine=run,
        response_format="content_and_artifact",
    )


def citations(result: Any) -> list[Citation]:
    """What each number in a result stands for: the agent's state, or its messages; of the whole conversation in it."""
    messages = result["messages"] if isinstance(result, Mapping) else result
    return collected(*(_slot(message) for message in messages))


def checked(result: Any) -> CheckedAnswer | None:
    """The check of the last answer in a result, with ``check_answer=True``."""
    messages = result["messages"] if isinstance(result, Mapping) else result
    return check_in(message.response_metadata for message in messages)


def _slot(message: Any) -> Sequence[Any]:
    slot = message.response_metadata.get(CITATIONS_KEY)
    if message.type == "tool" and isinstance(message.artifact, Mapping):
        slot = message.artifact.get("citations")
    return slot or ()


def _content_and_artifact(result: ToolResult) -> tuple[Any, dict[str, Any]]:
    if not result.as_search_results:
        return _content(result.blocks), result.structured()
    # langchain-anthropic sends them as they are.
    images = [_part(block) for block in result.blocks if isinstance(block, DataBlock)]
    return [*search_result_blocks(result), *images], result.structured()


def _hint_message(hint: Hint) -> Any:
    return _messages.HumanMessage(content=_content(hint.blocks), name=HINT_NAME)


def _content(blocks: Sequence[ContentBlock]) -> str | list[dict[str, Any]]:
    """Text alone as a string: servers of local models take no parts."""
    text = plain_text(blocks)
    return [_part(block) for block in blocks] if text is None else text


def _part(block: ContentBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    kind = block.source.media_type.partition("/")[0]
    source = block.source
    where = {"base64": source.data} if isinstance(source, Base64Source) else {"url": str(source.url)}
    return {"type": kind if kind in ("image", "audio", "video") else "file", "mime_type": source.media_type, **where}


def _blocks(content: Any) -> list[ContentBlock]:
    """The text and the images of a LangChain message."""
    if isinstance(content, str):
        return [TextBlock(text=content)]
    blocks: list[ContentBlock] = []
    for part in content:
        if isinstance(part, str):
            blocks.append(TextBlock(text=part))
        elif part.get("type") == "text":
            blocks.append(TextBlock(text=part.get("text", "")))
        elif part.get("type") == "image" and part.get("base64"):
            source = Base64Source(data=part["base64"], media_type=part.get("mime_type") or "image/png")
            blocks.append(DataBlock(source=source))
    return blocks


def _history(messages: Iterable[Any]) -> list[ChatMessage]:
    roles: dict[str, Role] = {"human": "user", "ai": "assistant", "tool": "tool"}
    return [
        ChatMessage(
            role=roles[message.type],
            content=[TextBlock(text=str(message.text))],
            name=message.name,
            artifact=_slot(message),
        )
        for message in messages
        if message.type in roles
    ]


def _is_ask(message: Any) -> bool:
    return bool(message.type == "human" and message.name != HINT_NAME)


def _is_hint(message: Any) -> bool:
    return bool(message.type == "human" and message.name == HINT_NAME)


def _ref(turn: Turn) -> _TurnRef:
    ref = _TurnRef(turn.id)
    ref.turn = turn
    return ref


def _turn_in(state: Any) -> Turn | None:
    turn = getattr(state.get(_STATE_KEY), "turn", None)
    return turn if isinstance(turn, Turn) else None


def _thread_id() -> str | None:
    """The conversation, for a turn that goes on after an interrupt."""
    try:
        thread = _config.get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None
    return None if thread is None else str(thread)


__all__ = ["RAGMiddleware", "RAGState", "checked", "citations"]
