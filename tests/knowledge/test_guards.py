"""Where the bounds of a KnowledgeBase are, what it refuses, and what its events count."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_rag import Base64Source, Chunk, DataBlock, Document, F, KnowledgeBase, Limits, MemoryStore, TextBlock
from agent_rag.errors import ConfigurationError, LimitExceededError, StoreError
from agent_rag.events import DocumentsDeleted, DocumentsReplaced, Event
from agent_rag.knowledge.search import vetted
from agent_rag.stores.base import VectorStoreBase
from agent_rag.testing import HashEmbedding, SevenMethodStore


def chunks(*texts: str, **fields: Any) -> list[Chunk]:
    return [
        Chunk(content=TextBlock(text=text), source="a.txt", chunk_index=n, total_chunks=len(texts), **fields)
        for n, text in enumerate(texts)
    ]


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


def base(store: VectorStoreBase, **options: Any) -> KnowledgeBase:
    given = {"name": "kb", "description": "d", "embedding_model": HashEmbedding(), "collection": "kb", **options}
    return KnowledgeBase(vector_store=store, **given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "needs a name and a collection"),
        ({"collection": ""}, "needs a name and a collection"),
        ({"embedding_model": 42}, "embedding_model is a int"),
        ({"embedding_model": lambda inputs: inputs}, "embedding_model is a function"),
        ({"metadata_filter": "tenant"}, "metadata_filter is 'tenant'"),
        ({"metadata_filter": ["tenant"]}, "pass a mapping"),
        ({"keyword_weight": -0.01}, "from 0 to 1"),
        ({"keyword_weight": 1.01}, "from 0 to 1"),
    ],
)
def test_wrong_options_are_refused(store: MemoryStore, options: dict[str, Any], message: str) -> None:
    """When the object is made, with the value."""
    with pytest.raises(ConfigurationError, match=message):
        base(store, **options)


@pytest.mark.parametrize("weight", [0, 1])
async def test_the_ends_of_the_weight_are_one_mode_alone(store: MemoryStore, weight: float) -> None:
    """0 orders by cosine, 1 by BM25."""
    kb = base(store, keyword_weight=weight)
    await kb.insert_document(chunks("pump pump pump", "valve pump", "the outdoor valve"), "a")

    hits = await kb.search("valve pump", mode="hybrid")
    alone = await kb.search("valve pump", mode="keyword" if weight else "semantic")

    assert hits[0].chunk_id == alone[0].chunk_id


async def test_the_models_weight_is_the_default(store: MemoryStore) -> None:
    """A model declares its keyword weight; a class that declares none gets .8."""

    class Model(HashEmbedding):
        keyword_weight = 1.0

    await base(store).insert_document(chunks("pump pump pump", "valve pump", "the outdoor valve"), "a")
    scores = [
        [hit.score for hit in await base(store, **options).search("valve pump", mode="hybrid")]
        for options in ({"embedding_model": Model()}, {"keyword_weight": 1.0}, {}, {"keyword_weight": 0.8})
    ]

    assert scores[0] == scores[1]
    assert scores[2] == scores[3] != scores[0]


@pytest.mark.parametrize("mode", ["semantic", "hybrid", "keyword"])
async def test_a_threshold_includes_its_own_score(store: MemoryStore, mode: Any) -> None:
    """A hit whose signal is exactly the threshold stays; a little more takes it away."""
    kb = base(store)
    await kb.insert_document(chunks("pump loud", "pump"), "a")
    (best, *_) = await kb.search("pump loud", mode=mode)
    signal = best.signals.keyword if mode == "keyword" else best.signals.semantic
    assert signal is not None

    at = await kb.search("pump loud", mode=mode, score_threshold=signal)
    above = await kb.search("pump loud", mode=mode, score_threshold=signal + 1e-9)

    assert [hit.chunk_id for hit in at] == [best.chunk_id]
    assert above == []


async def test_top_k_is_exact(store: MemoryStore) -> None:
    """As many as asked, none for 0 and less, 100 at most; a number that is none is refused."""
    kb = base(store)
    await kb.insert_document(chunks(*(f"pump {n}" for n in range(120))), "a")

    assert [len(await kb.search("pump", top_k=k)) for k in (1, 2, 100)] == [1, 2, 100]
    assert [await kb.search("pump", top_k=k) for k in (0, -1)] == [[], []]
    with pytest.raises(LimitExceededError, match="results=100"):
        await kb.search("pump", top_k=101)
    for wrong in (True, 1.5, "5", None):
        with pytest.raises(ConfigurationError, match="top_k"):
            await kb.search("pump", top_k=wrong)  # type: ignore[arg-type]
    for wrong in (True, "high", float("nan")):
        with pytest.raises(ConfigurationError, match="score_threshold"):
            await kb.search("pump", score_threshold=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="mode 'fast' is unknown"):
        await kb.search("pump", mode="fast")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="got a int"):
        await kb.search([7])  # type: ignore[list-item]


async def test_distinct_looks_beyond_top_k(store: MemoryStore) -> None:
    """Twenty copies and one other text are two hits, the first of which lists nineteen places."""
    kb = base(store)
    await kb.insert_document(chunks(*["pump"] * 20, "pump valve"), "a")

    hits = await kb.search("pump", top_k=2, distinct=True)

    assert [hit.chunk.text for hit in hits] == ["pump", "pump valve"]
    assert len(hits[0].also_in) == 19
    assert len(await kb.search("pump", top_k=2)) == 2


LIMITS = Limits(
    documents_per_request=2,
    chunk_characters=10,
    chunks_per_document=3,
    dimensions=64,
    query_characters=8,
    metadata_fields=2,
    filter_values=2,
    identifier_characters=4,
)


async def test_limits_hold_at_their_numbers(store: MemoryStore) -> None:
    """Exactly the limit passes, one more is refused by name, and nothing of the refused request is stored."""
    kb = base(store, limits=LIMITS)
    short = chunks("pump")

    def document(name: str, parts: list[Chunk] = short, **metadata: Any) -> Document:
        return Document(document_id=name, chunks=parts, metadata=metadata)

    await kb.replace_documents([document("aaaa", chunks("p" * 10, "b", "c"), x=1, y=2), document("b")])
    for wrong, limit in (
        ([document("c"), document("d"), document("e")], "documents_per_request=2"),
        ([document("c", chunks("p" * 11))], "chunk_characters=10"),
        ([document("c", chunks("a", "b", "c", "d"))], "chunks_per_document=3"),
        ([document("c", x=1, y=2, z=3)], "metadata_fields=2"),
        ([document("ccccc")], "identifier_characters=4"),
    ):
        with pytest.raises(LimitExceededError, match=limit):
            await kb.replace_documents(wrong)
    for wrong_id in ("", "  "):
        with pytest.raises(ConfigurationError, match="non-empty string"):
            await kb.replace_documents([document(wrong_id)])

    assert [summary.document_id for summary in await kb.list_documents()] == ["aaaa", "b"]
    with pytest.raises(LimitExceededError, match="dimensions=64"):
        base(store, limits=LIMITS, embedding_model=HashEmbedding(65))
    base(store, limits=LIMITS, embedding_model=HashEmbedding(64))


async def test_limits_of_a_search_hold_at_their_numbers(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    """Conditions and values of a filter raise; a long query is cut and said, one of the exact length is not."""
    kb = base(store, limits=LIMITS)
    await kb.insert_document(chunks("pump 123"), "a", {"x": 1})

    assert await kb.search("pump", filter={"x": [1, 2]})
    with pytest.raises(LimitExceededError, match="filter_values=2"):
        await kb.search("pump", filter={"x": [1, 2, 3]})
    assert await kb.search("pump", filter=(F("x") == 1) & (F("y") != 2))
    with pytest.raises(LimitExceededError, match="metadata_fields=2"):
        await kb.search("pump", filter=(F("x") == 1) & (F("y") != 2) & (F("z") != 3))
    with caplog.at_level(logging.WARNING):
        assert await kb.search("pump 123")
        assert caplog.text == ""
        assert await kb.search("pump 1234")
    assert "query of 9 characters cut to query_characters=8" in caplog.text


async def test_blank_queries_find_nothing(store: MemoryStore) -> None:
    """Also characters that nobody sees; a query beside them counts."""
    kb = base(store)
    await kb.insert_document(chunks("pump"), "a")

    for blank in ("", " \n", "\u200b\u2060", ["", " "], []):
        assert await kb.search(blank) == []
    assert len(await kb.search(["", "pump"])) == 1


async def test_events_count_what_happened(store: MemoryStore) -> None:
    """Chunks and ids of writes and deletes; nothing is told of what was not there."""
    events: list[Event] = []
    kb = base(store, on_event=events.append)

    await kb.insert_document(chunks("a b", "c d"), "one", trigger="agent")
    await kb.replace_documents([Document(document_id="two", chunks=chunks("e"))])
    await kb.delete_documents(["one", "nope"])
    await kb.delete_document("nope")
    await kb.delete_by_filter({"x": 1})

    told = [(type(event), event.document_ids, event.chunk_count, event.trigger) for event in events]  # type: ignore[attr-defined]
    assert told == [
        (DocumentsReplaced, ("one",), 2, "agent"),
        (DocumentsReplaced, ("two",), 1, "user"),
        (DocumentsDeleted, ("one",), 2, "user"),
    ]


async def test_ids_and_filters_that_would_mean_everything_are_refused(store: MemoryStore) -> None:
    """A missing filter deletes nothing; a text is no list of ids; an id twice is a mistake."""
    kb = base(store)
    await kb.insert_document(chunks("a"), "a")

    with pytest.raises(ConfigurationError, match="needs a filter"):
        await kb.delete_by_filter({})
    for call in (kb.delete_documents("a"), kb.fetch("a:0")):  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="single text"):
            await call
    with pytest.raises(ConfigurationError, match="occurs twice"):
        await kb.delete_documents(["a", "a"])
    for wrong in ("text", [1], [chunks("a")]):
        with pytest.raises(ConfigurationError, match="made of chunks"):
            await kb.insert_document(wrong)  # type: ignore[arg-type]

    assert await kb.count() == 1


@pytest.mark.parametrize("scope", [None, {}, 0, ""])
async def test_a_scope_function_that_gives_nothing_opens_nothing(store: MemoryStore, scope: Any) -> None:
    """Every operation refuses, reads and writes."""
    await base(store).insert_document(chunks("secret pump"), "a")
    kb = base(store, metadata_filter=lambda: scope)

    for call in (
        kb.search("pump"),
        kb.list_documents(),
        kb.count(),
        kb.fetch(["a:0"]),
        kb.delete_documents(["a"]),
        kb.delete_by_filter({"x": 1}),
        kb.insert_document(chunks("x"), "b"),
    ):
        with pytest.raises(ConfigurationError, match="scope function"):
            await call

    assert await base(store).count() == 1


async def test_a_write_is_one_documents_metadata(store: MemoryStore) -> None:
    """What all chunks have is the document's; what differs is the chunk's alone; the scope wins."""
    kb = base(store, metadata_filter={"tenant": "a"})
    parts = [
        chunk.model_copy(update={"metadata": {"page": n, "kind": "memo", "tenant": "b"}})
        for n, chunk in enumerate(chunks("pump", "valve"))
    ]
    await kb.insert_document(parts, "d", {"kind": "note", "year": 2024})

    (summary,) = await kb.list_documents()
    (first, second) = await kb.fetch(["d:0", "d:1"])
    assert summary.metadata == {"kind": "memo", "year": 2024, "tenant": "a"}
    assert first.metadata == {"page": 0, "kind": "memo", "year": 2024, "tenant": "a"}
    assert second.metadata == {"page": 1, "kind": "memo", "year": 2024, "tenant": "a"}


async def test_blank_chunks_and_mute_images_are_counted(store: MemoryStore) -> None:
    """They are left out, the rest is numbered anew, and the report has the numbers."""
    picture = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"))
    parts = chunks("pump", " ", "valve")
    parts.append(Chunk(content=picture, source="a.txt", chunk_index=3, total_chunks=4))
    kb = base(store)

    report = await kb.replace_documents([Document(document_id="d", chunks=parts)])
    again = await kb.replace_documents([Document(document_id="d", chunks=chunks("pump"))])

    assert (report.chunk_count, report.embedded, report.blank_left_out, report.images_left_out) == (2, 2, 1, 1)
    assert (again.chunk_count, again.replaced_chunks) == (1, 2)
    assert [chunk.total_chunks for chunk in await kb.fetch(["d:0"])] == [1]


async def test_what_a_store_answers_wrongly_is_dropped(store: MemoryStore) -> None:
    """Outside the scope, below the threshold, without the signal; and the order is made right."""
    kb = base(store)
    await kb.insert_document(chunks("pump", "pump valve", metadata={"tenant": "a"}), "a")
    hits = await kb.search("pump", mode="semantic")
    low, high = sorted(hits, key=lambda hit: hit.score)
    assert low.signals.semantic is not None
    assert high.signals.semantic is not None

    assert vetted([low, high], {"tenant": "a"}, "semantic", None, "kb") == [high, low]
    assert vetted([low, high], {"tenant": "b"}, "semantic", None, "kb") == []
    assert vetted([low, high], None, "semantic", high.signals.semantic, "kb") == [high]
    assert vetted([low, high], None, "keyword", 0.0, "kb") == []


async def test_the_modes_that_a_store_and_a_model_allow() -> None:
    """Hybrid with both, semantic without keyword search, keyword without a model; others say why not."""
    async with MemoryStore() as full, SevenMethodStore() as seven:
        assert base(full).default_mode == "hybrid"
        assert base(full).atomic
        assert base(seven).default_mode == "semantic"
        assert not base(seven).atomic
        assert base(full, embedding_model=None).default_mode == "keyword"
        await base(seven).insert_document(chunks("pump"), "a")
        for mode in ("keyword", "hybrid"):
            with pytest.raises(ConfigurationError, match="SevenMethodStore has none, use mode='semantic'"):
                await base(seven).search("pump", mode=mode)  # type: ignore[arg-type]
        for mode in ("semantic", "hybrid"):
            with pytest.raises(ConfigurationError, match="needs an embedding model"):
                await base(full, embedding_model=None).search("pump", mode=mode)  # type: ignore[arg-type]


async def test_filters_beyond_equality_find_enough_on_seven_methods() -> None:
    """The rest of a filter is applied to ten times as many hits as were asked for."""
    async with SevenMethodStore() as seven:
        kb = base(seven)
        for n in range(10):
            await kb.insert_document(chunks("pump"), f"d{n}", {"n": n, "kind": "memo"})

        hits = await kb.search("pump", top_k=1, filter=(F("n") >= 9) & (F("kind") == "memo"))
        listed = await kb.list_documents(filter=F("n").between(3, 4))

        assert [hit.document_id for hit in hits] == ["d9"]
        assert [summary.document_id for summary in listed] == ["d3", "d4"]
        assert await kb.delete_by_filter(F("n") < 2) == ["d0", "d1"]
        assert await kb.count() == 8


async def test_a_document_without_text_removes_the_earlier_one(store: MemoryStore) -> None:
    """The report and the events count it as gone, and one that was never there as nothing."""
    events: list[Event] = []
    kb = base(store, on_event=events.append)
    await kb.insert_document(chunks("a b", "c d"), "one")
    events.clear()

    report = await kb.replace_documents(
        [Document(document_id="one", chunks=chunks(" ")), Document(document_id="never", chunks=[])]
    )

    assert (report.chunk_count, report.replaced_chunks, report.blank_left_out) == (0, 2, 1)
    told = [(type(event), event.document_ids, event.chunk_count) for event in events]  # type: ignore[attr-defined]
    assert told == [(DocumentsDeleted, ("one",), 2)]
    assert await kb.list_documents() == []


async def test_metadata_is_changed_only_where_a_filter_says(store: MemoryStore) -> None:
    """No filter is refused; an empty mapping is every document, and says so by being written."""
    kb = base(store)
    await kb.insert_document(chunks("a"), "one", {"kind": "memo"})
    await kb.insert_document(chunks("b"), "two", {"kind": "note"})

    with pytest.raises(ConfigurationError, match="needs a filter"):
        await kb.update_documents(None, metadata={"year": 2024})  # type: ignore[arg-type]
    changed = await kb.update_documents({"kind": "memo"}, metadata={"year": 2024})
    every = await kb.update_documents({}, metadata={"seen": True})

    assert (changed, sorted(every)) == (["one"], ["one", "two"])
    assert [summary.metadata for summary in await kb.list_documents()] == [
        {"kind": "memo", "year": 2024, "seen": True},
        {"kind": "note", "seen": True},
    ]


async def test_documents_are_listed_in_pages(store: MemoryStore) -> None:
    """So many at most, behind an id, with a status; without any of it all of them."""
    kb = base(store)
    for name in ("a", "b", "c", "d"):
        await kb.insert_document(chunks(name), name)

    async def ids(**options: Any) -> list[str]:
        return [summary.document_id for summary in await kb.list_documents(**options)]

    assert await ids() == ["a", "b", "c", "d"]
    assert await ids(limit=2) == ["a", "b"]
    assert await ids(after="b") == ["c", "d"]
    assert await ids(after="b", limit=1) == ["c"]
    assert await ids(after="d") == []
    assert await ids(status="failed") == []
    assert await ids(status="stored") == ["a", "b", "c", "d"]


async def test_documents_of_one_source_are_listed(store: MemoryStore) -> None:
    """By its name; without one those of all sources."""
    kb = base(store)
    for name in ("a", "b"):
        await kb.replace_documents([Document(document_id=name, chunks=chunks(name), state={"source": f"of {name}"})])

    assert [one.document_id for one in await kb.list_documents(source="of b")] == ["b"]
    assert [one.document_id for one in await kb.list_documents()] == ["a", "b"]


async def test_a_document_is_deleted_by_its_files_path(store: MemoryStore) -> None:
    """That one, and no other."""
    kb = base(store)
    for name in ("a", "b"):
        await kb.insert_document(chunks(name), name, uri=f"file:///srv/{name}.txt")

    assert await kb.delete_document("/srv/b.txt") == 1
    assert await kb.delete_document("/srv/c.txt") == 0
    assert [one.document_id for one in await kb.list_documents()] == ["a"]


async def test_a_question_without_an_answer_costs_nothing(store: MemoryStore) -> None:
    """No hits wanted, or images in keyword search: the model is not asked."""
    model = HashEmbedding(supports_multimodal=True)
    kb = base(store, embedding_model=model)
    await kb.insert_document(chunks("pump"), "a")
    picture = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"))
    asked = model.calls

    assert await kb.search("pump", top_k=0) == []
    assert await kb.search(picture, mode="keyword") == []
    assert model.calls == asked
    assert len(await kb.search(picture, mode="semantic")) == 1
    assert model.calls == asked + 1


async def test_chunks_are_found_by_filter_alone(store: MemoryStore) -> None:
    """In pages, by their metadata, without a query; a store with the seven methods says that it cannot."""
    kb = base(store)
    await kb.insert_document(chunks("one", "two", "three"), "a", {"kind": "memo"})
    await kb.insert_document(chunks("four"), "b", {"kind": "note"})

    first = await kb.find_chunks({"kind": "memo"}, limit=2)
    rest = await kb.find_chunks({"kind": "memo"}, limit=2, after="a:1")

    assert [chunk.text for chunk in first] == ["one", "two"]
    assert [chunk.text for chunk in rest] == ["three"]
    async with SevenMethodStore() as seven:
        await base(seven).insert_document(chunks("one"), "a")
        with pytest.raises(ConfigurationError, match="SevenMethodStore"):
            await base(seven).find_chunks({"kind": "memo"})


async def test_a_seven_method_store_is_asked_for_ten_times_as_many() -> None:
    """What a filter beyond equality leaves of them is what there is; with more to go through it may find nothing."""
    async with SevenMethodStore() as seven:
        kb = base(seven)
        for n in range(12):
            await kb.insert_document(chunks("pump"), f"d{n:02}", {"n": n})

        assert [hit.document_id for hit in await kb.search("pump", top_k=1, filter=F("n") >= 9)] == ["d09"]
        assert await kb.search("pump", top_k=1, filter=F("n") >= 10) == []
        assert await kb.search("pump", top_k=1, filter=F("n") == 11)


async def test_a_null_is_no_equality_of_a_seven_method_store() -> None:
    """``field == None`` means that it is missing, which such a store cannot be asked."""
    async with SevenMethodStore() as seven:
        kb = base(seven)
        await kb.insert_document(chunks("pump"), "with", {"kind": "memo"})
        await kb.insert_document(chunks("pump"), "without")

        hits = await kb.search("pump", filter=F("kind") == None)  # noqa: E711
        both = await kb.search("pump", filter=(F("kind") == "memo") & (F("kind") == "note"))

    assert [hit.document_id for hit in hits] == ["without"]
    assert both == []


async def test_a_store_that_answers_something_else_is_named() -> None:
    """Not an AttributeError somewhere behind it."""

    class Wrong(SevenMethodStore):
        async def search(self, *arguments: Any, **options: Any) -> Any:
            return [("a", 0.5)]

    async with Wrong() as store:
        await base(store).insert_document(chunks("pump"), "a")
        with pytest.raises(StoreError, match="search returned a tuple, not a VectorSearchResult"):
            await base(store).search("pump")
