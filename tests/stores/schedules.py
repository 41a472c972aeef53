"""Runs several actors on one world, one step of one actor at a time, in an order that the test chooses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from .versions_backend import Gate

_PATIENCE_S = 20.0


class Killed(BaseException):
    """The actor's process is gone; nothing that it still does reaches the world."""


class ActorGate(Gate):
    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.is_dead = False

    async def __call__(self) -> None:
        if self.is_dead:
            raise Killed
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn

    def open(self) -> None:
        self.waiting.pop(0).set_result(None)

    def kill(self) -> None:
        self.is_dead = True
        for turn in self.waiting:
            turn.set_exception(Killed())
        self.waiting.clear()


Actor = Callable[[Gate], Coroutine[Any, Any, None]]


@dataclass
class Choices:
    """Which actor goes on at each step: `prefix` first, then `more`; what was chosen is kept."""

    prefix: list[int]
    more: random.Random | None = None
    made: list[tuple[int, int]] = field(default_factory=list)
    """(choice, number of options)."""

    def choose(self, options: int) -> int:
        at = len(self.made)
        choice = self.prefix[at] if at < len(self.prefix) else self.more.randrange(options) if self.more else 0
        self.made.append((min(choice, options - 1), options))
        return self.made[-1][0]


async def run(actors: list[Actor], choices: Choices, *, kill: tuple[int, int] | None = None) -> list[bool]:
    """Run all actors to their ends.

    Args:
        kill: Actor and step of its own at which it dies.

    Returns: For each actor, whether it came to its end.
    """
    gates = [ActorGate() for _ in actors]
    tasks = [asyncio.create_task(actor(gate)) for actor, gate in zip(actors, gates, strict=True)]
    steps = [0] * len(actors)
    while not all(task.done() for task in tasks):
        await _wait(tasks, gates)
        ready = [at for at, gate in enumerate(gates) if gate.waiting]
        if not ready:
            continue
        actor = ready[choices.choose(len(ready))]
        if kill == (actor, steps[actor]):
            gates[actor].kill()
        else:
            gates[actor].open()
        steps[actor] += 1
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not _is_killed(result):
            raise result
    return [result is None for result in results]


async def _wait(tasks: list[asyncio.Task[None]], gates: list[ActorGate]) -> None:
    """Until each actor stands at its gate or is done; some work runs in threads."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE_S
    for _ in range(6):
        await asyncio.sleep(0)
    while any(not task.done() and not gate.waiting for task, gate in zip(tasks, gates, strict=True)):
        assert loop.time() < until, "an actor neither ends nor takes a step"
        await asyncio.sleep(0)


def _is_killed(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_killed, error.exceptions))
    return isinstance(error, Killed)


def every_prefix(most: int) -> Iterator[Choices]:
    """Choices in depth-first order; give each to `run` before asking for the next. At most `most`."""
    prefix: list[int] | None = []
    for _ in range(most):
        if prefix is None:
            return
        choices = Choices(prefix)
        yield choices
        made = choices.made
        while made and made[-1][0] + 1 >= made[-1][1]:
            made.pop()
        prefix = [*(choice for choice, _ in made[:-1]), made[-1][0] + 1] if made else None
