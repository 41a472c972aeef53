"""The tables that a reader may see, by the names that SQL uses for them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ..documents import DocumentSummary
from ..retrieval.lexical import tokenize
from .model import TableInfo
from .names import distinct, sql_name

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class CatalogTable:
    """A table, its document and its name."""

    name: str
    info: TableInfo
    document: DocumentSummary
    file: Path
    position: int
    """Among the tables of its document."""

    def facts(self) -> dict[str, Any]:
        """As plain JSON, without the paths of this machine."""
        document = {"document_id": self.document.document_id, "source": self.document.source}
        return {**self.info.model_dump(mode="json"), "name": self.name, **document}


class Catalog:
    """Tables by name.

    A table is called as its file, and where that has several, as its file and its sheet or title. Where two would have
    one name each gets four letters of its document's id.
    """

    def __init__(self, documents: Sequence[tuple[DocumentSummary, Path, Sequence[TableInfo]]]) -> None:
        """Args: documents: Each with the file of its tables, and these in their order."""
        found: list[tuple[str, DocumentSummary, Path, TableInfo, int]] = []
        for document, file, infos in documents:
            stem = PurePath(document.source).stem
            for position, info in enumerate(infos):
                title = stem if len(infos) == 1 or info.name == "table" else f"{stem} {info.name}"
                name = sql_name(title, otherwise="table")
                found.append((name, document, file, info, position))
        counts = Counter(name for name, *_ in found)
        names = distinct(
            f"{name}_{_mark(document)}" if counts[name] > 1 and len(documents) > 1 else name
            for name, document, *_ in found
        )
        self.tables = [
            CatalogTable(name, info, document, file, position)
            for name, (_, document, file, info, position) in zip(names, found, strict=True)
        ]
        self._by_name = {table.name: table for table in self.tables}

    def __getitem__(self, name: str) -> CatalogTable:
        return self._by_name[name]

    def mentioned(self, sql: str) -> list[CatalogTable]:
        """Tables whose names stand in a query."""
        return [self._by_name[word] for word in sorted(set(_WORD.findall(sql.lower()))) if word in self._by_name]

    def ranked(self, question: str | None) -> list[CatalogTable]:
        """All tables, those first whose names, titles and headers have most of the words of `question`."""
        wanted = set(tokenize(question or ""))
        if not wanted:
            return list(self.tables)
        counts = Counter(word for table in self.tables for word in set(_words(table)))
        weights = {table.name: sum(1 / counts[word] for word in wanted & set(_words(table))) for table in self.tables}
        return sorted(self.tables, key=lambda table: -weights[table.name])


def _words(table: CatalogTable) -> list[str]:
    info = table.info
    headers = [text for column in info.columns for text in (column.header, column.name.replace("_", " "))]
    place = [str(value) for value in info.place.values()]
    return tokenize(" ".join([table.name.replace("_", " "), info.title or "", *place, *headers]))


def _mark(document: DocumentSummary) -> str:
    return hashlib.sha256(f"{document.scope}\n{document.document_id}".encode("utf-8", "surrogatepass")).hexdigest()[:4]
