"""Finding a text in what is stored: every occurrence is counted, the first are shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from ..documents import Chunk, ChunkKey
from ..errors import ParseLimitError, ParserCrashedError, ParseTimeoutError, PatternError
from ..retrieval.expressions import TooSlowError, can_bound, find_in
from ..retrieval.pattern import Span, TextPattern
from ..retrieval.runs import DocumentText, Run, runs
from ..workers import run_isolated

_AROUND = 200
"""Characters of its line that a match is shown with, on either side."""
_BATCH_CHARACTERS = 1_000_000
_BATCH_S = 0.5
"""A million characters take an honest expression 10 to 100 ms."""
_BUSY = 20
"""Times the computing time that a batch may take on a machine that does much else."""
_STARTED = 2
"""Pages that are looked through while the next one is read."""

Name = tuple[str, str]
"""Scope and document id."""
Counted = tuple[Run, int, list[Span]]
"""A run, its number of occurrences, and the first of them."""
Looked = list[tuple[Name, list[Counted]]]


class TextMatch(BaseModel):
    """One occurrence, with the line that it stands in."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    scope: str = ""
    chunk: Chunk
    """The chunk that it begins in."""
    line: str
    """Its line, or lines, cut to 200 characters on either side."""
    start: int
    end: int
    """The occurrence is ``line[start:end]``."""

    @property
    def text(self) -> str:
        return self.line[self.start : self.end]


