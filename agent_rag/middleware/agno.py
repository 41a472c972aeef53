"""Agno: ``attach(agent, RAGMiddleware([knowledge]))``."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from .._util.extras import needs
from .._util.sync import run_sync
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from ..errors import ConfigurationError
from .core import rag as core
from .core.adapter import CHECK_KEY, Adapter, check_in, checked_with, derived, named_as, shown_now
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn, TurnRegistry

_functions = needs("agno", "agno.tools.function", purpose="agent_rag.middleware.agno")
_toolkits = needs("agno", "agno.tools.toolkit")
_messages = needs("agno", "agno.models.message")
_media = needs("agno", "agno.media")

CONTEXT_KEY = "agent_rag_context"
"""Key in the run's `dependencies` of what the `scope` callable gets."""

# By run id: a model knows of the run that it serves only its output object.
_turns = TurnRegistry()


class _Run:
    """What the adapter keeps beside a turn."""

    def __init__(self) -> None:
        self.ask_id: str | None = None
        """Of the message that asks; known from the first model call on."""
        self.told: set[str] = set()
        """Keys of the instances whose hint was shown."""
        self.references: list[Any] = []


_runs: WeakKeyDictionary[Turn, _Run] = WeakKeyDictionary()


class RAGMiddleware(Adapter):
    """Retrieval for an Agno agent; see `attach`. The `scope` callable gets ``dependencies["agent_rag_context"]`` of the
    run."""


def attach(agent: Any, *middlewares: Any) -> Any:
    """Give an Agno agent retrieval, and return it. Once, before its first run.

    Static: a hint after the user's message, in the model's input only. Agentic: tools of the agent. What was shown is
    in ``RunOutput.references``, one entry for each call and one for the rest; `citations` reads them. Works in ``run``
    and ``arun``; in ``run`` the searches happen in the event loop of `agent_rag.run_sync`, so open the store there too.

    Args:
        agent: An `agno.agent.Agent` with a model and, if any, a list of tools. Its model is replaced by a copy that
            adds the hints; fallback, output, parser and reasoning models get none.
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.

    Raises: ConfigurationError: the agent has no model yet, or a function that makes its tools.
    """
    wrapped = [RAGMiddleware.of(one) for one in middlewares]
    rags = [middleware.rag for middleware in wrapped]
    if agent.model is None:
        raise ConfigurationError("the agent has no model; attach works on Agent(model=...)")
    if agent.tools is not None and not isinstance(agent.tools, list):
        raise ConfigurationError("the agent's tools are made by a function; attach works on a list of tools")

    def begin(run_input: Any, run_context: Any, session: Any = None) -> None:
        _turns.get_or_start(
            run_context.run_id,
            lambda: wrapped[0]._start(
                list(_asked(run_input)),
                lambda: list(_history(rags, session)),
                (run_context.dependencies or {}).get(CONTEXT_KEY),
                beside=wrapped[1:],
            ),
        )

    def end(run_output: Any, run_context: Any) -> None:
        turn = _turns.get(run_context.run_id)
        if turn is not None and turn.citations:
            references = _run_of(turn).references
            listed = {one["number"] for made in references for one in made.references}
            rest = [one.place() for one in turn.citations if one.number not in listed]
            if rest:
                references = [*references, _messages.MessageReferences(query=turn.text, references=rest)]
            run_output.references = [*(run_output.references or []), *references]
        if turn is not None and turn.checked is not None:
            run_output.metadata = {**(run_output.metadata or {}), CHECK_KEY: turn.checked.model_dump(mode="json")}
        _turns.end(run_context.run_id)

    agent.model = _hinting(agent.model, rags)
    toolkits = [_toolkit(rag) for rag in rags if rag.mode == "agentic"]
    agent.tools = [*(agent.tools or []), *toolkits]
    # Guardrails of the user come first, so that what they refuse or rewrite is not searched for.
    agent.pre_hooks = [*(agent.pre_hooks or []), begin]
    agent.post_hooks = [end, *(agent.post_hooks or [])]
    return agent


