"""CrewAI: ``attach(agent, RAGMiddleware([knowledge]))``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import pydantic

from .._util.extras import needs
from .._util.sync import run_sync
from ..answers import CheckedAnswer
from ..chat import ChatMessage
from ..content import ContentBlock, DataBlock, TextBlock
from ..errors import ConfigurationError
from ._crewai_parts import parts
from .core import rag as core
from .core.adapter import Adapter, checked_with, derived, named_as, shown_now
from .core.citation import Citation
from .core.hint import Hint, with_hints
from .core.tool import KnowledgeTool
from .core.turn import Turn, TurnRegistry

_crew_tools: Any = needs("crewai", "crewai.tools", purpose="agent_rag.middleware.crewai")
_bus: Any = needs("crewai", "crewai.events.event_bus")
_base_events: Any = needs("crewai", "crewai.events.base_events")

T = TypeVar("T")

_turns = TurnRegistry()
"""The last turn of each task, by its id."""


class HintShownEvent(_base_events.BaseEvent):  # type: ignore[misc]
    """On CrewAI's event bus: a hint was made for a turn. The fields of `HintEvent` as plain JSON."""

    type: str = "agent_rag_hint"
    middleware: str
    queries: list[str]
    text: str
    citations: list[dict[str, Any]]
    dropped: int
    degraded: bool


class _Run:
    """One execution of a task by an agent."""

    def __init__(self, owner: Any, task: Any, turn: Turn) -> None:
        self.owner = owner
        self.task = task
        self.turn = turn
        self.ask: Any = None
        """Content of the message that asks; known from the first model call on."""
        self.told: set[str] = set()
        """Keys of the instances whose hint event was emitted."""
        self.pictured: dict[str, list[DataBlock]] = {}
        """Images of tool results, by the text of the result."""
        self.cancelled = False
        self._searches: set[asyncio.Task[Any]] = set()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of `coroutine`, for a worker thread; CancelledError once the run is cancelled."""
        try:
            result = run_sync(self._watched(coroutine))
        except concurrent.futures.CancelledError as error:
            raise asyncio.CancelledError from error
        if self.cancelled:
            # CrewAI's thread outlives the run: it must not go on to the model.
            raise asyncio.CancelledError
        return result

    async def _watched(self, coroutine: Coroutine[Any, Any, T]) -> T:
        search = asyncio.ensure_future(coroutine)
        self._searches.add(search)
        try:
            if self.cancelled:
                search.cancel()
            return await search
        finally:
            self._searches.discard(search)

    def cancel(self) -> None:
        """From any thread: end the searches."""
        self.cancelled = True
        for search in list(self._searches):
            search.get_loop().call_soon_threadsafe(search.cancel)


_running: ContextVar[_Run | None] = ContextVar("agent_rag_crewai_run", default=None)


class RAGMiddleware(Adapter):
    """Retrieval for a CrewAI agent; see `attach`. The `scope` callable gets what `context` gives, which is called when
    an execution begins, in its context. Images are shown where the model's `supports_multimodal` says so."""


def attach(agent: Any, *middlewares: Any) -> Any:
    """A copy of a CrewAI agent with retrieval, for its tasks and crews; `agent` itself stays as it is.

    Static: a hint after the task, in the model's input only. Agentic: tools of the agent. A turn is one execution of a
    task, or one ``kickoff`` of the agent. The searches happen in the event loop of `agent_rag.run_sync`, so open
    the store there; tools of CrewAI are synchronous in ``akickoff`` too.

    Args:
        agent: A `crewai.Agent`. The copy's model is a copy that adds the hints.
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.

    Raises: ConfigurationError: the agent has middlewares already.
    """
    if hasattr(type(agent), "_agent_rag"):
        raise ConfigurationError("this agent has its middlewares already; attach all of them in one call")
    wrapped = [RAGMiddleware.of(one) for one in middlewares]
    rags = [one.rag for one in wrapped]
    made = derived(agent, _turning(type(agent), wrapped))
    made.llm = _hinting(agent.llm, rags)
    made.tools = [*(agent.tools or []), *(_tool(tool) for rag in rags for tool in rag.tools)]
    return made


def citations(task: Any) -> list[Citation]:
    """Everything shown to the model in the last execution of a task, by number."""
    turn = _turns.get(str(task.id))
    return turn.citations if turn is not None else []


def checked(task: Any) -> CheckedAnswer | None:
    """The check of the answer of the last execution of a task, with ``check_answer=True``."""
    turn = _turns.get(str(task.id))
    return turn.checked if turn is not None else None


# --- turns ---


