"""Haystack: ``agent = attach(Agent(chat_generator=generator), RAGMiddleware([knowledge]))``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

from .._util.extras import needs
from .._util.sync import run_sync
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from ..errors import ConfigurationError
from .core.adapter import Adapter, check_in, checked_with, plain_text, shown_now
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.tool import KnowledgeTool
from .core.turn import Turn

_dataclasses = needs("haystack", "haystack.dataclasses", purpose="agent_rag.middleware.haystack")
_state = needs("haystack", "haystack.components.agents.state")
_state_utils = needs("haystack", "haystack.components.agents.state.state_utils")
_tools = needs("haystack", "haystack.tools")
needs("haystack", "haystack.hooks", purpose="agent_rag.middleware.haystack")

CONTEXT_KEY = "agent_rag_context"
"""Key in the run's `hook_context` of what the `scope` callable gets."""

_RUN_KEY = "agent_rag_run"


class _Run:
    """One run of an agent: its turn, the message that asks, and whose hints it has shown."""

    def __init__(self, turn: Turn, ask: Any) -> None:
        self.turn = turn
        self.ask = ask
        self.told: set[str] = set()


class RAGMiddleware(Adapter):
    """Retrieval for a Haystack agent; see `attach`. The `scope` callable gets ``hook_context["agent_rag_context"]`` of
    the run."""


def attach(agent: Any, *middlewares: Any) -> Any:
    """A new agent with retrieval, made from the settings of `agent`.

    Static: a hint after the user's message, in the model's input only. Agentic: tools of the agent. The result's
    ``"citations"`` hold everything that the model was shown; `citations` reads them. In ``run`` the searches happen in
    the event loop of `agent_rag.run_sync`, so open the store there too.

    Args:
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.
    """
    wrapped = [RAGMiddleware.of(one) for one in middlewares]
    own = [_tool(tool, wrapped) for middleware in wrapped for tool in middleware.rag.tools]
    show, hide = RAGHook(wrapped, own), HideHints(wrapped)
    hooks = {point: list(listed) for point, listed in (agent.hooks or {}).items()}
    # The hint is there while the model is asked: other hooks neither rewrite nor store it.
    hooks["before_llm"] = [*hooks.get("before_llm", []), show]
    for point in ("before_tool", "on_exit", "after_run"):
        hooks[point] = [hide, *hooks.get(point, [])]
    settings = {name: getattr(agent, name) for name in signature(type(agent).__init__).parameters if name != "self"}
    # In 3.0 an agent's schema also holds what Haystack puts into each; those keys may not be given again.
    own_keys = type(agent)(chat_generator=agent.chat_generator).state_schema or {}
    schema = {key: kind for key, kind in (agent.state_schema or {}).items() if own_keys.get(key) != kind}
    settings["state_schema"] = {**schema, "citations": {"type": list}}
    if any(one.rag.parameters.check_answer for one in wrapped):
        settings["state_schema"]["answer_check"] = {"type": dict}
    return type(agent)(**{**settings, "tools": [*agent.tools, *own], "hooks": hooks})


def citations(result: Mapping[str, Any]) -> list[Citation]:
    """What each number in a run's result stands for."""
    return collected(result.get("citations") or ())


def checked(result: Mapping[str, Any]) -> CheckedAnswer | None:
    """The check of the answer in a run's result, with ``check_answer=True``: its ``"answer_check"``."""
    return check_in([result.get("answer_check")])