def citations(output: Any) -> list[Citation]:
    """What each number in a ``RunOutput`` stands for."""
    return collected(*(made.references or () for made in output.references or ()))


def checked(output: Any) -> CheckedAnswer | None:
    """The check of the answer in a ``RunOutput``, with ``check_answer=True``."""
    return check_in([output.metadata])


def _run_of(turn: Turn) -> _Run:
    return _runs.setdefault(turn, _Run())


# --- each model call ---


def _hinting(model: Any, rags: Sequence[core.RAGMiddleware]) -> Any:
    """A copy of `model` that sees the hints: hooks write to what is stored, a model call does not."""
    kind: Any = type(model)

    class Hinting(kind):  # type: ignore[misc]
        def invoke(self, messages: list[Any], *args: Any, **options: Any) -> Any:
            messages, options = run_sync(_prepared(rags, messages, options))
            response = super().invoke(messages, *args, **options)
            run_sync(_answered(rags, options, [response]))
            return response

        async def ainvoke(self, messages: list[Any], *args: Any, **options: Any) -> Any:
            messages, options = await _prepared(rags, messages, options)
            response = await super().ainvoke(messages, *args, **options)
            await _answered(rags, options, [response])
            return response

        def invoke_stream(self, messages: list[Any], *args: Any, **options: Any) -> Iterator[Any]:
            messages, options = run_sync(_prepared(rags, messages, options))
            parts = []
            for part in super().invoke_stream(messages, *args, **options):
                parts.append(part)
                yield part
            run_sync(_answered(rags, options, parts))

        async def ainvoke_stream(self, messages: list[Any], *args: Any, **options: Any) -> AsyncIterator[Any]:
            messages, options = await _prepared(rags, messages, options)
            parts = []
            async for part in super().ainvoke_stream(messages, *args, **options):
                parts.append(part)
                yield part
            await _answered(rags, options, parts)

    return derived(model, named_as(Hinting, kind))


async def _answered(rags: Sequence[core.RAGMiddleware], options: dict[str, Any], parts: Sequence[Any]) -> None:
    """Check what the model said, unless it calls tools."""
    turn = _turns.get(getattr(options.get("run_response"), "run_id", None))
    if turn is not None and not any(part.tool_calls for part in parts):
        await checked_with(rags, "".join(part.content for part in parts if isinstance(part.content, str)), turn)


