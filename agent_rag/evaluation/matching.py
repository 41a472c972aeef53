"""Which hits hold what a question wants: documents, quoted text, places."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..documents import Chunk, DocumentSummary, VectorSearchResult
from ..errors import QuestionError
from .metrics import Interval, covered_share
from .questions import Place, Question

HELD = 0.9
"""Share of a quote that must be there for it to count as found; `covered` tells the exact part."""
_LEAST_OVERLAP = 10
"""Characters that a chunk's edge and a quote must share; fewer do so by chance."""
_BLANKS = re.compile(r"\s+")
_SIGNS = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "\u00ad": None, "\ufeff": None})


def plain(text: str) -> str:
    """`text` as it is compared: NFKC, lower case, one space for each run of blanks, straight quotation marks."""
    return _BLANKS.sub(" ", unicodedata.normalize("NFKC", text).translate(_SIGNS)).strip().casefold()


def overlap(quote: str, text: str) -> Interval | None:
    """The part of `quote` that stands in `text`: all of it, or what the edge of a chunk cut off from the rest.

    Both are `plain`. None: no part, or one of fewer than 10 characters.
    """
    if quote in text:
        return 0, len(quote)
    if len(text) >= _LEAST_OVERLAP and (at := quote.find(text)) >= 0:
        return at, at + len(text)
    begin, end = _ends_with_begin(text, quote), _begins_with_end(text, quote)
    return max((begin, end), key=lambda part: part[1] - part[0]) if begin != end else None


def _ends_with_begin(text: str, quote: str) -> Interval:
    """The beginning of `quote` with which `text` ends."""
    at = text.find(quote[:_LEAST_OVERLAP], max(0, len(text) - len(quote)))
    while at >= 0:
        if len(text) - at >= _LEAST_OVERLAP and quote.startswith(text[at:]):
            return 0, len(text) - at
        at = text.find(quote[:_LEAST_OVERLAP], at + 1)
    return 0, 0


def _begins_with_end(text: str, quote: str) -> Interval:
    """The end of `quote` with which `text` begins."""
    ending = quote[-_LEAST_OVERLAP:]
    at = text.rfind(ending, 0, len(quote))
    while at >= 0:
        size = at + len(ending)
        if size >= _LEAST_OVERLAP and quote.endswith(text[:size]):
            return len(quote) - size, len(quote)
        at = text.rfind(ending, 0, size - 1)
    return 0, 0


class DocumentNames:
    """What a file of questions may call a document: its id, the address of its file, or the end of either."""

    def __init__(self, documents: Iterable[DocumentSummary]) -> None:
        self._ids: set[str] = set()
        self._by_name: dict[str, set[str]] = {}
        for document in documents:
            self._ids.add(document.document_id)
            for path in (document.document_id, document.uri or "", document.source):
                parts = PurePosixPath(path.partition("#")[0]).parts
                for start in range(len(parts)):
                    self._by_name.setdefault("/".join(parts[start:]), set()).add(document.document_id)

    def id_of(self, name: str) -> str | None:
        """The id of the document; None where there is none.

        Raises: QuestionError: several documents end like this.
        """
        if name in self._ids:
            return name
        wanted = unicodedata.normalize("NFC", name.replace("\\", "/").removeprefix("./"))
        found = {wanted} if wanted in self._ids else self._by_name.get(wanted.lstrip("/"), set())
        if len(found) > 1:
            several = ", ".join(sorted(found)[:3])
            raise QuestionError(f"the document {name!r} is one of {len(found)} ({several}); name more of its path")
        return next(iter(found), None)


class Target:
    """What one question wants, ready to be compared with hits."""

    def __init__(self, question: Question, ids: Mapping[str, str | None]) -> None:
        """
        Args:
            ids: Name of each document in the question -> its id; None where it is not stored.
        """
        self.quotes = [plain(quote) for quote in question.quotes]
        self.places = [(ids[place.document], place) for place in question.places]
        self.documents = {ids[name] or name: grade for name, grade in question.documents.items()}
        self.by_document = not (self.quotes or self.places)
        """Whole documents are wanted: of several hits in one document the first counts."""

    @property
    def wanted(self) -> list[int]:
        """Grade of each item."""
        return list(self.documents.values()) if self.by_document else [1] * (len(self.quotes) + len(self.places))

    def gains(self, hits: Sequence[VectorSearchResult], texts: Sequence[str]) -> list[list[int]]:
        """For each hit the grades of the items that it is the first to hold; `texts` are their `plain` texts."""
        if self.by_document:
            left = dict(self.documents)
            return [[left.pop(hit.document_id)] if hit.document_id in left else [] for hit in hits]
        gains: list[list[int]] = [[] for _ in hits]
        places = list(self.places)
        for position, hit in enumerate(hits):
            met = [item for item in places if hit.document_id == item[0] and stands_at(hit.chunk, item[1])]
            places = [item for item in places if item not in met]
            gains[position] += [1] * len(met)
        for quote, found in zip(self.quotes, self._parts(hits, texts), strict=True):
            parts: list[Interval] = []
            for position, part in enumerate(found):
                if part is not None:
                    parts.append(part)
                    if covered_share([len(quote)], [parts]) >= HELD:
                        gains[position].append(1)
                        break
        return gains

    def covered(self, hits: Sequence[VectorSearchResult], texts: Sequence[str]) -> float:
        """Share of all quoted characters that stand in `texts`, which are `plain` and of these hits."""
        lengths = [len(quote) for quote in self.quotes]
        return covered_share(lengths, [[part for part in parts if part] for parts in self._parts(hits, texts)])

    def _parts(self, hits: Sequence[VectorSearchResult], texts: Sequence[str]) -> list[list[Interval | None]]:
        """For each quote what each hit has of it; a question that names documents wants it from them."""
        right = [not self.documents or hit.document_id in self.documents for hit in hits]
        return [
            [overlap(quote, text) if at else None for text, at in zip(texts, right, strict=True)]
            for quote in self.quotes
        ]


def stands_at(chunk: Chunk, place: Place) -> bool:
    """Whether a chunk of the right document stands at a place."""
    return all(_meets(_located(chunk, name), value) for name, value in place.fields.items())


def _located(chunk: Chunk, name: str) -> Any:
    other = {"page": "pages", "pages": "page"}.get(name, name)
    return chunk.metadata.get(name, chunk.metadata.get(other))


def _meets(stored: Any, wanted: Any) -> bool:
    """Equal values, or ranges that overlap."""
    if stored is None:
        return False
    first, second = _range(stored), _range(wanted)
    if first and second:
        return bool(first[0] <= second[1] and second[0] <= first[1])
    return bool(stored == wanted)


def _range(value: Any) -> tuple[Any, Any] | None:
    pair = value if isinstance(value, list | tuple) else [value, value]
    numbers = len(pair) == 2 and all(isinstance(one, int | float) and not isinstance(one, bool) for one in pair)
    return (pair[0], pair[1]) if numbers else None