class _Hook:
    """A hook that holds live objects."""

    def run(self, state: Any) -> None:
        run_sync(self.run_async(state))

    async def run_async(self, state: Any) -> None:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Raises: ConfigurationError: always; a knowledge base is no configuration."""
        raise ConfigurationError(
            f"{type(self).__name__} holds knowledge bases and cannot be serialised; attach it anew"
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> _Hook:
        """Raises: ConfigurationError: always."""
        raise ConfigurationError(f"{cls.__name__} cannot be made from a dict; attach it anew")


class RAGHook(_Hook):
    """Before each model call: the hints after the user's message, and the tools as the stores' fields make them."""

    def __init__(self, middlewares: Sequence[RAGMiddleware], tools: Sequence[Any]) -> None:
        self._middlewares = middlewares
        self._tools = tools

    async def run_async(self, state: Any) -> None:
        await self._describe_tools()
        run = _current(self._middlewares, state)
        made = []
        for rag in (middleware.rag for middleware in self._middlewares):
            hint = await rag.hint(run.turn)
            if hint is None:
                continue
            fresh = rag.key not in run.told
            run.told.add(rag.key)
            if fresh or not hint.persist:
                made.append((shown_now(hint), _hint_message(hint)))
        if made:
            messages = with_hints(state.data["messages"], made, is_ask=_is_ask(run), is_hint=_is_hint)
            _replace(state, messages)

    async def _describe_tools(self) -> None:
        """Describe the tools anew, since fields of the stores may be known by now. The same for all runs."""
        listed = [tool for one in self._middlewares for tool in await one.rag.list_tools(refresh=False)]
        specs = {tool.name: tool.spec for tool in listed}
        for tool in self._tools:
            tool.description, tool.parameters = specs[tool.name].description, specs[tool.name].parameters


class HideHints(_Hook):
    """Once the model has answered: hints leave the messages, but for those to keep, what was shown is listed, and the
    answer is checked."""

    def __init__(self, middlewares: Sequence[RAGMiddleware] = ()) -> None:
        self._middlewares = middlewares

    async def run_async(self, state: Any) -> None:
        run = (state.data.get("hook_context") or {}).get(_RUN_KEY)
        if isinstance(run, _Run):
            last = state.data["messages"][-1]
            if last.is_from("assistant") and not last.tool_calls:
                beside = await checked_with([one.rag for one in self._middlewares], last.text, run.turn)
                if beside:
                    state.set("answer_check", beside)
            shown = [citation.model_dump(mode="json") for citation in run.turn.citations]
            state.set("citations", shown, handler_override=_state_utils.replace_values)
        messages = state.data["messages"]
        kept = [message for message in messages if not _is_hint(message) or message.meta.get("persist")]
        if len(kept) < len(messages):
            _replace(state, kept)


def _replace(state: Any, messages: list[Any]) -> None:
    state.set("messages", messages, handler_override=_state_utils.replace_values)


# --- the turn of a run ---


def _current(middlewares: Sequence[RAGMiddleware], state: Any) -> _Run:
    """The run that `state` belongs to."""
    context = state.data.get("hook_context") or {}
    run = context.get(_RUN_KEY)
    if isinstance(run, _Run):
        return run
    messages = list(state.data["messages"])
    asks = [index for index, message in enumerate(messages) if message.is_from("user") and not _is_hint(message)]
    position = asks[-1] if asks else 0
    turn = middlewares[0]._start(
        list(_blocks(messages[position])) if asks else None,
        lambda: list(_history(messages[:position])),
        context.get(CONTEXT_KEY),
        beside=middlewares[1:],
    )
    run = _Run(turn, messages[position] if asks else None)
    # A copy: the caller's mapping may serve several runs. It is no output, unlike the other keys of the state.
    state.set("hook_context", {**context, _RUN_KEY: run})
    return run


def _is_ask(run: _Run) -> Callable[[Any], bool]:
    # By value, since hooks may copy messages; not the last user message, since hooks may add some.
    return lambda message: bool(message == run.ask)


def _is_hint(message: Any) -> bool:
    return bool(message.is_from("user") and message.meta.get("name") == HINT_NAME)


# --- translation ---


def _tool(tool: KnowledgeTool, middlewares: Sequence[RAGMiddleware]) -> Any:
    async def run(state: Any, **arguments: Any) -> dict[str, Any]:
        turn = None if state is None else _current(middlewares, state).turn
        result = await tool(arguments, turn=turn)
        return {"content": _parts(result.blocks), **result.structured()}

    def run_in_sync(state: Any, **arguments: Any) -> dict[str, Any]:
        return run_sync(run(state, **arguments))

    for function in (run, run_in_sync):
        # The agent puts its state where the annotation says so, over whatever the model sent.
        function.__annotations__["state"] = _state.State
    return _tools.Tool(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        function=run_in_sync,
        async_function=run,
        outputs_to_string={"source": "content", "raw_result": True},
        outputs_to_state={"citations": {"source": "citations"}},
    )


def _hint_message(hint: Hint) -> Any:
    # In `meta`, since generators send a message's own name to the provider.
    meta = {"name": HINT_NAME, **({"persist": True} if hint.persist else {})}
    if (text := plain_text(hint.blocks)) is not None:
        return _dataclasses.ChatMessage.from_user(text, meta=meta)
    return _dataclasses.ChatMessage.from_user(content_parts=_parts(hint.blocks), meta=meta)


def _parts(blocks: Iterable[ContentBlock]) -> list[Any]:
    """Haystack's image parts hold data only; of an image behind a URL there is its note in the text before it."""
    parts: list[Any] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append(_dataclasses.TextContent(block.text))
        elif isinstance(block.source, Base64Source):
            source = block.source
            parts.append(_dataclasses.ImageContent(source.data, mime_type=source.media_type, validation=False))
    return parts


def _blocks(message: Any) -> Iterator[ContentBlock]:
    """The text and the images of a message."""
    yield from (TextBlock(text=text) for text in message.texts)
    for image in message.images:
        yield DataBlock(source=Base64Source(data=image.base64_image, media_type=image.mime_type or "image/png"))


def _history(messages: Sequence[Any]) -> Iterator[ChatMessage]:
    for message in messages:
        role = message.role.value
        if role in ("user", "assistant"):
            name = HINT_NAME if _is_hint(message) else None
            yield ChatMessage(role=role, content=[TextBlock(text="\n".join(message.texts))], name=name)
        for result in message.tool_call_results:
            yield ChatMessage(role="tool", content=[TextBlock(text=_said(result.result))])


def _said(result: Any) -> str:
    parts = result if isinstance(result, list) else [result]
    return "\n".join(getattr(part, "text", None) or (part if isinstance(part, str) else "") for part in parts)


__all__ = ["CONTEXT_KEY", "HideHints", "RAGHook", "RAGMiddleware", "attach", "checked", "citations"]