class DocumentMatches(BaseModel):
    """A document in which the pattern occurs."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    scope: str = ""
    count: int
    """Occurrences."""


class FindResult(BaseModel):
    """Where a pattern occurs."""

    model_config = ConfigDict(frozen=True)

    total: int = 0
    """Occurrences in all documents of the scope: exact."""
    documents: list[DocumentMatches] = []
    """Every document with one, by id."""
    matches: list[TextMatch] = []
    """The first occurrences: the first of each document before the second of any, by document and place."""


@dataclass
class Hit:
    index: int
    line: str
    start: int
    end: int


@dataclass
class Tally:
    """Counts of all documents, and no more lines than can be shown."""

    limit: int
    counts: dict[Name, int] = field(default_factory=dict)
    hits: dict[Name, list[Hit]] = field(default_factory=dict)

    def add(self, name: Name, found: Sequence[Counted]) -> None:
        total = sum(count for _, count, _ in found)
        if not total:
            return
        self.counts[name] = total
        first = (_hit(run, span) for run, _, spans in found for span in spans)
        most = self.limit if len(self.hits) < self.limit else 1
        self.hits[name] = [hit for hit, _ in zip(first, range(most), strict=False)]
        if len(self.hits) > 2 * self.limit:
            self._shrink()

    def shown(self) -> list[tuple[Name, Hit]]:
        """The first of each document, then the second of each, up to the limit; ordered by document and place."""
        chosen: list[tuple[Name, int]] = []
        for turn in range(self.limit):
            chosen += [(name, turn) for name in sorted(self.hits) if turn < len(self.hits[name])]
            if len(chosen) >= self.limit:
                break
        return [(name, self.hits[name][turn]) for name, turn in sorted(chosen[: self.limit])]

    def _shrink(self) -> None:
        """With more documents than lines, each has one at most."""
        self.hits = {name: self.hits[name][:1] for name in sorted(self.hits)[: self.limit]}


async def tally(pattern: TextPattern, pages: AsyncIterator[list[DocumentText]], limit: int) -> Tally:
    """Look through all `pages`, reading one while those before it are looked through.

    Raises: PatternError: no regular expression, or one that takes too long.
    """
    if pattern.is_regex:
        await _check(pattern)
    found = Tally(limit)
    started: list[asyncio.Task[Looked]] = []
    try:
        async for page in pages:
            if len(started) >= _STARTED:
                _take(found, await started.pop(0))
            started.append(asyncio.create_task(_look_through(pattern, page, limit)))
        while started:
            _take(found, await started.pop(0))
    finally:
        for task in started:
            task.cancel()
    return found


def _take(found: Tally, page: Looked) -> None:
    for name, spans in page:
        found.add(name, spans)


async def _look_through(pattern: TextPattern, page: list[DocumentText], limit: int) -> Looked:
    """Of each document its runs with their number of occurrences and the first of them."""
    if not pattern.is_regex:
        return await asyncio.to_thread(_by_text, pattern, page, limit)
    assembled = await asyncio.to_thread(lambda: [(_name(document), runs(document.parts)) for document in page])
    texts = [run.text for _, own in assembled for run in own]
    counted: list[tuple[int, list[Span]]] = []
    for batch in _batches(texts):
        counted += await _isolated(pattern, batch, limit)
    answers = iter(counted)
    return [(name, [(run, *next(answers)) for run in own]) for name, own in assembled]


def _by_text(pattern: TextPattern, page: list[DocumentText], limit: int) -> Looked:
    found = []
    for document in page:
        own = []
        for run in runs(document.parts):
            if spans := pattern.spans(run.text):
                own.append((run, len(spans), spans[:limit]))
        if own:
            found.append((_name(document), own))
    return found


def _name(document: DocumentText) -> Name:
    return document.scope, document.document_id


def _batches(texts: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# --- regular expressions: in a process that can be killed ---


async def _check(pattern: TextPattern) -> None:
    """Raises: PatternError: it is no regular expression, or compiling it takes too long."""
    await _isolated(pattern, [], 0)


async def _isolated(pattern: TextPattern, texts: list[str], limit: int) -> list[tuple[int, list[Span]]]:
    cpu_s = _BATCH_S * max(1.0, sum(map(len, texts)) / _BATCH_CHARACTERS)
    try:
        found = await run_isolated(
            find_in, pattern.expression, pattern.flags, pattern.ignore_accents, texts, limit, cpu_s,
            filename="the pattern", timeout_s=cpu_s * _BUSY if can_bound() else 2 * cpu_s,
        )  # fmt: skip
    except (TooSlowError, ParseTimeoutError, ParseLimitError, ParserCrashedError) as error:
        raise PatternError(
            f"the regular expression {pattern.pattern!r} takes too long; nested repetitions such as (a+)+ do, "
            "or many .* in one: write it without them, or look for a text"
        ) from error
    if isinstance(found, str):
        raise PatternError(f"{pattern.pattern!r} is no regular expression of Python's re: {found}")
    return found


# --- what is shown ---


def _hit(run: Run, span: Span) -> Hit:
    start, end = span
    begin = max(run.text.rfind("\n", 0, start) + 1, start - _AROUND)
    stop = run.text.find("\n", end)
    stop = min(len(run.text) if stop < 0 else stop, end + _AROUND)
    end = min(end, start + 2 * _AROUND)
    stop = max(min(stop, end + _AROUND), end)
    return Hit(run.index_at(start), run.text[begin:stop], start - begin, end - begin)


def keys_of(found: Tally) -> list[ChunkKey]:
    """The chunks of what is shown."""
    return list(dict.fromkeys(ChunkKey(*name, hit.index) for name, hit in found.shown()))


def result_of(found: Tally, chunks: dict[ChunkKey, Chunk]) -> FindResult:
    """
    Args:
        chunks: By key, of what is shown; a match whose chunk is gone meanwhile is counted and not shown.
    """
    return FindResult(
        total=sum(found.counts.values()),
        documents=[
            DocumentMatches(document_id=document_id, scope=scope, count=count)
            for (scope, document_id), count in sorted(found.counts.items(), key=lambda item: item[0][::-1])
        ],
        matches=[
            TextMatch(
                document_id=name[1], scope=name[0], chunk=chunks[key], line=hit.line, start=hit.start, end=hit.end
            )
            for name, hit in found.shown()
            if (key := ChunkKey(*name, hit.index)) in chunks
        ],
    )
