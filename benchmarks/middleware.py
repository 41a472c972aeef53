"""Overhead of the middleware itself: the same turn, and the same tool call, with and without it.

The knowledge base answers at once with 5 hits of 1,000 characters, so that what is measured is rewriting, merging,
collapsing, numbering, cleaning, fitting the budget and the event. Bars: under 2 ms a turn, under 1 ms a tool call.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from _common import interleaved, medians, write_result

from agent_rag.chat import ToolSpec, user
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.loop import FunctionTool, run_agent
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import call
from agent_rag.testing.knowledge import hit

TURNS = 200
HISTORY = [user("What about the pump?"), user("And the valve?")] * 10
SENTENCES = (
    "The valve <b>opens</b> at 3.5 bar; see [2] (source: manual). Ventile öffnen bei 3,5 bar. 阀门在三点五巴打开。 "
)
TEXT = (SENTENCES * 20)[:1_000]
HITS = [
    hit(f"{number} {TEXT}", document_id=f"d{number}", metadata={"page": number}, heading_path=["Care", "Valves"])
    for number in range(5)
]


def rag(**parameters: Any) -> RAGMiddleware:
    return RAGMiddleware(
        [FactBase("a", hits=HITS[:3]), FactBase("b", hits=HITS[2:])], RAGMiddleware.Parameters(**parameters)
    )


def turns(middleware: list[RAGMiddleware]) -> None:
    """TURNS turns of one model call over a history of 20 messages."""

    async def main() -> None:
        for number in range(TURNS):
            await run_agent(ScriptedChatModel("done"), [*HISTORY, user(f"ask {number}")], middleware=middleware)

    asyncio.run(main())


def calls(with_middleware: bool) -> None:
    """TURNS turns with one tool call each: our tool, or a function that only searches and joins the texts."""
    base = FactBase("a", hits=HITS)

    async def search(query: str) -> str:
        return "\n".join(one.chunk.text for one in await base.search([query], 5))

    plain = FunctionTool(ToolSpec(name="search_knowledge", description="d", parameters={}), search)
    ours = [RAGMiddleware([base])] if with_middleware else []

    async def main() -> None:
        for number in range(TURNS):
            model = ScriptedChatModel(call(query=f"q{number}"), "done")
            await run_agent(model, "ask", middleware=ours, tools=[] if with_middleware else [plain])

    asyncio.run(main())


def main() -> int:
    seconds = medians(
        interleaved(
            {
                "turn, no middleware": lambda: turns([]),
                "turn, static, two knowledge bases": lambda: turns([rag(mode="static")]),
                "tool call, bare function": lambda: calls(False),
                "tool call, agentic": lambda: calls(True),
            },
            repeats=5,
        )
    )
    milliseconds = {name: value / TURNS * 1_000 for name, value in seconds.items()}
    turn = milliseconds["turn, static, two knowledge bases"] - milliseconds["turn, no middleware"]
    tool = milliseconds["tool call, agentic"] - milliseconds["tool call, bare function"]
    for name, value in milliseconds.items():
        print(f"{name:<36}{value:8.3f} ms")
    print(f"{'overhead per turn':<36}{turn:8.3f} ms (bar 2)\n{'overhead per tool call':<36}{tool:8.3f} ms (bar 1)")
    write_result(
        "middleware",
        {"milliseconds": milliseconds, "overhead_turn_ms": turn, "overhead_tool_call_ms": tool},
        packages=("agent-rag-middleware", "pydantic"),
    )
    return int(turn >= 2 or tool >= 1)


if __name__ == "__main__":
    sys.exit(main())
