"""Documents as versions on a server: the protocol alone, in every order of steps, with writers that die anywhere."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from agent_rag.documents import VectorRecord
from agent_rag.stores.base import RetrieveRequest, Scored
from agent_rag.stores.engine.records import prepare_replace
from agent_rag.stores.versions import protocol, publisher
from agent_rag.stores.versions.engine import LAYOUT
from agent_rag.stores.versions.publisher import Publisher, drafts_of
from agent_rag.stores.versions.reader import Reader
from agent_rag.stores.versions.search import search
from agent_rag.stores.versions.stored_info import StoredInfo
from agent_rag.stores.versions.weights import Weights
from agent_rag.testing import StoreContract, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract import MakeStore

from .schedules import Actor, Choices, every_prefix, run
from .versions_backend import Gate, MemoryPrimitives, VersionsStore, World

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
"""Servers with and without conditional writes."""

INFO = StoredInfo(name="c", dimensions=4, layout=LAYOUT)
PEAR = {"kind": "pear"}


class TestProtocol(StoreContract):
    """What the protocol gives on any backend that has the primitives."""

    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self) -> MakeStore:
        worlds: dict[str, tuple[StoredInfo, World]] = {}
        return lambda: VersionsStore(worlds)


class Client:
    """One process: what an engine has of a collection."""

    def __init__(self, world: World, gate: Gate | None = None) -> None:
        self.primitives = MemoryPrimitives(world, INFO, gate)
        self.publisher = Publisher(self.primitives, self._average)
        self.reader = Reader(self.primitives)
        self.weights = Weights(self.primitives)

    async def _average(self, rows: object) -> float:
        return 1.0

    async def replace(self, version: str, count: int, name: str = "doc") -> None:
        summaries, prepared = prepare_replace("c", 4, [document(name)], version_of(version, count, name))
        await self.publisher.replace(drafts_of(self.primitives, summaries, prepared))

    async def delete(self, name: str = "doc") -> None:
        await self.publisher.delete([("", name)], None)

    async def seen(self, request: RetrieveRequest) -> list[str]:
        """The versions of the chunks that a search finds, one entry per chunk."""
        hits = await search(self.primitives, self.weights, request)
        return sorted(hit.chunk.metadata["version"] for hit in hits)


def version_of(version: str, count: int, name: str = "doc") -> list[VectorRecord]:
    return [
        record(name, at, f"pear {version} {at}", metadata={**PEAR, "version": version}, total=count)
        for at in range(count)
    ]


NEAREST = RetrieveRequest(vectors=[[1.0, 0.0, 0.0, 0.0]], limit=50)
WORDS = RetrieveRequest(texts=["pear"], limit=50)


def _union(semantic: list[list[Scored]], keyword: list[list[Scored]], _: object) -> list[Scored]:
    return [Scored(key, 1.0) for key in sorted({hit.key for ranking in (*semantic, *keyword) for hit in ranking})]


BOTH = RetrieveRequest(vectors=[[1.0, 0.0, 0.0, 0.0]], texts=["pear"], limit=50, rank=_union)


async def looks(client: Client, allowed: list[list[str]]) -> None:
    """Each way of reading shows one of the `allowed` states: the version of each chunk."""
    for request in (NEAREST, WORDS, NEAREST, BOTH):
        assert await client.seen(request) in allowed
    listed = await client.reader.list_chunks("doc", 0, 50, None, False)
    assert sorted(item.chunk.metadata["version"] for item in listed) in allowed
    counts = {len(state) for state in allowed}
    assert await client.reader.count(None) in counts
    assert await client.reader.count(PEAR) in counts


async def assert_whole(world: World, allowed: list[list[str]]) -> None:
    """At rest: what is found, listed, counted and weighed is one of the `allowed` states; the next write clears the
    rest, and so does compacting."""
    client = Client(world)
    found = await client.seen(NEAREST)
    assert found in allowed
    assert await client.seen(WORDS) == found
    assert await client.reader.count(None) == await client.reader.count(PEAR) == len(found)
    listed = await client.reader.list_chunks("doc", 0, 50, None, False)
    assert sorted(item.chunk.metadata["version"] for item in listed) == found
    weights = Weights(client.primitives)
    totals = await weights.totals()
    assert totals.chunks == len(found)
    left = set(world.rows) - {row for head in world.heads.values() for row in head.rows()}
    assert {row.version for row in left} == weights.unnamed
    copied = World(guarded=world.guarded)
    copied.rows, copied.heads = dict(world.rows), dict(world.heads)
    with nullcontext() if world.guarded else mock.patch.object(publisher, "LEFTOVER_S", -10.0):  # an hour later
        await Client(copied).publisher.compact()
        assert copied.strays() == set()
        assert await Client(copied).seen(NEAREST) == found
        await client.replace("next", 2)
        assert world.strays() == set()
    assert await client.seen(WORDS) == ["next", "next"]


A, B, OLD = ["a"] * 3, ["b"] * 4, ["old"] * 2


def writers(world: World, *works: Callable[[Client], Awaitable[None]]) -> list[Actor]:
    async def act(work: Callable[[Client], Awaitable[None]], gate: Gate) -> None:
        await work(Client(world, gate))

    return [lambda gate, work=work: act(work, gate) for work in works]  # type: ignore[misc]


async def new_world(*, guarded: bool, filled: bool = True) -> World:
    world = World(guarded=guarded)
    if filled:
        await Client(world).replace("old", 2)
    return world


@both
async def test_two_writers_leave_one_version_in_every_order(guarded: bool) -> None:
    """All orders of their steps, up to 700; from a document that is there and from none."""
    for filled in (True, False):
        for choices in every_prefix(350):
            world = await new_world(guarded=guarded, filled=filled)
            await run(writers(world, lambda one: one.replace("a", 3), lambda one: one.replace("b", 4)), choices)

            await assert_whole(world, [A, B])


async def test_a_head_is_as_young_as_its_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its rows took: a search that saw a part of them takes the head for a new one, and looks again."""
    client = Client(await new_world(guarded=True))
    now, put_rows = [1_000_000.0], client.primitives.put_rows

    async def slow(*rows: Any) -> None:
        await put_rows(*rows)
        now[0] += 60

    monkeypatch.setattr(client.primitives, "put_rows", slow)
    monkeypatch.setattr(protocol, "time", SimpleNamespace(time=lambda: now[0]))
    await client.replace("new", 2)

    (head,) = await client.primitives.heads_where(None)
    assert head.written_at == 1_000_060.0


