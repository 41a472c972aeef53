"""`run_steps` and `run_steps_async` run one search, whoever answers its steps."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent_rag.documents import ChunkKey, Signals, VectorSearchResult
from agent_rag.stores.base import Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from agent_rag.stores.engine.driver import all_from, run_steps, run_steps_async
from agent_rag.testing import record

A, B, C = (ChunkKey("", name, 0) for name in "abc")
COSINES = {A: 0.9, B: 0.5, C: -0.1}
Run = Callable[[RetrieveRequest, Callable[[Step], Any]], list[VectorSearchResult]]


class Engine:
    """Knows three chunks; "pear" is in b and c only."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(self, step: Step) -> Any:
        self.steps.append(step)
        match step:
            case Nearest(_, limit, _, keys):
                return [Scored(key, score) for key, score in COSINES.items() if keys is None or key in keys][:limit]
            case Keyword(text, limit, _):
                return [Scored(C, 2.0), Scored(B, 1.0)][:limit] if text == "pear" else []
            case Get(keys):
                return {key: record(key.document_id).chunk for key in keys}


def _awaited(request: RetrieveRequest, answer: Callable[[Step], Any]) -> list[VectorSearchResult]:
    async def later(step: Step) -> Any:
        await asyncio.sleep(0)
        return answer(step)

    return asyncio.run(run_steps_async(request, later))


@pytest.fixture(params=[run_steps, _awaited], ids=["run_steps", "run_steps_async"])
def run(request) -> Run:
    return request.param


def test_a_candidate_of_the_keyword_list_gets_its_cosine(run: Run) -> None:
    """The second Nearest asks for exactly the keys that the first list lacks, and Get only for what rank kept."""
    engine = Engine()
    rank_signals: dict[ChunkKey, Signals] = {}

    def rank(semantic, keyword, signals) -> list[Scored]:
        rank_signals.update(signals)
        return [Scored(C, 1.0), Scored(A, 0.5), Scored(B, 0.25)]

    found = run(RetrieveRequest(vectors=[[1.0]], texts=["pear"], limit=2, candidates=1, rank=rank), engine)

    assert engine.steps == [
        Nearest([1.0], 1, None),
        Keyword("pear", 1, None, {"pear": 1.0, "t:pear": 0.2, "g:_pea": 0.2, "g:pear": 0.2, "g:ear_": 0.2}),
        Nearest([1.0], 1, None, [C]),
        Get([C, A]),
    ]
    assert rank_signals == {A: Signals(semantic=0.9), C: Signals(semantic=-0.1, keyword=2.0)}
    assert [(hit.key, hit.score, hit.signals) for hit in found] == [
        (C, 1.0, Signals(semantic=-0.1, keyword=2.0)),
        (A, 0.5, Signals(semantic=0.9)),
    ]


def test_without_rank_one_list_of_limit_hits_is_passed_through(run: Run) -> None:
    """Neither more nor fewer candidates than hits are asked for."""
    engine = Engine()

    found = run(RetrieveRequest(vectors=[[1.0]], limit=2, candidates=1), engine)

    assert engine.steps[0] == Nearest([1.0], 2, None)
    assert [(hit.key, hit.score) for hit in found] == [(A, 0.9), (B, 0.5)]


def test_nothing_is_asked_for_a_limit_of_zero(run: Run) -> None:
    """Nor below."""
    engine = Engine()

    assert run(RetrieveRequest(vectors=[[1.0]], limit=0), engine) == []
    assert run(RetrieveRequest(texts=["pear"], limit=-3), engine) == []
    assert engine.steps == []


def test_an_error_of_the_engine_goes_through(run: Run) -> None:
    """As it is."""

    def broken(step: Step) -> Any:
        raise LookupError("engine")

    with pytest.raises(LookupError, match="engine"):
        run(RetrieveRequest(vectors=[[1.0]]), broken)


def test_all_hits_near_the_last_one_are_kept() -> None:
    """Asked for twice as many, until the list reaches below; what is below is cut off."""
    scores = [10.0, 9.0, *[8.0 - 0.01 * step for step in range(30)], 5.0, 4.0]
    hits = [Scored(ChunkKey("", "d", index), score) for index, score in enumerate(scores)]
    asked: list[int] = []

    def found(count: int) -> list[Scored]:
        asked.append(count)
        return hits[:count]

    kept = all_from(found, 3, 0.9)

    assert asked == [23, 46]
    assert [hit.score for hit in kept] == scores[:32]


def test_fewer_hits_than_asked_for_are_all_kept() -> None:
    """There is no last one to compare with."""
    hits = [Scored(A, 2.0), Scored(B, 0.5)]

    assert all_from(lambda count: hits[:count], 3, 0.9) == hits
