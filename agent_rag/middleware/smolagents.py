"""smolagents: ``attach(agent, RAGMiddleware([knowledge]))``."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from PIL import Image

from .._util.extras import needs
from .._util.sync import run_sync
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from ..errors import ConfigurationError
from .core import rag as core
from .core.adapter import Adapter, checked_with, derived, shown_now
from .core.citation import Citation
from .core.hint import Hint, with_hints
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn

_memory: Any = needs("smolagents", "smolagents.memory", purpose="agent_rag.middleware.smolagents")
_models: Any = needs("smolagents", "smolagents.models")
_tools: Any = needs("smolagents", "smolagents.tools")
_utils: Any = needs("smolagents", "smolagents.utils")

# What smolagents appends to the task for `additional_args`: values, not words of the user.
_ARGUMENTS = "\nYou have been provided with these additional arguments,"

_attached: WeakKeyDictionary[Any, _Attached] = WeakKeyDictionary()


class RAGMiddleware(Adapter):
    """Retrieval for a smolagents agent; see `attach`. The `scope` callable gets what `context` gives, which is called
    in the thread of the run: smolagents has no slot for it, and shows `additional_args` to the model."""


def attach(agent: Any, *middlewares: Any) -> Any:
    """Give a smolagents agent retrieval, and return it. Once, before its first run.

    Static: a hint after the task, in the model's input only. Agentic: tools of the agent, whose results are texts with
    `citations`. The searches happen in the event loop of `agent_rag.run_sync`, so open the store there.

    Args:
        agent: A `ToolCallingAgent` or `CodeAgent`. Its model is replaced by a copy that adds the hints; managed agents
            keep theirs.
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.

    Raises: ConfigurationError: the agent has middlewares already.
    """
    if agent in _attached:
        raise ConfigurationError("this agent has its middlewares already; attach all of them in one call")
    attached = _Attached(agent.memory, [RAGMiddleware.of(one) for one in middlewares])
    _attached[agent] = attached
    agent.model = _hinting(agent.model, attached)
    for tool in (tool for rag in attached.rags for tool in rag.tools):
        agent.tools[tool.name] = attached.tools[tool.name] = SearchTool(tool, attached)
    agent.step_callbacks.register(_memory.ActionStep, attached.show_images)
    agent.step_callbacks.register(_memory.ActionStep, attached.check)
    return agent


def citations(agent: Any) -> list[Citation]:
    """Everything shown to the model in the agent's last run, by number."""
    attached = _attached.get(agent)
    return attached.run().turn.citations if attached is not None else []


def checked(agent: Any) -> CheckedAnswer | None:
    """The check of the answer of the agent's last run, with ``check_answer=True``."""
    attached = _attached.get(agent)
    return attached.run().turn.checked if attached is not None else None


class CitedText(str):
    """A tool's answer for the model, with its citations as plain JSON."""

    citations: list[dict[str, Any]]
    is_error: bool


@dataclass
class HintStep(_memory.MemoryStep):  # type: ignore[misc]
    """A hint kept in the agent's memory, for ``persist_hint=True``."""

    text: str
    message: Any = field(repr=False)

    def dict(self) -> dict[str, Any]:
        return {"hint": self.text}

    def to_messages(self, summary_mode: bool = False) -> list[Any]:
        return [self.message]


class _Run:
    """One run of an agent: the step that asks, its turn, and whose hints are in the memory."""

    def __init__(self, step: Any, turn: Turn) -> None:
        self.step = step
        self.turn = turn
        self.kept: set[str] = set()
        self.images: list[Any] = []
        """Of tool results, to be shown after the step."""


