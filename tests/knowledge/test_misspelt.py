"""Misspelt words of a query."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_rag import Chunk, KnowledgeBase, MemoryStore, TextBlock
from agent_rag.knowledge.hits import Hits
from agent_rag.testing import HashEmbedding

TEXT = "The pumps have been running loudly since yesterday, so please check the valves and the seals of the unit."


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


async def base(store: MemoryStore, *texts: str, **options: Any) -> KnowledgeBase:
    kb = KnowledgeBase("kb", "notes", HashEmbedding(), store, "c", **options)
    for number, text in enumerate(texts):
        chunk = Chunk(content=TextBlock(text=text), source="a.txt", chunk_index=0, total_chunks=1)
        await kb.insert_document([chunk], f"{number}")
    return kb


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
async def test_a_misspelt_word_is_found(store: MemoryStore, mode: Any) -> None:
    """The word one letter away is asked for, and the hits say so."""
    kb = await base(store, TEXT, "Nothing of the kind.")

    hits = await kb.search("yesterdya", mode=mode)

    assert hits[0].document_id == "0"
    assert isinstance(hits, Hits)
    assert hits.corrected == {"yesterdya": "yesterday"}


async def test_words_that_are_there_are_not_corrected(store: MemoryStore) -> None:
    """Also where the first hits lack them; nor is anything in semantic mode, nor what is too far away."""
    kb = await base(store, TEXT, *[f"The valve number {number} is the valve of the pump." for number in range(8)])

    for query, mode in (("valve of seals", "keyword"), ("yesterdya", "semantic"), ("yestrdya", "keyword")):
        hits = await kb.search(query, 2, mode=mode)  # type: ignore[arg-type]
        assert isinstance(hits, Hits)
        assert hits.corrected == {}


async def test_words_of_other_scopes_are_not_shown(store: MemoryStore) -> None:
    """What only another tenant has stays unsaid."""
    await base(store, "The project is called Nightingale and it is secret.", metadata_filter={"tenant": "a"})
    other = await base(store, TEXT, metadata_filter={"tenant": "b"})

    hits = await other.search("nightingele pumps", mode="keyword")

    assert [hit.document_id for hit in hits] == ["0"]
    assert isinstance(hits, Hits)
    assert hits.corrected == {}
