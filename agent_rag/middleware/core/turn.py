"""What belongs to one user turn: everything the middleware remembers lives here, nothing on the shared object."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...answers import CheckedAnswer, check_answer
from ...chat import HINT_NAME, ChatMessage
from ...content import ContentBlock, DataBlock, TextBlock
from .citation import Citation, Passage, PassageKey
from .conversation.ledger import read_above
from .conversation.numbers import Numbers
from .hint import Hint
from .result import ToolResult

History = Iterable[ChatMessage] | Callable[[], Iterable[ChatMessage]]
Ask = str | ContentBlock | ChatMessage | Sequence[str | ContentBlock]

_current: ContextVar[Turn | None] = ContextVar("agent_rag_turn", default=None)


@dataclass
class Call:
    """A tool call of this turn, by its arguments."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    count: int = 0
    result: ToolResult | None = None


@dataclass
class Slot:
    """What one middleware instance keeps in a turn."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    hint: Hint | None = None
    hint_done: bool = False
    scope: Any = None
    scope_done: bool = False
    searches: int = 0
    """Different searches of the tool so far."""


class Turn:
    """One user turn: from the user's message to the agent's final answer.

    Make it with `RAGMiddleware.start_turn` when the turn begins, keep it in the framework's per-run slot, and hand it
    to every `hint` and `call_tool` of the turn, of all instances on the agent: then citation numbers go on, what a hint
    showed is not shown again, and repeated calls are noticed. Where a framework runs a turn in one context, ``with
    turn.active():`` lets calls find it by themselves. A turn that starts while another one is active is a subagent's,
    and shares its numbers. Not for use from several event loops at once.
    """

    def __init__(
        self,
        ask: Ask | None = None,
        *,
        history: History = (),
        context: Any = None,
        supports_images: bool = False,
    ) -> None:
        """
        Args:
            ask: The user's message: text, blocks, or a ChatMessage. None or blank: there is nothing to hint at.
            history: Earlier messages, oldest first, or a function that gives them when they are wanted: with hints
                and tool results where the model still sees them, so that new citation numbers go on after theirs.
            context: The caller's identity as the framework carries it; given to the `scope` callable.
            supports_images: Whether the model takes image parts.
        """
        self.id = secrets.token_hex(8)
        self.blocks = _blocks(ask)
        self._history = history
        self.context = context
        self.supports_images = supports_images
        self.checked: CheckedAnswer | None = None
        """The answer of this turn, compared with what it cites; see `RAGMiddleware.check_turn`."""
        self.checked_answer = ""
        self._parent = _current.get()
        self._shown: set[PassageKey] = set()
        self._hinted: set[PassageKey] = set()
        self._above: set[PassageKey] = set()
        self._calls: dict[str, Call] = {}
        self._slots: dict[str, Slot] = {}

    @cached_property
    def _earlier(self) -> tuple[ChatMessage, ...]:
        messages = self._history() if callable(self._history) else self._history
        return tuple(messages)

    @cached_property
    def history(self) -> tuple[ChatMessage, ...]:
        """The earlier user and assistant messages."""
        return tuple(message for message in self._earlier if _is_talk(message))

    @cached_property
    def numbers(self) -> Numbers:
        """The citation numbers of this conversation; those of the calling turn in a subagent."""
        numbers = self._parent.numbers if self._parent is not None else Numbers()
        above = read_above(self._earlier)
        numbers.go_on_after(above)
        self._above |= above.visible
        return numbers

    @property
    def text(self) -> str:
        """The text of the ask."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock)).strip()

    @property
    def images(self) -> list[DataBlock]:
        """The images of the ask."""
        return [block for block in self.blocks if isinstance(block, DataBlock)]

    @property
    def citations(self) -> list[Citation]:
        """Everything shown to the model in this turn, and by the agents that it called, by number."""
        return self.numbers.citations

    def check(self, answer: str) -> CheckedAnswer:
        """An answer of this turn, sentence by sentence, against what was shown; see `check_answer`."""
        return check_answer(answer, self.numbers.quotable)

    @staticmethod
    def current() -> Turn | None:
        """The active turn of this context."""
        return _current.get()

    @contextmanager
    def active(self) -> Iterator[Turn]:
        """Make this the current turn of the running context."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    # --- for the middleware ---

    def show(
        self, passages: Sequence[Passage], fence: str, *, hidden: Iterable[str] = (), lasting: bool = True
    ) -> list[Citation]:
        """Number `passages` for good.

        Args:
            fence: Name of the fence that they are shown in.
            lasting: Whether the model sees them in its later calls of this turn too.
        """
        if lasting:
            self._shown.update(key for passage in passages for key in passage.keys)
        return self.numbers.keep(passages, fence, hidden=hidden)

    def mark_hinted(self, passages: Iterable[Passage]) -> None:
        self._hinted.update(key for passage in passages for key in passage.keys)

    def find_above(
        self, passages: Callable[[], Iterable[Passage]], entry_of: Callable[[Passage], str], hidden: Iterable[str]
    ) -> None:
        """Notice which passages stand in the history of a conversation that another process began.

        Args:
            passages: Asked for only if there are any.
            entry_of: A passage's header and text as they would be shown.
        """
        for passage in passages() if self.numbers.entries else ():
            if self.numbers.take_over(passage, entry_of(passage), hidden=hidden):
                self._above.update(passage.keys)

    def was_shown(self, key: PassageKey) -> bool:
        """Whether the model sees this chunk already: in a hint or in a tool result of this turn, or in the history."""
        return key in self._shown or self.is_above(key)

    def is_above(self, key: PassageKey) -> bool:
        """Whether it stands in the history, and not in this turn."""
        return self.numbers is not None and key in self._above and key not in self._shown

    def show_again(self, number: int) -> None:
        """Let the next search that finds the passage of this number show it in full."""
        self._above = {key for key in self._above if self.numbers.number_of(key) != number}

    def citation(self, number: int) -> Citation | None:
        return self.numbers.citation(number)

    @property
    def hinted_count(self) -> int:
        return len(self._hinted)

    def call(self, signature: str) -> Call:
        return self._calls.setdefault(signature, Call())

    def slot(self, instance: str) -> Slot:
        return self._slots.setdefault(instance, Slot())


class TurnRegistry:
    """Turns by key, for frameworks without a per-run slot. Bounded: the turn unused for longest is forgotten first."""

    def __init__(self, max_turns: int = 1_024) -> None:
        self._max_turns = max_turns
        self._turns: OrderedDict[Hashable, Turn] = OrderedDict()
        self._lock = threading.Lock()

    def get_or_start(self, key: Hashable, start: Callable[[], Turn]) -> Turn:
        """The turn under `key`, else what `start` makes. `key` must name one run: a run id, or ids of the conversation
        and of the user's message; never the text alone, which two users may share."""
        with self._lock:
            turn = self._turns.get(key)
            if turn is None:
                turn = self._turns[key] = start()
            self._turns.move_to_end(key)
            while len(self._turns) > self._max_turns:
                self._turns.popitem(last=False)
            return turn

    def get(self, key: Hashable) -> Turn | None:
        with self._lock:
            return self._turns.get(key)

    def end(self, key: Hashable) -> None:
        """Forget a turn; unknown keys are fine."""
        with self._lock:
            self._turns.pop(key, None)

    def __len__(self) -> int:
        return len(self._turns)


def _blocks(ask: Ask | None) -> list[ContentBlock]:
    if ask is None:
        return []
    if isinstance(ask, ChatMessage):
        return list(ask.content)
    if isinstance(ask, str | TextBlock | DataBlock):
        ask = [ask]
    return [TextBlock(text=item) if isinstance(item, str) else item for item in ask]


def _is_talk(message: ChatMessage) -> bool:
    return message.role in ("user", "assistant") and message.name != HINT_NAME and bool(message.text.strip())
