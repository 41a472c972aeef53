"""What `copy_collection` does beside what the contract says (`test_a_copy_answers_as_the_original`)."""

from __future__ import annotations

import pytest

from agent_rag import KnowledgeBase, MemoryStore
from agent_rag.documents import VectorSearchResult
from agent_rag.retrieval.analysis import FIELDS, GRAMS
from agent_rag.stores import copy_collection
from agent_rag.testing import record


@pytest.mark.parametrize(
    ("there", "copied", "told"),
    [
        (FIELDS, FIELDS, None),
        (FIELDS, f"{GRAMS}+german", f"has the keyword fields {FIELDS}, 'old' has {GRAMS}+german; "),
        (None, FIELDS, f"has the keyword fields words, 'old' has {FIELDS}; "),
        (GRAMS, None, f"has the keyword fields {GRAMS}, 'old' has words; "),
    ],
)
async def test_words_are_indexed_as_the_target_has_them(
    there: str | None, copied: str | None, told: str | None
) -> None:
    """Chunks of a collection are indexed alike: one of other fields gets those of the target, as the report says."""
    async with MemoryStore() as store:
        for name, document, analysis in (("new", "a", there), ("old", "b", copied)):
            await store.open_collection(name, 4)
            one = record(document, text="Wasserpumpen laufen")
            chunk = one.chunk.model_copy(update={"analysis": analysis})
            await store.insert(name, [one.model_copy(update={"chunk": chunk})])

        report = await copy_collection(store, "old", store, "new")

        found = [one async for one in store.iterate("new")]
        assert [one.chunk.analysis for one in found] == [there, there]
        assert [told in note for note in report.notes] == [True] if told else report.notes == []
        scores = {hit.document_id: hit.score for hit in await _keyword(store, "Wasserpumpen")}
        assert scores["a"] == scores["b"]


async def test_an_empty_target_has_the_fields_of_the_source() -> None:
    """There is nothing to agree with."""
    async with MemoryStore() as store:
        await store.open_collection("old", 4)
        one = record("b", text="Wasserpumpen laufen")
        chunk = one.chunk.model_copy(update={"analysis": GRAMS})
        await store.insert("old", [one.model_copy(update={"chunk": chunk})])

        report = await copy_collection(store, "old", store, "new")

        assert [one.chunk.analysis async for one in store.iterate("new")] == [GRAMS]
        assert report.notes == []


async def _keyword(store: MemoryStore, query: str) -> list[VectorSearchResult]:
    return await KnowledgeBase("kb", "d", None, store, "new").search(query, mode="keyword")