async def _prepared(
    rags: Sequence[core.RAGMiddleware], messages: list[Any], options: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a model call, with the hints and with the tools as the stores' fields make them."""
    turn = _turns.get(getattr(options.get("run_response"), "run_id", None))
    if turn is None:
        # The same model also writes memories and summaries.
        return messages, options
    options = {**options, "tools": await _described(rags, options.get("tools"))}
    run = _run_of(turn)
    if run.ask_id is None:
        asks = [message for message in messages if message.role == "user" and not _is_hint(rags, message)]
        run.ask_id = asks[-1].id if asks else ""
    made = []
    for rag in rags:
        hint = await rag.hint(turn)
        if hint is None:
            continue
        message = _hint_message(hint)
        if hint.persist and rag.key not in run.told:
            # The run's own list, which is stored; it is seen from here on.
            messages[:] = _with_hints(rags, run, messages, [(shown_now(hint), message)])
        run.told.add(rag.key)
        made.append((hint, message))
    return _with_hints(rags, run, messages, made), options


def _with_hints(
    rags: Sequence[core.RAGMiddleware], run: _Run, messages: list[Any], made: list[tuple[Hint, Any]]
) -> list[Any]:
    return with_hints(
        messages,
        made,
        is_ask=lambda message: message.id == run.ask_id,
        is_hint=lambda message: _is_hint(rags, message),
    )


def _is_hint(rags: Sequence[core.RAGMiddleware], message: Any) -> bool:
    # By its text: a name would be sent to the provider, and other fields are not stored.
    return message.role == "user" and any(rag.is_hint(message.get_content_string()) for rag in rags)


async def _described(rags: Sequence[core.RAGMiddleware], tools: Any) -> Any:
    """The tools described anew, since fields of the stores may be known by now."""
    specs = {tool.name: tool.spec for rag in rags for tool in await rag.list_tools(refresh=False)}
    described = []
    for tool in tools or []:
        function = tool.get("function") if isinstance(tool, dict) else None
        spec = specs.get(function["name"]) if function else None
        described.append({**tool, "function": {**function, **spec.model_dump()}} if function and spec else tool)
    return described if tools is not None else None


# --- tools ---


def _toolkit(rag: core.RAGMiddleware) -> Any:
    """The tools of an instance, each for sync and for async runs."""
    toolkit = _toolkits.Toolkit(name=rag.name)
    for tool in rag.tools:
        run, run_in_sync = _entrypoints(tool)
        toolkit.functions[tool.name] = _function(tool, run_in_sync)
        toolkit.async_functions[tool.name] = _function(tool, run)
    return toolkit


def _function(tool: KnowledgeTool, entrypoint: Any) -> Any:
    return _functions.Function(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        entrypoint=entrypoint,
        skip_entrypoint_processing=True,
        # Strict schemas have no free-form filter.
        strict=False,
    )


def _entrypoints(tool: KnowledgeTool) -> tuple[Any, Any]:
    async def run(run_context: Any = None, **arguments: Any) -> Any:
        turn = _turns.get(getattr(run_context, "run_id", None))
        started = time.perf_counter()
        result = await tool(arguments, turn=turn)
        if turn is not None and result.citations:
            made = _messages.MessageReferences(
                query=str(arguments.get("query", "")),
                references=result.structured()["citations"],
                time=round(time.perf_counter() - started, 4),
            )
            _run_of(turn).references.append(made)
        return _tool_result(result)

    def run_in_sync(run_context: Any = None, **arguments: Any) -> Any:
        return run_sync(run(run_context, **arguments))

    return run, run_in_sync


# --- translation ---


def _tool_result(result: ToolResult) -> Any:
    return _functions.ToolResult(
        content=result.text, images=_images(result.blocks) or None, metadata=result.structured()
    )


def _hint_message(hint: Hint) -> Any:
    return _messages.Message(role="user", content=hint.text, images=_images(hint.blocks) or None)


def _images(blocks: Sequence[ContentBlock]) -> list[Any]:
    return [_image(block) for block in blocks if isinstance(block, DataBlock)]


def _image(block: DataBlock) -> Any:
    source = block.source
    where = {"content": base64.b64decode(source.data)} if isinstance(source, Base64Source) else {"url": str(source.url)}
    return _media.Image(mime_type=source.media_type, **where)


def _asked(run_input: Any) -> Iterator[ContentBlock]:
    """The user's words and the images that are at hand: none is fetched."""
    content, images = run_input.input_content, list(run_input.images or [])
    if isinstance(content, list) and content and isinstance(content[-1], _messages.Message):
        yield TextBlock(text=content[-1].get_content_string())
        images += content[-1].images or []
    else:
        yield TextBlock(text=run_input.input_content_string())
    for image in images:
        if isinstance(image.content, bytes):
            source = Base64Source(
                data=base64.b64encode(image.content).decode(), media_type=image.mime_type or "image/png"
            )
            yield DataBlock(source=source)


def _history(rags: Sequence[core.RAGMiddleware], session: Any) -> Iterator[ChatMessage]:
    for message in session.get_messages() if session is not None else []:
        if message.role in ("user", "assistant", "tool"):
            name = HINT_NAME if _is_hint(rags, message) else None
            yield ChatMessage(role=message.role, content=[TextBlock(text=message.get_content_string())], name=name)


__all__ = ["CONTEXT_KEY", "RAGMiddleware", "attach", "checked", "citations"]
