"""The bridge for synchronous callers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextvars import ContextVar

import pytest

from agent_rag import RAGMiddleware, run_sync
from agent_rag.errors import ConfigurationError
from agent_rag.testing import FactBase

_number: ContextVar[int] = ContextVar("number", default=0)


async def give(value: int) -> int:
    await asyncio.sleep(0)
    return value + _number.get()


async def loop_id() -> int:
    return id(asyncio.get_running_loop())


def test_all_calls_share_one_loop() -> None:
    """What one call opened serves the next."""
    assert run_sync(loop_id()) == run_sync(loop_id())


async def test_it_works_where_a_loop_is_running() -> None:
    """As in a notebook; the coroutine sees the caller's context variables."""
    token = _number.set(40)
    try:
        assert run_sync(give(2)) == 42
    finally:
        _number.reset(token)


def test_errors_come_through() -> None:
    """As they are."""

    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_sync(fail())


def test_a_call_from_within_itself_is_refused() -> None:
    """It would wait for ever."""

    async def outer() -> int:
        return run_sync(give(1))

    with pytest.raises(ConfigurationError, match="use await"):
        run_sync(outer())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
def test_a_forked_child_has_a_loop_of_its_own() -> None:
    """MW06: parent calls, forks, and the child calls, with a middleware that both use."""
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
from agent_rag import RAGMiddleware, run_sync
from agent_rag.testing import FactBase
rag = RAGMiddleware([FactBase()])
print(run_sync(rag.call_tool({"query": "parent"})).text.count("FACT(parent)"), flush=True)
child = os.fork()
if child == 0:
    print(run_sync(rag.call_tool({"query": "child"})).text.count("FACT(child)"), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (result.returncode, result.stdout) == (0, "1\n1\n"), result.stderr


def test_the_name_is_public() -> None:
    """`agent_rag.run_sync` runs a search from plain code."""
    rag = RAGMiddleware([FactBase()])

    assert "FACT(x)" in run_sync(rag.call_tool({"query": "x"})).text
