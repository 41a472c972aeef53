"""The typed tables of a knowledge base's documents, in step with what its store holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ..documents import DocumentSummary
from ..errors import ConfigurationError, TableQueryError
from ..tables.catalog import Catalog
from ..tables.folder import STATE, TableFolder
from ..tables.model import TableInfo
from ..tables.query import GoneError, QueryLimits, TableAnswer, run_query
from .document import Document

T = TypeVar("T")

Listing = Callable[[], Awaitable[list[DocumentSummary]]]
"""The documents that the caller may read, as the store has them now."""

_TRIES = 3
_MAX_CACHED = 5_000


class DocumentTables:
    """Writes, lists and asks the tables of one collection.

    The store is the judge: a document has the tables that its stored state names.
    """

    def __init__(self, folder: TableFolder, collection: str) -> None:
        self.folder = folder
        self._collection = collection
        self._infos: dict[Path, list[TableInfo]] = {}

    async def kept(self, documents: Sequence[Document], scope: str) -> list[Document]:
        """The documents with the versions of their tables in their states; the tables are on the disk by then."""

        def write() -> list[Document]:
            written = []
            for document in documents:
                state = {name: value for name, value in document.state.items() if name != STATE}
                if document.tables and document.chunks:
                    state[STATE] = self.folder.write(self._collection, scope, document.tables)
                written.append(document.model_copy(update={"state": state, "tables": []}))
            return written

        return await asyncio.to_thread(write)

    async def forget(self, replaced: Sequence[DocumentSummary]) -> None:
        """Delete the tables of versions that the store has no more."""
        if any(STATE in summary.state for summary in replaced):
            await asyncio.to_thread(self._forget, replaced)

    def _forget(self, replaced: Sequence[DocumentSummary]) -> None:
        for scope in {summary.scope for summary in replaced}:
            versions = [one.state[STATE] for one in replaced if one.scope == scope and STATE in one.state]
            self.folder.remove(self._collection, scope, versions)

    async def sweep(self, stored: Sequence[DocumentSummary], scope: str) -> int:
        """Delete files that no document of this scope names any more, which a crash left. Returns how many."""
        named = [one.state[STATE] for one in stored if one.scope == scope and STATE in one.state]
        return await asyncio.to_thread(self.folder.sweep, self._collection, scope, named)

    async def drop(self) -> None:
        """Delete the tables of the collection."""
        await asyncio.to_thread(self.folder.drop, self._collection)

    async def catalog(self, listing: Listing) -> tuple[Catalog, int]:
        """The tables of the listed documents, and how many documents have tables that are not here.

        Raises: StoreDamagedError.
        """
        for last in (False, False, True):
            documents = [document for document in await listing() if STATE in document.state]
            found = await asyncio.to_thread(self._read, documents)
            missing = len(documents) - len(found)
            if not missing or last:
                return Catalog(found), missing
        raise AssertionError("unreachable")

    async def answer(self, sql: str, listing: Listing, limits: QueryLimits) -> TableAnswer:
        """The answer to a query over the tables of the listed documents.

        Raises: TableQueryError, StoreDamagedError.
        """
        for _ in range(_TRIES):
            catalog, _missing = await self.catalog(listing)
            try:
                return await run_query(sql, catalog, limits)
            except GoneError:
                continue
        raise TableQueryError("the documents are being replaced all the time; ask again in a moment")

    def _read(self, documents: Sequence[DocumentSummary]) -> list[tuple[DocumentSummary, Path, Sequence[TableInfo]]]:
        found: list[tuple[DocumentSummary, Path, Sequence[TableInfo]]] = []
        for document in documents:
            file = self.folder.file(self._collection, document.scope, document.state[STATE])
            if file not in self._infos:
                try:
                    infos = self.folder.read(file)
                except FileNotFoundError:
                    continue
                if len(self._infos) >= _MAX_CACHED:
                    self._infos.clear()
                self._infos[file] = infos
            found.append((document, file, self._infos[file]))
        return found


def with_tables_of(state: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """A new state of a document that is not read anew: it keeps its tables."""
    kept = {STATE: before[STATE]} if STATE in before else {}
    return {**state, **kept}


def tables_of(given: TableFolder | str | Path | None, collection: str) -> DocumentTables | None:
    """For a KnowledgeBase's `tables`. Raises: ConfigurationError: it is none of these."""
    if given is None:
        return None
    if isinstance(given, str | Path):
        given = TableFolder(given)
    if not isinstance(given, TableFolder):
        raise ConfigurationError(f"tables is a {type(given).__name__}; pass the path of a folder, or a TableFolder")
    return DocumentTables(given, collection)