def _turning(kind: Any, middlewares: Sequence[RAGMiddleware]) -> Any:
    """A class of agents that starts the turns. Crews copy agents by their class."""

    @contextmanager
    def turn_of(agent: Any, task: Any, text: str, history: Sequence[Any] = ()) -> Iterator[None]:
        run = _running.get()
        if run is not None and run.owner is agent and (task is None or run.task is task):
            # CrewAI tries an execution again from within itself.
            yield
            return
        turn = middlewares[0]._start(
            text,
            lambda: list(_history(history)),
            supports_images=agent.llm.supports_multimodal(),
            beside=middlewares[1:],
        )
        if task is not None:
            _turns.end(str(task.id))
            _turns.get_or_start(str(task.id), lambda: turn)
        started = _Run(agent, task, turn)
        token = _running.set(started)
        try:
            yield
        except asyncio.CancelledError:
            started.cancel()
            raise
        finally:
            _running.reset(token)

    async def ended(answer: Any) -> None:
        run = _running.get()
        if run is not None:
            await checked_with([one.rag for one in middlewares], getattr(answer, "raw", answer), run.turn)

    class Turning(kind):  # type: ignore[misc]
        def execute_task(self, task: Any, *args: Any, **options: Any) -> Any:
            with turn_of(self, task, task.description):
                answer = super().execute_task(task, *args, **options)
                run_sync(ended(answer))
                return answer

        async def aexecute_task(self, task: Any, *args: Any, **options: Any) -> Any:
            with turn_of(self, task, task.description):
                answer = await super().aexecute_task(task, *args, **options)
                await ended(answer)
                return answer

        def kickoff(self, messages: Any, *args: Any, **options: Any) -> Any:
            started = super().kickoff
            with turn_of(self, None, *_asked(messages)):
                result = started(messages, *args, **options)
                if not inspect.isawaitable(result):
                    run_sync(ended(result))
            return self._awaited(messages, result) if inspect.isawaitable(result) else result

        async def akickoff(self, messages: Any, *args: Any, **options: Any) -> Any:
            with turn_of(self, None, *_asked(messages)):
                result = await super().akickoff(messages, *args, **options)
                await ended(result)
                return result

        async def _awaited(self, messages: Any, result: Any) -> Any:
            with turn_of(self, None, *_asked(messages)):
                awaited = await result
                await ended(awaited)
                return awaited

    Turning._agent_rag = True
    return named_as(Turning, kind)


def _asked(messages: Any) -> tuple[str, list[Any]]:
    """The user's words, and what was said before."""
    if isinstance(messages, str):
        return messages, []
    asks = [index for index, message in enumerate(messages) if message["role"] == "user"]
    return (_text(messages[asks[-1]]), list(messages[: asks[-1]])) if asks else ("", [])


# --- each model call ---


