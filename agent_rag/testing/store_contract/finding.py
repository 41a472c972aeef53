"""Level "scan": every occurrence of a text is counted once, whatever the chunks' borders."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from ...documents import VectorRecord
from ...filters import F
from ...knowledge import KnowledgeBase
from ...stores.native import NativeStoreBase
from ..records import record
from .base import StoreFixtures

_LETTERS = ("a", "b", "A", "ab", "ß", "É", "e\u0301", "ſ", "İ", "我", '"', "\\", ".", "-", "\n", " ", " ", "🙂")


def cut(text: str, chance: random.Random, *, section: int, first: int) -> list[tuple[int, tuple[int, int], str]]:
    """Chunks of a text as chunkers make them: overlapping, side by side, or with line ends left out between."""
    chunks: list[tuple[int, tuple[int, int], str]] = []
    start = end = 0
    while end < len(text):
        end = min(len(text), max(end, start) + chance.randint(1, 9))
        chunks.append((first + len(chunks), (start, end), text[start:end]))
        start = max(start + 1, end - chance.choice((0, 0, 1, 3, 8)))
        while start == end < len(text) and text[end] == "\n":
            start = end = end + 1
    return [chunk for chunk in chunks if chunk[2]]


class StoreFinding(StoreFixtures):
    """scan."""

    level: ClassVar[tuple[str, ...]] = ("native",)

    async def test_every_occurrence_is_counted_once(self, store: NativeStoreBase, collection: str) -> None:
        """As `re` counts in the documents themselves, over random texts in random chunks; in any scope."""
        chance = random.Random(11)
        texts: dict[str, list[str]] = {}
        records: list[VectorRecord] = []
        for number in range(12):
            name = f"d{number:02}"
            texts[name] = ["".join(chance.choices(_LETTERS, k=chance.randint(0, 40))) for _ in range(2)]
            first = 0
            for section, text in enumerate(texts[name]):
                for index, span, piece in cut(text, chance, section=section, first=first):
                    place: dict[str, Any] = {"section_index": section, "span": span}
                    records.append(record(name, index, piece, metadata={"odd": number % 2, "span": [1, 2]}, **place))
                    first = index + 1
        await self.fill(store, collection, records)
        base = KnowledgeBase("scan", "Texts of a test.", None, store, collection)

        for pattern, options in _patterns(chance, texts):
            where = chance.choice([None, F("odd") == 1])
            found = await base.find(pattern, filter=where, limit=5, **options)

            flags = re.MULTILINE | (re.IGNORECASE if options.get("ignore_case", True) else 0)
            wanted = re.compile(r"\s+".join(map(re.escape, pattern.split())), flags)
            expected = {
                name: count
                for name, sections in texts.items()
                if (where is None or int(name[1:]) % 2) and (count := sum(len(wanted.findall(one)) for one in sections))
            }
            assert {one.document_id: one.count for one in found.documents} == expected, pattern
            assert found.total == sum(expected.values())
            assert len(found.matches) == min(found.total, 5)
            assert all(wanted.fullmatch(match.text) for match in found.matches)

    async def test_a_scan_gives_each_document_once(self, store: NativeStoreBase, collection: str) -> None:
        """With all its chunks that match the filter, in order."""
        records = [
            record(name, index, f"{name}{index}", metadata={"keep": index != 1})
            for name in ("a", "b")
            for index in range(3)
        ]
        await self.fill(store, collection, records)

        everything = [one async for page in store.scan(collection) for one in page]
        filtered = [one async for page in store.scan(collection, {"keep": True}) for one in page]

        texts = {one.document_id: [part.text for part in one.parts] for one in everything}
        assert len(everything) == len(filtered) == 2
        assert texts == {"a": ["a0", "a1", "a2"], "b": ["b0", "b1", "b2"]}
        assert {one.document_id: [part.chunk_index for part in one.parts] for one in filtered} == {
            "a": [0, 2],
            "b": [0, 2],
        }


def _patterns(chance: random.Random, texts: dict[str, list[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pieces of the texts, of one character to several words, as they are and in another case."""
    whole = [text for sections in texts.values() for text in sections if text.strip()]
    for _ in range(40):
        text = chance.choice(whole)
        start = chance.randrange(len(text))
        pattern = text[start : start + chance.randint(1, 12)]
        if pattern.strip():
            exact = chance.random() < 0.4
            yield (pattern if exact else pattern.swapcase()), {"ignore_case": not exact}
    yield "nowhere at all", {}
