"""KnowledgeBase.find: counted over all stored text, within the scope, and never for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_rag import F, KnowledgeBase
from agent_rag.chunkers import MarkdownChunker, RecursiveChunker
from agent_rag.documents import Section, text_section
from agent_rag.errors import ConfigurationError, PatternError
from agent_rag.stores import MemoryStore, SQLiteStore
from agent_rag.testing import SevenMethodStore
from agent_rag.testing.loop import longest_block


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


def base_in(store: object, **options: object) -> KnowledgeBase:
    return KnowledgeBase("docs", "Texts.", None, store, "docs", **options)  # type: ignore[arg-type]


async def put(base: KnowledgeBase, name: str, text: str, **metadata: object) -> None:
    await base.insert_document(
        await RecursiveChunker(chunk_size=60, overlap=20).chunk([text_section(text, f"{name}.txt", **metadata)]), name
    )


async def test_counts_are_exact_and_the_first_lines_are_shown(store: MemoryStore) -> None:
    """In total, of each document, and each document's first before the second of any."""
    base = base_in(store)
    await put(base, "a", "\n".join(f"Line {number}: error ERR-{number:03} was seen." for number in range(50)))
    await put(base, "b", "No ERR-007 here, but err-008.")
    await put(base, "c", "Nothing.")

    result = await base.find("err-", limit=3)

    assert result.total == 52
    assert [(one.document_id, one.count) for one in result.documents] == [("a", 50), ("b", 2)]
    assert [(match.document_id, match.line, match.text) for match in result.matches] == [
        ("a", "Line 0: error ERR-000 was seen.", "ERR-"),
        ("a", "Line 1: error ERR-001 was seen.", "ERR-"),
        ("b", "No ERR-007 here, but err-008.", "ERR-"),
    ]
    assert result.matches[0].chunk.source == "a.txt"


async def test_expressions_are_those_of_re(store: MemoryStore) -> None:
    """With look-around and letters of every script; lines begin and end where they do."""
    base = base_in(store)
    await put(base, "a", "Änderung der Größe\nÄnderungen: 12 von 30\nGröße 7")

    async def count(pattern: str, **options: Any) -> int:
        return (await base.find(pattern, regex=True, **options)).total

    assert await count(r"\bÄnderung\b") == 1
    assert await count(r"(?<=von )\d+") == 1
    assert await count(r"^Größe") == 1
    assert await count(r"größe \d") == 1
    assert await count(r"größe \d", ignore_case=False) == 0
    assert await count(r"gro[sß]e", ignore_accents=True) == 2
    assert await count(r"gro[sß]e") == 0
    assert await count("x*") == 0


async def test_nothing_outside_the_scope_is_counted(store: MemoryStore) -> None:
    """A handle counts its own scope, and a filter narrows it."""
    ours, theirs = (base_in(store, metadata_filter={"tenant": tenant}) for tenant in ("a", "b"))
    await put(ours, "plan", "secret word", year=2024)
    await put(ours, "old", "secret word", year=2020)
    await put(theirs, "plan", "secret word, secret")

    assert (await ours.find("secret")).total == 2
    assert (await theirs.find("secret", regex=True)).total == 2
    assert (await ours.find("secret", filter=F("year") == 2024)).total == 1
    assert (await ours.find("secret", document_id="plan")).total == 1
    assert {match.chunk.metadata["tenant"] for match in (await theirs.find("secret")).matches} == {"b"}


async def test_a_cell_of_a_long_table_is_counted_once(store: MemoryStore) -> None:
    """Its chunks repeat the header, which the file has once."""
    base = base_in(store)
    text = "| Region | Sum |\n| --- | --- |\n" + "".join(f"| North | {number} |\n" for number in range(60))
    chunks = await MarkdownChunker(chunk_size=200, overlap=0).chunk([text_section(text, "t.md")])
    await base.insert_document(chunks, "t")

    assert len(chunks) > 3
    assert (await base.find("region")).total == 1
    assert (await base.find("north")).total == 60


@pytest.mark.parametrize("hostile", [r"(a+)+$", r"(a|aa)+b", r"(?:a?){40}a{40}b", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
async def test_a_hostile_expression_ends_with_a_typed_answer(store: MemoryStore, hostile: str) -> None:
    """The event loop goes on meanwhile, and the next search is answered."""
    base = base_in(store)
    await put(base, "a", f"{'a' * 50}! {'a' * 50}!")
    failed: list[PatternError] = []

    async def find() -> None:
        with pytest.raises(PatternError, match="takes too long") as caught:
            await base.find(hostile, regex=True)
        failed.append(caught.value)

    held = await longest_block(find())

    assert failed
    assert held < 0.25
    assert (await base.find("a!", regex=True)).total == 2


@pytest.mark.parametrize("wrong", ["(", "a{2,1}", "(?P<x>a)(?P<x>b)"])
async def test_what_is_no_expression_is_refused(store: MemoryStore, wrong: str) -> None:
    """With what `re` says of it."""
    base = base_in(store)
    await put(base, "a", "a")

    with pytest.raises(PatternError, match="no regular expression"):
        await base.find(wrong, regex=True)


async def test_a_collection_that_is_not_there_holds_nothing(store: MemoryStore) -> None:
    """A normal answer, as in a search."""
    assert (await base_in(store).find("x")).total == 0


async def test_a_store_that_cannot_be_gone_through_says_so() -> None:
    """The seven methods give no way to see every chunk."""
    with pytest.raises(ConfigurationError, match="cannot go through its chunks"):
        await base_in(SevenMethodStore()).find("x")


async def test_a_document_that_is_replaced_meanwhile_is_counted_once(tmp_path: Path) -> None:
    """In the file it moves behind the place that was reached."""
    async with SQLiteStore(tmp_path / "store.db") as store:
        base = base_in(store)
        for number in range(60):
            await put(base, f"d{number:02}", "word " * 1_000)
        names = []

        async for page in store.scan("docs"):
            names += [document.document_id for document in page]
            if len(names) < 60:
                await put(base, "d00", "word")

        assert sorted(names) == [f"d{number:02}" for number in range(60)]


async def test_text_of_any_section_is_found(store: MemoryStore) -> None:
    """Sections are not joined: the end of one and the begin of the next are no line."""
    base = base_in(store)
    sections = [text_section("one end", "s.txt", page=1), text_section("begin two", "s.txt", page=2)]
    await base.insert_document(await RecursiveChunker().chunk(list[Section](sections)), "s")

    result = await base.find("begin")

    assert (await base.find("end begin")).total == 0
    assert result.matches[0].chunk.metadata["page"] == 2
