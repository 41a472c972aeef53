"""Which fields the keyword index of a collection has: chosen, kept, told and changed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_rag import Chunk, KnowledgeBase, MemoryStore, SQLiteStore, TextBlock
from agent_rag.errors import ConfigurationError
from agent_rag.retrieval.analysis import FIELDS, GRAMS
from agent_rag.testing import HashEmbedding, record

ENGLISH = "The pumps have been running loudly since yesterday, so please check the valves and the seals of the unit."
GERMAN = "Die Wasserpumpen laufen seit gestern sehr laut. Bitte prüfen Sie Ventile und Dichtungen der Anlage."


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


def chunks(*texts: str) -> list[Chunk]:
    return [
        Chunk(content=TextBlock(text=text), source="a.txt", chunk_index=n, total_chunks=len(texts))
        for n, text in enumerate(texts)
    ]


def base(store: Any, **options: Any) -> KnowledgeBase:
    return KnowledgeBase("kb", "notes", HashEmbedding(), store, "c", **options)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (ENGLISH, FIELDS),
        (GERMAN, f"{GRAMS}+german"),
        ("def parse_header(raw): return raw.split(':', 1)[0].strip().lower()", GRAMS),
        ("水泵从昨天开始声音很大，请检查阀门和密封件。", FIELDS),
    ],
)
async def test_the_first_documents_choose(store: MemoryStore, text: str, fields: str) -> None:
    """English prose and Chinese have words, titles and pairs; other languages and code also parts of words."""
    kb = base(store)

    assert await kb.keyword_fields() is None
    await kb.insert_document(chunks(text), "a")

    assert await kb.keyword_fields() == fields


async def test_the_user_chooses_first(store: MemoryStore) -> None:
    """`keyword_grams` stands above what the documents hold."""
    await base(store, keyword_grams=False).insert_document(chunks(GERMAN), "a")

    assert await base(store).keyword_fields() == f"{FIELDS}+german"


async def test_a_collection_keeps_its_fields(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    """Later documents and handles do not change them: chunks with more fields would outscore the others. Who asked for
    others is told once."""
    await base(store).insert_document(chunks(ENGLISH), "a")
    other = base(store, keyword_grams=True)

    with caplog.at_level(logging.WARNING, "agent_rag"):
        await other.insert_document(chunks(GERMAN), "b")
        await other.insert_document(chunks(GERMAN), "c")

    assert {chunk.analysis for name in "abc" for chunk in await other.list_chunks(name)} == {FIELDS}
    assert [message for message in caplog.messages if "reindex --keywords" in message] == [
        f"collection 'c' has the keyword fields {FIELDS}, without parts of words; "
        "`agent-rag reindex --keywords` changes that"
    ]


async def test_a_collection_that_becomes_another_is_told(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    """When most of what follows the first document is of another kind."""
    kb = base(store)
    await kb.insert_document(chunks(ENGLISH), "a")

    with caplog.at_level(logging.WARNING, "agent_rag"):
        await kb.insert_document(chunks(*[f"{GERMAN} {number}" for number in range(600)]), "b")

    assert [f"for what it holds now {GRAMS}+german are better" in message for message in caplog.messages] == [True]
    assert kb.keyword_notes == caplog.messages


async def test_what_an_earlier_release_wrote_is_told_and_renewed(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Searches and writes go on with words; `reindex_keywords` gives all documents of all scopes the fields, with the
    vectors they have."""
    kb = base(store)
    await store.open_collection("c", 64, fingerprint=kb.embedder.fingerprint)
    vector = [1.0, *[0.0] * 63]
    await store.insert(
        "c", [record(name, text=GERMAN, vector=vector, scope=scope) for name, scope in (("a", ""), ("b", "t=1"))]
    )
    with caplog.at_level(logging.WARNING, "agent_rag"):
        await kb.insert_document(chunks(GERMAN), "d")
    before = await kb.search("Wasserpump", mode="keyword")

    report = await kb.reindex_keywords()
    again = await kb.reindex_keywords()

    assert "was written by an earlier release" in caplog.text
    assert before == []
    assert (report.fields, report.documents, report.chunks, report.unchanged) == (f"{GRAMS}+german", 3, 3, 0)
    assert (again.documents, again.unchanged) == (0, 3)
    assert {hit.document_id for hit in await kb.search("Wasserpump", mode="keyword")} == {"a", "b", "d"}
    stored = [item async for item in store.iterate("c")]
    assert [list(item.vector) for item in stored if item.document_id in "ab"] == [vector, vector]
    assert [item.scope for item in stored] == ["", "", "t=1"]


async def test_what_somebody_replaces_meanwhile_stays_replaced(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading a document and writing it again: the later text is indexed with the fields, what was deleted
    stays deleted."""
    kb = base(store, keyword_grams=False)
    for name in "abc":
        await kb.insert_document(chunks(GERMAN), name)
    replace = store.replace_unchanged
    calls = 0

    async def late(*arguments: Any, **options: Any) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 1:
            await kb.insert_document(chunks("Der Kran steht.", "Er ist neu."), "a")
            await kb.delete_document("b")
        return await replace(*arguments, **options)

    monkeypatch.setattr(store, "replace_unchanged", late)
    report = await kb.reindex_keywords(grams=True)

    stored = {name: await kb.list_chunks(name) for name in "abc"}
    assert {name: [one.text for one in found] for name, found in stored.items()} == {
        "a": ["Der Kran steht.", "Er ist neu."], "b": [], "c": [GERMAN],
    }  # fmt: skip
    assert {one.analysis for found in stored.values() for one in found} == {f"{GRAMS}+german"}
    assert (calls, report.documents, report.chunks) == (2, 2, 3)


async def test_a_search_learns_what_the_collection_has(tmp_path: Path) -> None:
    """A handle that was open while another process indexed anew asks for parts of words after its next search."""
    async with SQLiteStore(tmp_path / "store.db") as store:
        reader, writer = base(store), base(store, keyword_grams=False)
        await writer.insert_document(chunks(GERMAN), "a")
        await reader.search("Ventile", mode="keyword")
        before = await reader.search("Wasserpu", mode="keyword")

        await base(store).reindex_keywords(grams=True)
        await reader.search("Ventile", mode="keyword")
        after = await reader.search("Wasserpu", mode="keyword")

    assert before == []
    assert [hit.document_id for hit in after] == ["a"]


async def test_a_part_of_a_collection_is_not_reindexed(store: MemoryStore) -> None:
    """The chunks of a collection are indexed alike."""
    with pytest.raises(ConfigurationError, match="without metadata_filter"):
        await base(store, metadata_filter={"tenant": "a"}).reindex_keywords()


async def test_nothing_is_reindexed_where_nothing_is(store: MemoryStore) -> None:
    """No collection, no documents."""
    report = await base(store).reindex_keywords(grams=True)

    assert (report.fields, report.documents) == (None, 0)


async def test_words_are_stemmed_in_the_language_of_the_collection(store: MemoryStore) -> None:
    """German endings are cut and German function words left out, also in the first search of a handle."""
    await base(store, keyword_grams=False).insert_document(chunks(f"{GERMAN} Die Häuser sind alt."), "a")

    found = [await base(store).search(query, mode="keyword") for query in ("Haus", "sind die")]

    assert [[hit.document_id for hit in hits] for hits in found] == [["a"], []]