def _hinting(llm: Any, rags: Sequence[core.RAGMiddleware]) -> Any:
    """A copy of `llm` that sees the hints: hooks write to the task's messages, a model call does not."""
    kind: Any = type(llm)

    class Hinting(kind):  # type: ignore[misc]
        def call(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
            messages, tools = _prepared(self, rags, messages, tools)
            return super().call(messages, tools, *args, **options)

        async def acall(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
            messages, tools = await asyncio.to_thread(_prepared, self, rags, messages, tools)
            return await super().acall(messages, tools, *args, **options)

    return derived(llm, named_as(Hinting, kind))


def _prepared(llm: Any, rags: Sequence[core.RAGMiddleware], messages: Any, tools: Any) -> tuple[Any, Any]:
    """The arguments of a model call, with hints and images, and with the tools as the instances describe them."""
    run = _running.get()
    specs = run_sync(_specs(rags))
    tools = [_described(tool, specs) for tool in tools] if tools else tools
    if run is None or isinstance(messages, str):
        return messages, tools
    if run.ask is None:
        users = [message["content"] for message in messages if message["role"] == "user"]
        asks = [content for content in users if run.turn.text in str(content)] or users
        run.ask = asks[-1] if asks else None
    hints = run.wait(_hints(rags, run.turn))
    _tell(llm, run, hints)
    made = with_hints(
        messages,
        # There is no history to keep a hint in.
        [(shown_now(hint), _hint_message(llm, hint)) for _, hint in hints],
        is_ask=lambda message: message["role"] == "user" and message["content"] == run.ask,
        is_hint=lambda message: message["role"] == "user" and any(rag.is_hint(_text(message)) for rag in rags),
    )
    return list(_with_images(llm, made, run.pictured)), tools


async def _specs(rags: Sequence[core.RAGMiddleware]) -> dict[str, Any]:
    return {tool.name: tool.spec for rag in rags for tool in await rag.list_tools(refresh=False)}


async def _hints(rags: Sequence[core.RAGMiddleware], turn: Turn) -> list[tuple[core.RAGMiddleware, Hint]]:
    hints = [(rag, await rag.hint(turn)) for rag in rags]
    return [(rag, hint) for rag, hint in hints if hint is not None]


def _tell(llm: Any, run: _Run, hints: Iterable[tuple[core.RAGMiddleware, Hint]]) -> None:
    """Emit each hint's event once; here, in the execution's own context, by which streams tell executions apart."""
    for rag, hint in hints:
        if hint.event is None or rag.key in run.told:
            continue
        run.told.add(rag.key)
        about = {} if run.task is None else {"task_id": str(run.task.id), "task_name": run.task.name}
        _bus.crewai_event_bus.emit(
            llm,
            HintShownEvent(
                **hint.event.model_dump(mode="json", include=set(_EVENT_FIELDS)),
                agent_id=str(run.owner.id),
                agent_role=run.owner.role,
                **about,
            ),
        )


_EVENT_FIELDS = ("middleware", "queries", "text", "citations", "dropped", "degraded")


def _described(tool: Any, specs: dict[str, Any]) -> Any:
    function = tool.get("function") if isinstance(tool, dict) else None
    spec = specs.get(function["name"]) if function else None
    # CrewAI's own schema makes every argument required; strict ones have no free-form filter.
    return {**tool, "function": {**spec.model_dump(), "strict": False}} if spec is not None else tool


# --- tools ---


class SearchTool(_crew_tools.BaseTool):  # type: ignore[misc]
    """A tool of an instance."""

    _tool: Any = pydantic.PrivateAttr(default=None)

    def _run(self, **arguments: Any) -> str:
        run = _running.get()
        if run is None:
            return run_sync(self._tool(arguments)).text  # type: ignore[no-any-return]
        result = run.wait(self._tool(arguments, turn=run.turn))
        images = [block for block in result.blocks if isinstance(block, DataBlock)]
        if images:
            run.pictured[result.text] = images
        return result.text  # type: ignore[no-any-return]

    async def _arun(self, **arguments: Any) -> str:
        return await asyncio.to_thread(self._run, **arguments)


def _tool(tool: KnowledgeTool) -> Any:
    schema = tool.parameters

    class Arguments(pydantic.BaseModel):
        """Takes anything: wrong arguments get a short answer of the tool."""

        model_config = pydantic.ConfigDict(extra="allow", json_schema_extra=lambda made: made.update(schema))

    made = SearchTool(name=tool.name, description=tool.description, args_schema=Arguments, cache_function=_never)
    made._tool = tool
    return made


def _never(arguments: Any = None, result: Any = None) -> bool:
    """CrewAI's cache would give one caller's hits to the next; a turn has its own."""
    return False


# --- images ---


def _hint_message(llm: Any, hint: Hint) -> dict[str, Any]:
    pictured = any(isinstance(block, DataBlock) for block in hint.blocks)
    return {"role": "user", "content": list(parts(llm, hint.blocks)) if pictured else hint.text}


def _with_images(llm: Any, messages: Sequence[Any], pictured: dict[str, list[DataBlock]]) -> Iterator[Any]:
    """`messages` with the images of the tool results, which are texts in CrewAI, in a user message after them."""
    waiting: list[DataBlock] = []
    for message in messages:
        if waiting and message["role"] != "tool":
            # Providers want the results of parallel calls side by side.
            yield _image_message(llm, waiting)
            waiting = []
        yield message
        if message["role"] in ("tool", "assistant"):
            waiting += [image for text, images in pictured.items() if text in _text(message) for image in images]
    if waiting:
        yield _image_message(llm, waiting)


def _image_message(llm: Any, images: Iterable[DataBlock]) -> dict[str, Any]:
    blocks: list[ContentBlock] = [TextBlock(text="The images of the search results above, in their order:"), *images]
    return {"role": "user", "content": list(parts(llm, blocks))}


# --- translation ---


def _text(message: Any) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part, dict) and "text" in part)


def _history(messages: Sequence[Any]) -> Iterator[ChatMessage]:
    for message in messages:
        if message["role"] in ("user", "assistant", "tool"):
            yield ChatMessage(role=message["role"], content=[TextBlock(text=_text(message))])


__all__ = ["HintShownEvent", "RAGMiddleware", "SearchTool", "attach", "checked", "citations"]