class _Attached:
    """What belongs to one agent. An agent serves one run at a time, tools of a step in several threads."""

    def __init__(self, memory: Any, middlewares: Sequence[RAGMiddleware]) -> None:
        self.memory = memory
        self.middlewares = middlewares
        self.rags = [one.rag for one in middlewares]
        self.tools: dict[str, SearchTool] = {}
        self._run: _Run | None = None
        self._lock = threading.Lock()

    def run(self) -> _Run:
        """The run that the agent's memory is at."""
        with self._lock:
            steps = list(self.memory.steps)
            at = max((i for i, step in enumerate(steps) if isinstance(step, _memory.TaskStep)), default=-1)
            step = steps[at] if at >= 0 else None
            if self._run is None or self._run.step is not step:
                turn = self.middlewares[0]._start(
                    list(_asked(step)) if step else None,
                    lambda: list(_history(steps[:at])),
                    beside=self.middlewares[1:],
                )
                self._run = _Run(step, turn)
            return self._run

    def prepared(self, messages: list[Any]) -> list[Any]:
        """The messages of a model call, with the hints."""
        run = self.run()
        hints = run_sync(self._hints(run.turn))
        made = []
        for rag, hint in hints:
            message = _hint_message(hint)
            if hint.persist and rag.key not in run.kept and run.step is not None:
                run.kept.add(rag.key)
                self._keep(run, HintStep(hint.text, message))
                # Later calls read it from the memory.
                hint = shown_now(hint)
            made.append((hint, message))
        return with_hints(messages, made, is_ask=self._is_ask(run, messages), is_hint=self._is_hint)

    async def _hints(self, turn: Turn) -> list[tuple[core.RAGMiddleware, Hint]]:
        # Described anew, since fields of the stores may be known by now.
        for rag in self.rags:
            for tool in await rag.list_tools(refresh=False):
                self.tools[tool.name].describe(tool)
        hints = [(rag, await rag.hint(turn)) for rag in self.rags]
        return [(rag, hint) for rag, hint in hints if hint is not None]

    def _keep(self, run: _Run, kept: HintStep) -> None:
        steps = self.memory.steps
        position = next(i for i, step in enumerate(steps) if step is run.step) + 1
        while position < len(steps) and isinstance(steps[position], HintStep):
            position += 1
        steps.insert(position, kept)

    def _is_ask(self, run: _Run, messages: Sequence[Any]) -> Callable[[Any], bool]:
        task = _text(run.step.to_messages()[0]) if run.step is not None else ""
        if any(_is_user(message) and _text(message) == task for message in messages):
            return lambda message: _is_user(message) and _text(message) == task
        # The first plan is asked for in words of its own, with the task in them.
        return lambda message: _is_user(message) and not self._is_hint(message)

    def _is_hint(self, message: Any) -> bool:
        return _is_user(message) and any(rag.is_hint(_text(message)) for rag in self.rags)

    def show_images(self, step: Any, agent: Any = None) -> None:
        """After a step: the images of its tool results, which smolagents takes nowhere else."""
        run = self.run()
        images, run.images = run.images, []
        if images:
            step.observations_images = [*(step.observations_images or []), *images]

    def check(self, step: Any, agent: Any = None) -> None:
        """After the last step."""
        if step.is_final_answer or isinstance(step.error, _utils.AgentMaxStepsError):
            run_sync(checked_with(self.rags, _answer_of(step), self.run().turn))


def _answer_of(step: Any) -> Any:
    """What the last step says: an output of code, or what is given to the tool ``final_answer``."""
    given = [call.arguments for call in step.tool_calls or [] if call.name == "final_answer"]
    said = given[-1].get("answer") if given and isinstance(given[-1], dict) else None
    return step.action_output if step.action_output is not None else said


# --- each model call ---


def _hinting(model: Any, attached: _Attached) -> Any:
    """A copy of `model` that sees the hints: memory is stored, a model call is not."""
    kind: Any = type(model)

    def generate(self: Any, messages: list[Any], *args: Any, **options: Any) -> Any:
        return kind.generate(self, attached.prepared(messages), *args, **options)

    def generate_stream(self: Any, messages: list[Any], *args: Any, **options: Any) -> Iterator[Any]:
        yield from kind.generate_stream(self, attached.prepared(messages), *args, **options)

    methods = {"generate": generate, "__module__": kind.__module__}
    if hasattr(kind, "generate_stream"):
        # Agents look whether a model has it.
        methods["generate_stream"] = generate_stream
    return derived(model, type(kind.__name__, (kind,), methods))


# --- tools ---


