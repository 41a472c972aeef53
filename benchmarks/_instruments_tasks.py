"""Two hundred tasks whose answers are known, and two scripted agents: one searches, one has all four tools.

The scripts take no decision that a language model would be better at: they call, and read the results by pattern. What
is measured is what the tools can show within a budget of tokens, not a model. Answers come from the parsed files
(handbook) or from how the texts were made (generated), never from chunks.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent_rag import KnowledgeBase
from agent_rag.documents import Section
from agent_rag.middleware import Parameters, RAGMiddleware
from agent_rag.middleware.core.render import approximate_tokens
from agent_rag.parsers.registry import parser_for

Kind = Literal["list", "count", "quote", "reference", "fact"]
KINDS: tuple[Kind, ...] = ("list", "count", "quote", "reference", "fact")
BUDGET = 4_000
"""Tokens of tool results that an agent may read for one task."""
_CODE = re.compile(r"^\[\d+\] (?:\(source: )?([\w./-]+\.\w+)", re.MULTILINE)
_WORDS = """amber basin cargo delta ember fjord grain harbor island jacket kettle lantern meadow needle orchard pepper
quarry ribbon saddle timber umbrella valley willow yonder zephyr anchor bridge candle drawer engine feather
garden""".split()  # noqa: SIM905


@dataclass(frozen=True)
class Task:
    kind: Kind
    ask: str
    """What is looked for: a code, a phrase, a rule, a question."""
    gold: Any
    """Names of documents, a number, a line, an amount, a word of the answer."""


def generated(seed: int = 5) -> tuple[dict[str, str], list[Task]]:
    """300 documents by name, and 20 tasks to list, 20 to count, 20 to quote, 40 references, 25 facts."""
    chance = random.Random(seed)
    texts: dict[str, list[str]] = {}
    for number in range(300):
        lines = [f"# File {number}"]
        for _ in range(12):
            lines.append(" ".join(chance.choices(_WORDS, k=14)).capitalize() + ".")
        texts[f"file-{number:03}.md"] = lines
    tasks: list[Task] = []
    names = list(texts)

    def put(name: str, line: str) -> None:
        texts[name].insert(chance.randint(1, len(texts[name])), line)

    for family in range(20):
        chosen = sorted(chance.sample(names, chance.choice((3, 12, 40, 100))))
        for name in chosen:
            put(name, f"The machine stopped with ERR-{4700 + family}-{names.index(name):03} and was reset.")
        tasks.append(Task("list", f"ERR-{4700 + family}", frozenset(chosen)))
    for family in range(20):
        total = 0
        for name in chance.sample(names, chance.choice((2, 9, 30))):
            for _ in range(chance.randint(1, 3)):
                put(name, f"Part PX-{family:02}Q was ordered again.")
                total += 1
        tasks.append(Task("count", f"PX-{family:02}Q", total))
    for number in range(20):
        line = f"Clause {number} of {chance.choice(_WORDS)} says that no {chance.choice(_WORDS)} may leave before noon."
        put(chance.choice(names), line)
        tasks.append(Task("quote", f"Clause {number} of", line))
    for number in range(40):
        here, there = chance.sample(names, 2)
        amount = f"{chance.randint(1_000, 9_999):,}"
        put(here, f"For rule R-{number:02}X see the part Deposit {number} in {there}.")
        texts[there] += [f"## Deposit {number}", f"The amount is {amount} euros."]
        tasks.append(Task("reference", f"R-{number:02}X", amount))
    for number in range(25):
        word = chance.choice(_WORDS)
        put(chance.choice(names), f"The warehouse keeper of dock {number} is called Mr {word.capitalize()}son.")
        tasks.append(Task("fact", f"Who is the warehouse keeper of dock {number}?", f"{word.capitalize()}son"))
    return {name: "\n\n".join(lines) for name, lines in texts.items()}, tasks


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def handbook(folder: Path, questions: list[tuple[str, str]], seed: int = 6) -> list[Task]:
    """20 tasks to list, 20 to count, 20 to quote over the handbook, and the 15 questions that it answers."""
    sections: dict[str, list[str]] = {}
    for path in files_below(folder):
        name = path.relative_to(folder).as_posix()
        parsed: list[Section] = await parser_for(path).parse(path, name)
        sections[name] = [section.text for section in parsed]
    chance = random.Random(seed)
    places: dict[str, set[str]] = defaultdict(set)
    for name, texts in sections.items():
        for text in texts:
            for word in re.findall(r"[A-Za-z]{6,}", text):
                places[word.casefold()].add(name)
    words = sorted(word for word, names in places.items() if 2 <= len(names) <= 12)
    tasks: list[Task] = []
    for word in chance.sample(words, 20):
        found = frozenset(name for name, texts in sections.items() if any(word in text.casefold() for text in texts))
        tasks.append(Task("list", word, found))
    for word in chance.sample(words, 20):
        counted = sum(len(re.findall(word, text, re.IGNORECASE)) for texts in sections.values() for text in texts)
        tasks.append(Task("count", word, counted))
    lines = sorted(
        {
            line.strip()
            for texts in sections.values()
            for text in texts
            for line in text.splitlines()
            if 60 <= len(line.strip()) <= 120 and "|" not in line and line.strip()[0].isalpha()
        }
    )
    for line in chance.sample(lines, 20):
        tasks.append(Task("quote", " ".join(line.split()[2:7]), " ".join(line.split())))
    return tasks + [Task("fact", question, answer) for question, answer in questions]


class Agent:
    """Calls tools of one turn until the budget is over."""

    def __init__(self, base: KnowledgeBase, *, tools: Literal["search", "all"]) -> None:
        self._rag = RAGMiddleware(base, Parameters(tools=tools, max_context_tokens=BUDGET, search_limit=50))
        self._turn = self._rag.start_turn()
        self.read = 0
        """Tokens so far."""

    async def call(self, name: str, **arguments: Any) -> str:
        result = await self._rag.call_tool(arguments, self._turn, name=name)
        self.read += approximate_tokens(result.text)
        return result.text if self.read <= BUDGET else ""


async def by_search(agent: Agent, task: Task) -> Any:
    """The search alone: as many hits as fit, then what they say."""
    match task.kind:
        case "list":
            text = await agent.call("search_knowledge", query=task.ask, top_k=50)
            return frozenset(_sources_with(text, task.ask))
        case "count":
            text = await agent.call("search_knowledge", query=task.ask, top_k=50)
            return len(re.findall(re.escape(task.ask), text, re.IGNORECASE))
        case "quote":
            return _line(await agent.call("search_knowledge", query=task.ask), task.ask)
        case "reference":
            found = re.search(
                rf"{task.ask} see the part (Deposit \d+) in (\S+)\.",
                await agent.call("search_knowledge", query=task.ask),
            )
            if found is None:
                return None
            text = await agent.call("search_knowledge", query=f"{found[1]} {found[2]} amount")
            amounts = re.search(rf"## {found[1]}\s+The amount is ([\d,]+) euros", text)
            return amounts and amounts[1]
        case "fact":
            return task.gold if task.gold in await agent.call("search_knowledge", query=task.ask) else None


async def by_tools(agent: Agent, task: Task) -> Any:
    """All four tools, each for what it is for."""
    match task.kind:
        case "list":
            return frozenset(_CODE.findall(await agent.call("find_text", pattern=task.ask, limit=200)))
        case "count":
            found = re.match(r"([\d,]+) occurrence", await agent.call("find_text", pattern=task.ask, limit=1))
            return int(found[1].replace(",", "")) if found else 0
        case "quote":
            return _line(await agent.call("find_text", pattern=task.ask), task.ask)
        case "reference":
            found = _reference(task.ask, await agent.call("find_text", pattern=task.ask))
            if found is None:
                return None
            text = await agent.call("read_document", document_id=found[2], heading=found[1])
            amounts = re.search(rf"## {found[1]}\s+The amount is ([\d,]+) euros", text)
            return amounts and amounts[1]
        case "fact":
            return await by_search(agent, task)


async def scores(
    base: KnowledgeBase,
    tasks: list[Task],
    tools: Literal["search", "all"],
    solve: Callable[[Agent, Task], Awaitable[Any]],
) -> dict[Kind, list[float]]:
    """One score a task: of a list its F1, else 1 for the right answer."""
    found: dict[Kind, list[float]] = defaultdict(list)
    for task in tasks:
        answer = await solve(Agent(base, tools=tools), task)
        if task.kind == "list":
            common = len(answer & task.gold)
            found["list"].append(2 * common / (len(answer) + len(task.gold)) if answer or task.gold else 1.0)
        else:
            found[task.kind].append(float(answer == task.gold))
        await asyncio.sleep(0)
    return found


def _reference(rule: str, text: str) -> re.Match[str] | None:
    return re.search(rf"{rule} see the part (Deposit \d+) in (\S+)\.", text)


def _sources_with(text: str, code: str) -> list[str]:
    """Files of the hits that hold `code`."""
    hits = re.split(r"^(?=\[\d+\] \(source: )", text, flags=re.MULTILINE)
    return [found[1] for one in hits if code.casefold() in one.casefold() and (found := _CODE.match(one))]


def _line(text: str, phrase: str) -> str | None:
    """The line with `phrase`, without what a result writes around it."""
    for line in text.partition("<retrieved-")[2].splitlines():
        if phrase in " ".join(line.split()):
            bare = re.sub(r"^\[\d+\] \([^)]*\) ", "", line)
            return " ".join(bare.split())
    return None
