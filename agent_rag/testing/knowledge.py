"""A knowledge base without a store, for tests of what stands on knowledge bases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from ..documents import Chunk, DocumentSummary, VectorSearchResult
from ..errors import TableQueryError
from ..filters import FilterLike, matches
from ..knowledge import DocumentMatches, FindResult, TextMatch
from ..tables import QueryLimits, TableAnswer, TableCitation

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""

Respond = Callable[[str], Sequence[VectorSearchResult]]


def hit(
    text: str | ContentBlock,
    *,
    document_id: str = "doc",
    index: int = 0,
    score: float = 0.5,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    **chunk: Any,
) -> VectorSearchResult:
    """A search result with defaults for everything that a test does not care about."""
    return VectorSearchResult(
        score=score,
        document_id=document_id,
        chunk=Chunk(
            content=TextBlock(text=text) if isinstance(text, str) else text,
            source=source or f"{document_id}.md",
            chunk_index=index,
            total_chunks=index + 1,
            metadata=dict(metadata or {}),
            document_id=document_id,
            **chunk,
        ),
    )


def picture(name: str = "diagram.png", caption: str | None = "a wiring diagram") -> DataBlock:
    """A small PNG."""
    return DataBlock(source=Base64Source(data=PIXEL, media_type="image/png"), name=name, caption=caption)


class Flag:
    """An event that is set in one event loop and awaited in another, as frameworks with threads need."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        # Polled: asyncio.Event belongs to one loop, and a thread that waits could not be cancelled.
        while not self._event.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class FactBase:
    """Answers every query ``q`` with ``FACT(q)``, or with `hits`, and remembers what it was asked."""

    def __init__(
        self,
        name: str = "docs",
        *,
        hits: Sequence[VectorSearchResult] | Respond | None = None,
        delay_s: float | Callable[[str], float] = 0.0,
        error: BaseException | None = None,
        description: str | None = None,
    ) -> None:
        """
        Args:
            hits: The hits of every search, or a function of the query that gives them.
            delay_s: How long a search takes, or a function of the query.
            error: Raised by every search.
        """
        self.name = name
        self.description = description or f"the {name} of a test"
        self.hits = hits
        self.delay_s = delay_s
        self.error = error
        self.asked = Flag()
        """Set by the first search."""
        self.queries: list[list[str | DataBlock]] = []
        """The queries of each search."""
        self.filters: list[FilterLike | None] = []
        self.limits: list[int] = []
        """The `top_k` of each search."""

    async def search(
        self,
        queries: Sequence[str | DataBlock],
        top_k: int = 5,
        score_threshold: float | None = None,
        *,
        filter: FilterLike | None = None,
    ) -> list[VectorSearchResult]:
        self.asked.set()
        self.queries.append(list(queries))
        self.filters.append(filter)
        self.limits.append(top_k)
        query = next((item for item in queries if isinstance(item, str)), "image")
        await asyncio.sleep(self.delay_s(query) if callable(self.delay_s) else self.delay_s)
        if self.error is not None:
            raise self.error
        found = self.hits(query) if callable(self.hits) else self.hits
        if found is None:
            found = [hit(f"FACT({query})", document_id=f"{self.name}-{query}", source=f"{self.name}.md")]
        kept = [one for one in found if filter is None or matches(filter, one.chunk.metadata)]
        return [one for one in kept if score_threshold is None or one.score >= score_threshold][:top_k]


class ShelfBase(FactBase):
    """A `FactBase` that also has documents, each of one chunk: it finds in them, lists them, and gives their text."""

    def __init__(self, documents: Mapping[str, str], name: str = "docs") -> None:
        super().__init__(name)
        self._documents = {
            document_id: hit(text, document_id=document_id, source=document_id).chunk
            for document_id, text in sorted(documents.items())
        }

    async def find(self, pattern: str, *, filter: FilterLike | None = None, **options: Any) -> FindResult:
        """Occurrences of a text as it is written; each document's first is given."""
        found = {
            chunk.source: chunk
            for chunk in self._documents.values()
            if pattern in chunk.text and (filter is None or matches(filter, chunk.metadata))
        }
        counts = {document_id: chunk.text.count(pattern) for document_id, chunk in found.items()}
        return FindResult(
            total=sum(counts.values()),
            documents=[DocumentMatches(document_id=name, count=count) for name, count in counts.items()],
            matches=[
                TextMatch(
                    document_id=name,
                    chunk=chunk,
                    line=chunk.text,
                    start=(at := chunk.text.find(pattern)),
                    end=at + len(pattern),
                )
                for name, chunk in found.items()
            ],
        )

    async def list_documents(self, *, filter: FilterLike | None = None) -> list[DocumentSummary]:
        return [
            DocumentSummary(document_id=name, source=name, chunk_count=1, metadata=chunk.metadata)
            for name, chunk in self._documents.items()
            if filter is None or matches(filter, chunk.metadata)
        ]

    async def list_chunks(self, document_id: str, *, offset: int = 0, limit: int = 30) -> list[Chunk]:
        chunk = self._documents.get(document_id)
        return [chunk] if chunk is not None and not offset and limit > 0 else []


class TableBase(FactBase):
    """A `FactBase` that also keeps one table, ``pay``: it sums its column ``euro``, and knows no other query."""

    keeps_tables = True

    async def describe_tables(
        self, question: str | None = None, *, filter: FilterLike | None = None, characters: int = 8_000
    ) -> str:
        """The one table."""
        return "pay: 2 rows, pay.csv, rows 2-3\n  euro number: 10.5 to 20.0"

    async def query_tables(
        self, sql: str, *, filter: FilterLike | None = None, limits: QueryLimits | None = None
    ) -> TableAnswer:
        """30.5. Raises: TableQueryError: the query does not sum up the table."""
        if "sum(euro)" not in sql or "pay" not in sql:
            raise TableQueryError("there is no table 'wages'; nearest: pay")
        place = TableCitation(table="pay", document_id="pay.csv", source="pay.csv", rows=(2, 3), row_count=2)
        return TableAnswer(sql=sql, columns=["total"], rows=[(30.5,)], citations=[place])