class SearchTool(_tools.Tool):  # type: ignore[misc]
    """A tool of an instance, for one agent."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, tool: KnowledgeTool, attached: _Attached) -> None:
        super().__init__()
        self.name = tool.name
        self._tool = tool
        self._attached = attached
        self.describe(tool)

    def describe(self, tool: KnowledgeTool) -> None:
        self.description, self.inputs = tool.description, _inputs(tool.parameters)

    def forward(self, *args: Any, **named: Any) -> CitedText:
        run = self._attached.run()
        result = run_sync(self._tool(self._arguments(args, named), turn=run.turn))
        run.images += _images(result.blocks)
        return _cited(result)

    def __call__(self, *args: Any, sanitize_inputs_outputs: bool = False, **named: Any) -> CitedText:
        # Not the base's, which copies the answer into a text without citations.
        return self.forward(*args, **named)

    def _arguments(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """By name: code may give them by position, or as one dict."""
        if len(args) == 1 and not named and isinstance(args[0], Mapping):
            return args[0]
        return {**dict(zip(self.inputs, args, strict=False)), **named}

    def to_dict(self) -> dict[str, Any]:
        """Raises: ConfigurationError: always; a knowledge base is no configuration."""
        raise ConfigurationError("a tool that holds knowledge bases cannot be saved; attach it anew")


def _inputs(parameters: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema as smolagents writes it: no unions at the top, and `nullable` for what may be left out."""
    inputs = {}
    for name, schema in parameters["properties"].items():
        made = {key: value for key, value in schema.items() if key != "anyOf"}
        made.setdefault("type", "object")
        inputs[name] = made if name in parameters.get("required", ()) else {**made, "nullable": True}
    return inputs


def _cited(result: ToolResult) -> CitedText:
    text = CitedText(result.text)
    text.citations, text.is_error = result.structured()["citations"], result.is_error
    return text


# --- translation ---


def _hint_message(hint: Hint) -> Any:
    images = [{"type": "image", "image": image} for image in _images(hint.blocks)]
    # One text: models that flatten messages send the first part only.
    return _models.ChatMessage(role=_models.MessageRole.USER, content=[{"type": "text", "text": hint.text}, *images])


def _images(blocks: Iterable[ContentBlock]) -> list[Any]:
    """The images that can be read; smolagents takes pixels only. The text has a note of every image."""
    images = []
    for block in blocks:
        if isinstance(block, DataBlock) and isinstance(block.source, Base64Source):
            try:
                image = Image.open(io.BytesIO(base64.b64decode(block.source.data)))
                image.load()
            except (OSError, ValueError, Image.DecompressionBombError):
                continue
            images.append(image)
    return images


def _asked(step: Any) -> Iterator[ContentBlock]:
    yield TextBlock(text=step.task.partition(_ARGUMENTS)[0])
    for image in step.task_images or []:
        data = io.BytesIO()
        image.save(data, format="PNG")
        yield DataBlock(source=Base64Source(data=base64.b64encode(data.getvalue()).decode(), media_type="image/png"))


def _history(steps: Iterable[Any]) -> Iterator[ChatMessage]:
    """Tasks, hints, what tools said, and final answers."""
    for step in steps:
        if isinstance(step, _memory.TaskStep):
            yield ChatMessage(role="user", content=[TextBlock(text=step.task.partition(_ARGUMENTS)[0])])
        elif isinstance(step, HintStep):
            yield ChatMessage(role="user", content=[TextBlock(text=step.text)], name=HINT_NAME)
        elif isinstance(step, _memory.ActionStep) and not step.is_final_answer:
            yield ChatMessage(role="tool", content=[TextBlock(text=str(step.observations or ""))])
        elif isinstance(step, _memory.ActionStep) and step.is_final_answer:
            # Tool-calling agents keep the answer as the observation of the last tool, code agents as the output.
            answer = step.observations if step.action_output is None else step.action_output
            yield ChatMessage(role="assistant", content=[TextBlock(text=str(answer or ""))])


def _is_user(message: Any) -> bool:
    return bool(message.role == _models.MessageRole.USER)


def _text(message: Any) -> str:
    content = message.content or ""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if "text" in part)


__all__ = ["CitedText", "HintStep", "RAGMiddleware", "SearchTool", "attach", "checked", "citations"]
