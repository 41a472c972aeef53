"""What an adapter's test class sets, and what all scenarios share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest

from ...answers import CheckedAnswer
from ...chat import ChatMessage
from ...content import DataBlock
from ...middleware import Citation, Parameters, RAGMiddleware
from ..chat import ScriptedChatModel
from ..knowledge import FactBase

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass
class Outcome:
    """How a run ended."""

    text: str
    """The final answer."""
    citations: list[dict[str, Any]] = field(default_factory=list)
    """What the framework's own slot holds: of all tool results of this run, in order."""
    cited: list[Citation] = field(default_factory=list)
    """What the adapter's `citations(result)` gives."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """`HintEvent`s that came through the framework's stream, as dicts."""
    checked: CheckedAnswer | None = None
    """What the adapter's `checked(result)` gives."""


def when(*conditions: str) -> Callable[[Test], Test]:
    """Collect a test only where the contract class has all `conditions` as true attributes, "not x" as false ones."""

    def mark(test: Test) -> Test:
        test.__dict__["_needs"] = conditions
        return test

    return mark


class AdapterFixtures:
    """What an adapter's test class sets."""

    pytestmark = pytest.mark.asyncio

    static: ClassVar[bool] = True
    """Can show a hint."""
    call_scope: ClassVar[bool] = True
    """Can show the hint on the first call only."""
    persists: ClassVar[bool] = True
    """Can keep the hint in the history."""
    has_history: ClassVar[bool] = True
    """`session` continues a conversation, and `stored` shows what was kept."""
    tool_images: ClassVar[bool] = True
    """Carries images in tool results."""
    hint_images: ClassVar[bool] = True
    citation_slot: ClassVar[bool] = True
    """The framework keeps structured data beside a tool result."""
    checks: ClassVar[bool] = True
    """Sees the answer at the end of a run, so that ``check_answer=True`` works."""
    streams: ClassVar[bool] = True
    """`stream` works."""
    stream_events: ClassVar[bool] = True
    """The hint event comes through the framework's stream."""
    raises: ClassVar[bool] = True
    """An error in a hook ends the run."""
    cancels: ClassVar[bool] = True
    """A run can be cancelled from outside while it searches."""
    has_context: ClassVar[bool] = True
    """`context` of a run reaches the `scope` callable."""
    subagents: ClassVar[bool] = True
    """A run that a tool of another run starts is known for its subagent; then `make_caller` is there."""
    same_agent: ClassVar[bool] = True
    """One agent object serves concurrent runs; else one agent each, with the same middleware object."""
    concurrent_rounds: ClassVar[int] = 20
    concurrent_runs: ClassVar[int] = 8

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherited: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited.update({name: test for name, test in vars(base).items() if name.startswith("test_") and test})
        for name, test in inherited.items():
            if name not in vars(cls):
                # Hidden, not skipped: what a framework cannot do is no missing test. A subclass may show it again.
                can = all(cls._holds(condition) for condition in getattr(test, "_needs", ()))
                setattr(cls, name, test if can else None)

    @classmethod
    def _holds(cls, condition: str) -> bool:
        wanted = condition.removeprefix("not ")
        return bool(getattr(cls, wanted)) == (wanted == condition)

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        """Override: an agent of the framework with `model` and all `middlewares` attached."""
        raise NotImplementedError

    def make_caller(self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], expert: Any) -> Any:
        """Override with `subagents`: an agent as `make_agent` makes it, with a tool ``ask_expert(question)`` that runs
        the agent `expert` of the same framework and gives its answer."""
        raise NotImplementedError

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        """Override: one user turn in the conversation `session`, with `context` as the caller's identity."""
        raise NotImplementedError

    async def stored(self, agent: Any, session: str = "s") -> str:
        """Override: everything that is kept of a conversation (history, state, checkpoints), as text."""
        raise NotImplementedError

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        """Override with `streams`: a user turn by the framework's streaming call."""
        raise NotImplementedError


def static(*bases: FactBase, scope: Any = None, on_event: Any = None, **parameters: Any) -> RAGMiddleware:
    """A static middleware over `bases`."""
    return RAGMiddleware(list(bases), Parameters(mode="static", **parameters), scope=scope, on_event=on_event)


def agentic(*bases: FactBase, scope: Any = None, on_event: Any = None, **parameters: Any) -> RAGMiddleware:
    """An agentic middleware over `bases`."""
    return RAGMiddleware(list(bases), Parameters(**parameters), scope=scope, on_event=on_event)


def roles(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    """(role, text) of the messages, system prompts left out."""
    return [(message.role, message.text) for message in messages if message.role != "system"]


def tool_text(messages: Sequence[ChatMessage]) -> str:
    """What the last tool message says."""
    return [message.text for message in messages if message.role == "tool"][-1]


def images(messages: Sequence[ChatMessage]) -> list[str]:
    """The data of all image blocks."""
    blocks = [block for message in messages for block in message.content if isinstance(block, DataBlock)]
    return [getattr(block.source, "data", "") for block in blocks]


def enums(schema: Any) -> Iterator[Any]:
    """Every enum in a JSON schema."""
    if isinstance(schema, dict):
        if "enum" in schema:
            yield schema["enum"]
        for value in schema.values():
            yield from enums(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from enums(value)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and what is in groups."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from causes(inner)
        error = error.__cause__ or error.__context__
