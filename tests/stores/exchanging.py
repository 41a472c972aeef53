"""Another model for a collection of a store that exchanges names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_rag import Chunk, KnowledgeBase, TextBlock
from agent_rag.errors import ModelMismatchError
from agent_rag.stores.native import NativeStoreBase
from agent_rag.testing import HashEmbedding


async def assert_the_model_is_exchanged(store: NativeStoreBase, collection: str) -> None:
    """`reindex_model` switches at once, catches up what is written meanwhile, and leaves one collection."""

    def base(model: Any) -> KnowledgeBase:
        return KnowledgeBase("kb", "d", model, store, collection)

    def chunk(text: str) -> Chunk:
        return Chunk(content=TextBlock(text=text), source="a", chunk_index=0, total_chunks=1)

    class Slow(HashEmbedding):
        """A user writes while the first documents are embedded."""

        async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
            if mode == "document" and pending:
                await pending.pop()()
            return await super().__call__(inputs, mode=mode)

    async def write() -> None:
        assert (await kb.search("Note 3.", mode="semantic"))[0].score == pytest.approx(1, abs=1e-4)
        await kb.insert_document([chunk("A late note.")], "3")
        await kb.delete_document("4")

    pending = [write]
    kb, other = base(HashEmbedding(16, name="old")), base(HashEmbedding(16, name="old"))
    for number in range(6):
        await kb.insert_document([chunk(f"Note {number}.")], str(number))
    before = set(await store.list_collections())

    report = await kb.reindex_model(Slow(16, name="new"))

    assert (report.switched, report.collection) == (True, collection)
    assert set(await store.list_collections()) == before
    found = {one.document_id: (await kb.list_chunks(one.document_id))[0].text for one in await kb.list_documents()}
    assert found == {"0": "Note 0.", "1": "Note 1.", "2": "Note 2.", "3": "A late note.", "5": "Note 5."}
    for text in ("A late note.", "Note 5."):
        assert (await kb.search(text, mode="semantic"))[0].score == pytest.approx(1, abs=1e-4)
    await asyncio.sleep(1)  # a handle believes for a second what it has seen
    with pytest.raises(ModelMismatchError):
        await other.insert_document([chunk("x")], "x")