@pytest.mark.parametrize("seed", range(4))
@both
async def test_a_reader_sees_one_version_whatever_the_order(seed: int, guarded: bool) -> None:
    """Two writers and a reader, in random orders."""
    generator = random.Random(seed)
    for turn in range(60):
        world = await new_world(guarded=guarded, filled=turn % 2 > 0)

        async def look(one: Client, start: list[str] = OLD if turn % 2 else []) -> None:
            await looks(one, [start, A, B])

        actors = writers(world, lambda one: one.replace("a", 3), lambda one: one.replace("b", 4), look)
        await run(actors, Choices([], generator))

        await assert_whole(world, [A, B])


@both
async def test_a_writer_that_dies_at_any_step_leaves_one_version(guarded: bool) -> None:
    """What it wrote is never counted, weighed or found, and the next write removes it."""
    for step in range(12):
        world = await new_world(guarded=guarded)
        (ended,) = await run(writers(world, lambda one: one.replace("a", 3)), Choices([]), kill=(0, step))

        await assert_whole(world, [A] if ended else [OLD, A])


@pytest.mark.parametrize("seed", range(4))
@both
async def test_a_writer_that_dies_beside_others_leaves_one_version(seed: int, guarded: bool) -> None:
    """At a random step, in a random order, while another one writes, deletes or inserts and a third one reads."""
    generator = random.Random(seed)
    others: list[tuple[Callable[[Client], Awaitable[None]], list[list[str]]]] = [
        (lambda one: one.replace("b", 4), [B]),
        (lambda one: one.delete(), [[]]),
        (lambda one: one.publisher.compact(), [OLD]),  # type: ignore[arg-type, return-value]
    ]
    for _ in range(60):
        other, states = generator.choice(others)
        allowed = [OLD, A, *states]
        world = await new_world(guarded=guarded)

        async def look(one: Client, allowed: list[list[str]] = allowed) -> None:
            await looks(one, allowed)

        actors = writers(world, lambda one: one.replace("a", 3), other, look, lambda one: one.delete("x"))
        await run(actors, Choices([], generator), kill=(0, generator.randrange(10)))

        await assert_whole(world, allowed)


@pytest.mark.parametrize("seed", range(4))
@both
async def test_a_write_that_was_acknowledged_is_there(seed: int, guarded: bool) -> None:
    """A slow writer that others overtook, with a deletion between, neither loses nor brings back anything: whoever came
    last by its acknowledgement is what is stored, unless another one was still at work then."""
    generator = random.Random(seed)
    for _ in range(60):
        world = await new_world(guarded=guarded)

        async def write_and_delete(one: Client) -> None:
            await one.replace("b", 4)
            await one.delete()

        slow_first = [generator.randrange(2) for _ in range(4)]
        await run(writers(world, lambda one: one.replace("a", 3), write_and_delete), Choices(slow_first, generator))

        for head in world.heads.values():
            assert set(head.rows()) <= set(world.rows)
        await assert_whole(world, [A, []])
