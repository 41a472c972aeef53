"""Damaged and hostile files end in Sections or a ParseError: no process ends, nothing takes 20 s of CPU or 1 GB."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent_rag import Section
from agent_rag.errors import ParseError, ParserCrashedError, ParseTimeoutError
from agent_rag.parsers import ParserPool, parser_for
from tests.cpu import cpu_seconds

from .hostile import HOSTILE
from .mutations import mutations
from .samples import SAMPLES

_SOAK = os.environ.get("AGENT_RAG_SOAK") == "1"
_SECONDS = 20.0
_LIMIT_S = 6 * _SECONDS
"""Of wall time: what waits is ended; a busy machine lets wait, too."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ParserPool]:
    async with ParserPool(2, timeout_s=_LIMIT_S, memory_mb=1024) as workers:
        yield workers


async def _outcome(pool: ParserPool, name: str, data: bytes) -> list[Section] | ParseError:
    try:
        return await pool.parse(parser_for(name, data=data), data, name)
    except ParseError as error:
        return error


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", SAMPLES)
async def test_a_damaged_file_gives_sections_or_a_parse_error(name: str, pool: ParserPool) -> None:
    """20 seeded mutations of each format (110 with AGENT_RAG_SOAK=1); the worker survives each."""
    cuts, flips = (10, 100) if _SOAK else (2, 18)

    for number, data in enumerate(mutations(SAMPLES[name](), seed=7, cuts=cuts, flips=flips)):
        outcome = await _outcome(pool, name, data)

        assert not isinstance(outcome, ParserCrashedError | ParseTimeoutError), f"mutation {number}: {outcome}"
        assert isinstance(outcome, list) or name in str(outcome), f"mutation {number}: {outcome}"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_file_costs_neither_the_process_nor_much_time(name: str, pool: ParserPool) -> None:
    """It ends within 20 s of CPU in Sections or a ParseError, whatever the native library does."""
    data = HOSTILE[name]()
    started = cpu_seconds()

    outcome = await _outcome(pool, name, data)

    assert cpu_seconds() - started < _SECONDS
    assert not isinstance(outcome, ParseTimeoutError)
    text = "\n".join(section.text for section in outcome) if isinstance(outcome, list) else str(outcome)
    assert "root:" not in text
    assert len(text) < 30_000_000
