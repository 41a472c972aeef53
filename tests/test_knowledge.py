"""KnowledgeBase: the seed's four operations and what goes beyond them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent_rag import (
    Base64Source,
    Chunk,
    DataBlock,
    Document,
    F,
    KnowledgeBase,
    Limits,
    MemoryStore,
    QdrantStore,
    TextBlock,
)
from agent_rag.errors import (
    ConfigurationError,
    DimensionMismatchError,
    EmbeddingError,
    LimitExceededError,
    ModelMismatchError,
    StoreError,
)
from agent_rag.events import DocumentsDeleted, DocumentsReplaced, Event
from agent_rag.stores.base import VectorStoreBase
from agent_rag.testing import HashEmbedding, SevenMethodStore

PIXEL = Base64Source(data="iVBORw0KGgo=", media_type="image/png")


def chunks(*texts: str, **fields: Any) -> list[Chunk]:
    return [
        Chunk(content=TextBlock(text=text), source="file.txt", chunk_index=i, total_chunks=len(texts), **fields)
        for i, text in enumerate(texts)
    ]


@pytest.fixture(params=["memory", "qdrant", "seven methods"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[VectorStoreBase]:
    made: dict[str, Callable[[], VectorStoreBase]] = {
        "memory": MemoryStore,
        "qdrant": lambda: QdrantStore(location=":memory:"),
        "seven methods": SevenMethodStore,
    }
    async with made[request.param]() as opened:
        yield opened


@pytest.fixture
async def memory() -> AsyncIterator[VectorStoreBase]:
    async with MemoryStore() as opened:
        yield opened


def base(store: VectorStoreBase, **options: Any) -> KnowledgeBase:
    options = {"name": "kb", "description": "A toy corpus.", "embedding_model": HashEmbedding(), **options}
    return KnowledgeBase(vector_store=store, collection=options.pop("collection", "kb"), **options)


class TestSeedOperations:
    """The same on the reference, the embedded default and a store with seven methods."""

    async def test_finds_what_was_inserted(self, store: VectorStoreBase) -> None:
        """A question finds the chunk that shares its words, with id, chunk and score."""
        kb = base(store)
        document_id = await kb.insert_document(
            chunks("cats sleep all day", "dogs bark"), document_metadata={"lang": "en"}
        )

        (hit,) = await kb.search(["when do cats sleep?"], top_k=1)

        assert (hit.document_id, hit.chunk.chunk_index, hit.chunk.text) == (document_id, 0, "cats sleep all day")
        assert hit.chunk.metadata == {"lang": "en"}
        assert hit.chunk_id == f"{document_id}:0"
        assert hit.knowledge_base == "kb"

    async def test_replaces_a_known_document_whole(self, store: VectorStoreBase) -> None:
        """Inserting 2 chunks over 5 leaves 2; nothing of the old version is found. (S05, S19)"""
        kb = base(store)
        await kb.insert_document(chunks("old a", "old b", "old c", "old d", "old e"), "doc")

        await kb.insert_document(chunks("new a", "new b"), "doc")

        (summary,) = await kb.list_documents()
        found = await kb.search("old new", top_k=10)
        assert (summary.document_id, summary.chunk_count) == ("doc", 2)
        assert sorted(hit.chunk.text for hit in found) == ["new a", "new b"]

    async def test_deletes_and_counts(self, store: VectorStoreBase) -> None:
        """Deleting returns the number of chunks, an unknown id 0, and the others stay."""
        kb = base(store)
        await kb.insert_document(chunks("alpha one", "alpha two"), "A")
        await kb.insert_document(chunks("beta"), "B")

        assert await kb.delete_document("A") == 2
        assert await kb.delete_document("unknown") == 0
        assert [hit.document_id for hit in await kb.search("alpha beta", top_k=10)] == ["B"]

    async def test_deletes_by_another_spelling_of_the_path(self, store: VectorStoreBase) -> None:
        """./x/a.txt names the document x/a.txt. (S05)"""
        kb = base(store)
        await kb.insert_document(chunks("alpha"), "x/a.txt")

        assert await kb.delete_document("./x/a.txt") == 1

    async def test_keeps_scopes_apart(self, store: VectorStoreBase) -> None:
        """Two tenants with one document id in one collection never see, overwrite or delete each other. (R09)"""
        mine, theirs = (base(store, metadata_filter={"tenant": tenant}) for tenant in "ab")
        await mine.insert_document(chunks("my secret plan"), "handbook")
        await theirs.insert_document(chunks("their canteen menu"), "handbook")

        assert [hit.chunk.text for hit in await theirs.search("my secret plan", top_k=10)] == ["their canteen menu"]
        assert [hit.chunk.text for hit in await mine.search("menu", top_k=10)] == ["my secret plan"]
        assert [summary.document_id for summary in await theirs.list_documents()] == ["handbook"]
        assert await theirs.delete_document("handbook") == 1
        assert [hit.chunk.text for hit in await mine.search("plan")] == ["my secret plan"]

    async def test_scope_cannot_be_rebound(self, store: VectorStoreBase) -> None:
        """Metadata of the scope wins over the chunk's, and a filter of the caller narrows only. (R09)"""
        mine = base(store, metadata_filter={"tenant": "a"})
        theirs = base(store, metadata_filter={"tenant": "b"})
        await mine.insert_document(chunks("text", metadata={"tenant": "b"}), "doc")

        assert await theirs.search("text") == []
        assert await mine.search("text", filter={"tenant": "b"}) == []
        assert await theirs.search("text", filter={"tenant": "a"}) == []
        assert len(await mine.search("text", filter={})) == 1

    async def test_filters_with_the_whole_language(self, store: VectorStoreBase) -> None:
        """A range, a list and a combination keep what `matches` keeps."""
        kb = base(store)
        for year in (2022, 2023, 2024):
            await kb.insert_document(chunks("text", metadata={"year": year, "tags": ["x", str(year)]}), f"d{year}")

        found = await kb.search("text", top_k=10, filter=(F("year") >= 2023) & F("tags").contains_any(["2022", "2023"]))

        assert [hit.document_id for hit in found] == ["d2023"]

    async def test_empty_questions_and_corpora(self, store: VectorStoreBase) -> None:
        """No query, blank queries, top_k 0, or no collection yet give no hits, and reading creates no collection."""
        kb = base(store)

        assert await kb.search("text") == []
        assert await kb.list_documents() == []
        assert await kb.delete_document("x") == 0
        assert not await store.has_collection("kb")
        await kb.insert_document(chunks("text"), "d")
        assert await kb.search([]) == []
        assert await kb.search(["", "  "]) == []
        assert await kb.search("text", top_k=0) == []

    async def test_a_bare_string_is_one_query(self, store: VectorStoreBase) -> None:
        """A string is not iterated letter by letter."""
        kb = base(store)
        await kb.insert_document(chunks("cats"), "d")
        model = kb.embedding_model

        await kb.search("cats")

        assert model.texts[-1] == "cats"

    async def test_survives_a_dropped_collection(self, store: VectorStoreBase) -> None:
        """A collection dropped under a live handle reads as empty, and the next write makes it anew."""
        kb = base(store)
        await kb.insert_document(chunks("one"), "d")
        await store.delete_collection("kb")

        assert await kb.search("one") == []
        await kb.insert_document(chunks("two"), "d")
        assert [hit.chunk.text for hit in await kb.search("two")] == ["two"]

    async def test_leaves_no_part_behind_when_embedding_fails(self, store: VectorStoreBase) -> None:
        """40 chunks whose embedding fails leave the old version; the retry stores exactly 40. (S17)"""

        class Failing(HashEmbedding):
            broken = True

            async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
                if self.broken and mode == "document" and any("12" in item for item in inputs):
                    raise EmbeddingError("provider down")
                return await super().__call__(inputs, mode=mode)

        model = Failing()
        kb = base(store, embedding_model=model)
        await kb.insert_document(chunks("first version"), "doc")

        with pytest.raises(EmbeddingError, match=r"doc:0 and doc:39: provider down"):
            await kb.insert_document(chunks(*(f"chunk {i}" for i in range(40))), "doc")
        assert [hit.chunk.text for hit in await kb.search("first version", top_k=50)] == ["first version"]
        model.broken = False
        await kb.insert_document(chunks(*(f"chunk {i}" for i in range(40))), "doc")
        (summary,) = await kb.list_documents()
        assert summary.chunk_count == 40

    async def test_ten_searches_at_once(self, store: VectorStoreBase) -> None:
        """Concurrent searches on one handle agree. (S01)"""
        kb = base(store)
        await kb.insert_document(chunks("cats", "dogs"), "d")

        answers = await asyncio.gather(*(kb.search("cats", top_k=1) for _ in range(10)))

        assert {answer[0].chunk.text for answer in answers} == {"cats"}


class TestSearch:
    async def test_modes_and_signals(self, memory: VectorStoreBase) -> None:
        """Semantic scores are cosines, keyword scores BM25, hybrid scores in [0, 1]; hybrid hits have both signals."""
        kb = base(memory)
        await kb.insert_document(chunks("gateway timeout is 30 seconds", "the canteen opens at noon"), "d")
        question = "what is the gateway timeout?"

        semantic = (await kb.search(question, mode="semantic"))[0]
        keyword = (await kb.search(question, mode="keyword"))[0]
        both = (await kb.search(question))[0]

        assert kb.default_mode == "hybrid"
        assert -1 <= semantic.score == semantic.signals.semantic <= 1
        assert keyword.score == keyword.signals.keyword > 0
        assert both.score == 1.0
        assert (both.signals.semantic, both.signals.keyword) == (semantic.score, keyword.score)

    async def test_threshold_means_the_semantic_signal_in_hybrid_mode(self, memory: VectorStoreBase) -> None:
        """A cosine threshold keeps the good hit and drops the rest, though hybrid scores are relative. (R05)"""
        kb = base(memory)
        await kb.insert_document(chunks("gateway timeout is thirty seconds", "canteen menu"), "d")

        kept = await kb.search("gateway timeout", score_threshold=0.5)
        none = await kb.search("gateway timeout", score_threshold=0.99)

        assert [hit.chunk.text for hit in kept] == ["gateway timeout is thirty seconds"]
        assert none == []

    async def test_raising_the_threshold_never_adds_hits(self, memory: VectorStoreBase) -> None:
        """In every mode the hits at a higher threshold are a part of those at a lower one. (R01)"""
        kb = base(memory)
        await kb.insert_document(chunks(*(f"gateway {'timeout ' * i}{'x' * i}" for i in range(8))), "d")

        for mode in ("semantic", "keyword", "hybrid"):
            sizes = [
                {hit.chunk_id for hit in await kb.search("gateway timeout", 10, threshold / 10, mode=mode)}
                for threshold in range(-10, 11)
            ]
            assert all(low >= high for low, high in itertools.pairwise(sizes)), mode

    async def test_distinct_collapses_identical_passages(self, memory: VectorStoreBase) -> None:
        """The same text in 3 documents is one hit that names the others; 5 distinct texts come back. (R07)"""
        kb = base(memory)
        for name in "abc":
            await kb.insert_document(chunks("gateway timeout is 30 seconds"), name)
        await kb.insert_document(chunks(*(f"gateway note {i}" for i in range(4))), "other")

        hits = await kb.search("gateway timeout", top_k=5, distinct=True)

        assert len({hit.chunk.text for hit in hits}) == len(hits) == 5
        assert [key.document_id for key in hits[0].also_in] == ["b", "c"]

    async def test_several_queries_are_merged(self, memory: VectorStoreBase) -> None:
        """Two queries give the best of each, once."""
        kb = base(memory)
        await kb.insert_document(chunks("cats sleep", "dogs bark", "fish swim"), "d")

        found = await kb.search(["cats", "dogs", TextBlock(text="cats")], top_k=2)

        assert {hit.chunk.text for hit in found} == {"cats sleep", "dogs bark"}

    async def test_without_a_model_only_keyword_search_works(self, memory: VectorStoreBase) -> None:
        """embedding_model=None searches by keyword; semantic search says what is missing."""
        kb = base(memory, embedding_model=None)
        await kb.insert_document(chunks("cats sleep"), "d")

        assert [hit.chunk.text for hit in await kb.search("cat")] == ["cats sleep"]
        with pytest.raises(ConfigurationError, match="needs an embedding model"):
            await kb.search("cat", mode="semantic")

    async def test_keyword_mode_on_a_store_without_it_says_so(self) -> None:
        """A store with seven methods searches semantically by default; keyword mode is a clear error."""
        async with SevenMethodStore() as store:
            kb = base(store)
            await kb.insert_document(chunks("cats"), "d")

            assert kb.default_mode == "semantic"
            assert not kb.atomic
            with pytest.raises(ConfigurationError, match="SevenMethodStore has none, use mode='semantic'"):
                await kb.search("cats", mode="keyword")

    async def test_image_queries_are_dropped_for_a_text_model(self, memory: VectorStoreBase) -> None:
        """A text-only model ignores images among the queries; a multimodal one embeds them."""
        image = DataBlock(source=PIXEL)
        text_only, multimodal = (
            base(memory),
            base(memory, collection="images", embedding_model=HashEmbedding(supports_multimodal=True)),
        )
        await text_only.insert_document(chunks("cats"), "d")
        await multimodal.insert_document([Chunk(content=image, source="i", chunk_index=0, total_chunks=1)], "i")

        assert await text_only.search([image]) == []
        assert len(await text_only.search([image, "cats"])) == 1
        assert [hit.document_id for hit in await multimodal.search([image])] == ["i"]

    async def test_a_pasted_page_is_cut(self, memory: VectorStoreBase, caplog: pytest.LogCaptureFixture) -> None:
        """A query of 50,000 words is searched by its beginning and the cut is logged. (R11)"""
        kb = base(memory)
        await kb.insert_document(chunks("cats"), "d")

        assert len(await kb.search("cats " * 50_000)) == 1
        assert max(map(len, kb.embedding_model.texts)) == 16_384
        assert "cut to query_characters=16384" in caplog.text

    @pytest.mark.parametrize("given", [MemoryStore, "qdrant:folder", object()])
    def test_what_is_no_store_is_refused(self, given: Any) -> None:
        """A class, a URI or anything else is named at once."""
        with pytest.raises(ConfigurationError, match="which is no store"):
            KnowledgeBase("k", "d", HashEmbedding(), given, "c")

    async def test_vectors_over_the_limit_are_refused(self, memory: VectorStoreBase) -> None:
        """A model with longer vectors than `limits.dimensions` is named when the knowledge base is made."""
        with pytest.raises(LimitExceededError, match="dimensions=32"):
            base(memory, limits=Limits(dimensions=32))

    async def test_limits_name_themselves(self, memory: VectorStoreBase) -> None:
        """Too large a top_k, filter list or chunk raises and names the option."""
        kb = base(memory, limits=Limits(chunk_characters=10))

        with pytest.raises(LimitExceededError, match=r"results=100"):
            await kb.search("x", top_k=101)
        with pytest.raises(LimitExceededError, match=r"filter_values=100"):
            await kb.search("x", filter=F("a").in_(range(101))) or await kb.count(filter=F("a").in_(range(101)))
        with pytest.raises(LimitExceededError, match=r"chunk_characters=10"):
            await kb.insert_document(chunks("x" * 11), "d")


class TestModels:
    async def test_another_dimension_is_refused_before_any_write(self, memory: VectorStoreBase) -> None:
        """The error names both sizes, the collection and the cure. (S03)"""
        await base(memory, embedding_model=HashEmbedding(8)).insert_document(chunks("a"), "d")
        wrong = base(memory, embedding_model=HashEmbedding(16))

        for operation in (wrong.insert_document(chunks("b"), "e"), wrong.search("a")):
            with pytest.raises(DimensionMismatchError, match=r"'kb' holds 8-dim.*makes 16; search with the model"):
                await operation

    async def test_another_model_of_the_same_size_is_refused(self, memory: VectorStoreBase) -> None:
        """The model is recorded with the collection. (S03)"""
        await base(memory, embedding_model=HashEmbedding(8, name="A")).insert_document(chunks("a"), "d")

        with pytest.raises(ModelMismatchError, match="'A:8', not 'B:8'"):
            await base(memory, embedding_model=HashEmbedding(8, name="B")).search("a")

    async def test_a_duck_typed_model_works(self, memory: VectorStoreBase) -> None:
        """Anything with dimensions, supports_multimodal and an awaitable call is a model."""

        class Duck:
            dimensions = 2
            supports_multimodal = False

            async def __call__(self, inputs: list[Any]) -> Any:
                class Response:
                    embeddings = [[1.0, 0.0] for _ in inputs]

                return Response()

        kb = base(memory, embedding_model=Duck())
        await kb.insert_document(chunks("a"), "d")

        assert (await kb.search("a", mode="semantic"))[0].score == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("vectors", "message"),
        [
            ([[1.0, 0.0]], "1 vectors for 2 inputs"),
            ([[1.0], [1.0]], "of 1 numbers, not 2"),
            ([[1.0, float("nan")]] * 2, "finite"),
        ],
    )
    async def test_wrong_answers_of_a_model_are_errors(
        self, memory: VectorStoreBase, vectors: list[list[float]], message: str
    ) -> None:
        """A wrong count, a wrong length or NaN never reaches the store."""

        class Broken(HashEmbedding):
            async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
                return type("Response", (), {"embeddings": vectors})

        kb = base(memory, embedding_model=Broken(2))

        with pytest.raises(EmbeddingError, match=message):
            await kb.insert_document(chunks("a", "b"), "d")
        assert await kb.list_documents() == []


class TestWriting:
    async def test_events_follow_writes_without_content(self, memory: VectorStoreBase) -> None:
        """Replace and delete emit who and what, never text, after the store acknowledged."""
        events: list[Event] = []
        kb = base(memory, on_event=events.append)

        await kb.insert_document(chunks("secret text"), "d", trigger="agent")
        await kb.delete_document("d")

        assert events == [
            DocumentsReplaced(knowledge_base="kb", document_ids=("d",), chunk_count=1, trigger="agent"),
            DocumentsDeleted(knowledge_base="kb", document_ids=("d",), chunk_count=1, trigger="user"),
        ]

    async def test_a_failing_callback_changes_nothing(self, memory: VectorStoreBase) -> None:
        """An error in on_event is logged; the document is there."""

        def explode(event: Event) -> None:
            raise RuntimeError("boom")

        kb = base(memory, on_event=explode)
        await kb.insert_document(chunks("text"), "d")

        assert len(await kb.list_documents()) == 1

    async def test_images_without_text_are_left_out_and_counted(self, memory: VectorStoreBase) -> None:
        """A text-only model indexes an image by its caption; one without is counted, not an error."""
        image = DataBlock(source=PIXEL)
        captioned = DataBlock(source=PIXEL, caption="a floor plan of the annex")
        mixed = [
            *chunks("text"),
            *(Chunk(content=b, source="i", chunk_index=0, total_chunks=3) for b in (image, captioned)),
        ]
        kb = base(memory)

        report = await kb.replace_documents([Document(document_id="d", chunks=mixed)])

        assert (report.chunk_count, report.images_left_out) == (2, 1)
        (hit,) = await kb.search("annex plan", top_k=1)
        assert hit.chunk.content == captioned
        assert [chunk.chunk_index for chunk in await kb.list_chunks("d")] == [0, 1]

    async def test_blank_chunks_never_reach_the_model(self, memory: VectorStoreBase) -> None:
        """Blank and zero-width texts are left out. (C13, E07)"""
        kb = base(memory)

        report = await kb.replace_documents([Document(document_id="d", chunks=chunks("a", " \n", "\u200b\u00a0", ""))])

        assert (report.chunk_count, report.blank_left_out) == (1, 3)
        assert kb.embedding_model.texts == ["a"]

    async def test_known_vectors_are_not_embedded_again(self, memory: VectorStoreBase) -> None:
        """Replacing a document with one changed chunk embeds that chunk only."""
        kb = base(memory)
        await kb.insert_document(chunks("one", "two", "three"), "d")
        known = await kb.known_vectors(["d"])

        report = await kb.replace_documents(
            [Document(document_id="d", chunks=chunks("one", "2", "three", "one"))], known_vectors=known
        )

        assert (report.chunk_count, report.embedded, report.replaced_chunks) == (4, 1, 3)

    async def test_title_and_headings_are_searchable(self, memory: VectorStoreBase) -> None:
        """The document's title and the headings above a chunk are indexed with it, and not shown in its text."""
        kb = base(memory)
        await kb.insert_document(chunks("thirty days", heading_path=["Holidays"]), "d", title="Leave policy", uri="x:1")

        (hit,) = await kb.search("leave holidays", mode="keyword")
        (summary,) = await kb.list_documents()

        assert hit.chunk.text == "thirty days"
        assert (hit.chunk.title, hit.chunk.uri) == ("Leave policy", "x:1")
        assert (summary.title, summary.uri) == ("Leave policy", "x:1")

    async def test_metadata_precedence(self, memory: VectorStoreBase) -> None:
        """The scope wins over the chunk, the chunk over the document."""
        kb = base(memory, metadata_filter={"a": "scope"})
        await kb.insert_document(
            chunks("t", metadata={"a": "chunk", "b": "chunk"}), "d", {"a": "doc", "b": "doc", "c": "doc"}
        )

        (hit,) = await kb.search("t")

        assert hit.chunk.metadata == {"a": "scope", "b": "chunk", "c": "doc"}

    async def test_arguments_are_not_changed(self, memory: VectorStoreBase) -> None:
        """The caller's chunks stay as they were."""
        kb = base(memory, metadata_filter={"t": 1})
        given = chunks("text", metadata={"k": [1]})
        before = [chunk.model_copy(deep=True) for chunk in given]

        await kb.insert_document(given, "d")

        assert given == before

    async def test_repeated_ids_in_one_request_are_refused(self, memory: VectorStoreBase) -> None:
        """Two documents of one id, or two equal ids to delete, are a ValueError before anything happens."""
        kb = base(memory)
        document = Document(document_id="d", chunks=chunks("a"))

        with pytest.raises(ValueError, match="'d' occurs twice"):
            await kb.replace_documents([document, document])
        with pytest.raises(ValueError, match="'d' occurs twice"):
            await kb.delete_documents(["d", "d"])

    async def test_fetch_keeps_order_and_omits_missing(self, memory: VectorStoreBase) -> None:
        """Exact chunks come in the caller's order; ids of another scope are missing."""
        kb, other = base(memory, metadata_filter={"t": "a"}), base(memory, metadata_filter={"t": "b"})
        await kb.insert_document(chunks("zero", "one", "two"), "m")

        assert [chunk.text for chunk in await kb.fetch(["m:2", "m:9", "m:0"])] == ["two", "zero"]
        assert await other.fetch(["m:0"]) == []
        with pytest.raises(ValueError, match="<document_id>:<index>"):
            await kb.fetch(["nonsense"])

    async def test_scope_may_be_resolved_per_operation(self, memory: VectorStoreBase) -> None:
        """A callable scope is asked at each operation."""
        current = {"tenant": "a"}
        kb = base(memory, metadata_filter=lambda: current)
        await kb.insert_document(chunks("for a"), "d")

        current = {"tenant": "b"}
        assert await kb.search("for") == []
        assert await kb.count() == 0
        current = {"tenant": "a"}
        assert await kb.count() == 1

    async def test_text_is_no_chunk(self, memory: VectorStoreBase) -> None:
        """The message says what makes chunks; nothing is written."""
        for wrong in ("some text", ["some text"], 3):
            with pytest.raises(ConfigurationError, match=r"made of chunks, got a (str|int); make them with a parser"):
                await base(memory).insert_document(wrong)  # type: ignore[arg-type]

        assert await base(memory).list_documents() == []

    async def test_delete_by_filter_stays_in_scope(self, memory: VectorStoreBase) -> None:
        """Documents whose metadata matches go, those of another scope stay; the event counts chunks."""
        events: list[Event] = []
        mine, theirs = (base(memory, metadata_filter={"t": t}, on_event=events.append) for t in "ab")
        for kb in (mine, theirs):
            await kb.insert_document(chunks("x", "z"), "old", {"year": 2020})
            await kb.insert_document(chunks("y"), "new", {"year": 2024})

        assert await mine.delete_by_filter(F("year") < 2022) == ["old"]
        assert isinstance(events[-1], DocumentsDeleted)
        assert (events[-1].document_ids, events[-1].chunk_count) == (("old",), 2)
        assert [summary.document_id for summary in await mine.list_documents()] == ["new"]
        assert [summary.document_id for summary in await theirs.list_documents()] == ["new", "old"]

    async def test_hits_of_a_store_that_breaks_its_promises_are_vetted(self) -> None:
        """A store that ignores the filter cannot leak another tenant's text."""

        class Leaky(SevenMethodStore):
            async def search(
                self, collection: str, query_vector: Any, top_k: int = 5, metadata_filter: Any = None
            ) -> Any:
                return await super().search(collection, query_vector, top_k, None)

        async with Leaky() as store:
            mine, theirs = (base(store, metadata_filter={"t": t}) for t in "ab")
            await mine.insert_document(chunks("secret"), "d")
            await theirs.insert_document(chunks("public"), "d")

            assert [hit.chunk.text for hit in await theirs.search("secret", top_k=10)] == ["public"]

    async def test_a_failing_store_is_a_store_error(self) -> None:
        """Using a store outside its block is an error of ours."""
        kb = base(MemoryStore())

        with pytest.raises(StoreError):
            await kb.insert_document(chunks("a"), "d")


class TestMistakes:
    """What a newcomer gets wrong is a clear error before anything happens."""

    @pytest.mark.parametrize("scope", [None, {}])
    async def test_a_scope_function_that_gives_nothing_opens_nothing(self, memory: VectorStoreBase, scope: Any) -> None:
        """A forgotten return is refused, for reads and writes, so that it cannot show every tenant's documents."""
        await base(memory, metadata_filter={"t": "a"}).insert_document(chunks("secret"), "d")
        careless = base(memory, metadata_filter=lambda: scope)

        for operation in (careless.search("secret"), careless.list_documents(), careless.delete_document("d")):
            with pytest.raises(ConfigurationError, match="scope function of 'kb' gave"):
                await operation

    async def test_a_single_id_is_not_a_list_of_letters(self, memory: VectorStoreBase) -> None:
        """delete_documents("ab") deletes neither "a" nor "b"."""
        kb = base(memory)
        await kb.insert_document(chunks("text"), "a")

        with pytest.raises(ConfigurationError, match="pass a list of ids"):
            await kb.delete_documents("ab")
        with pytest.raises(ConfigurationError, match="pass a list of ids"):
            await kb.fetch("a:0")
        assert len(await kb.list_documents()) == 1

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"queries": "x", "top_k": "5"}, "top_k is '5'"),
            ({"queries": "x", "top_k": True}, "top_k is True"),
            ({"queries": "x", "score_threshold": float("nan")}, "score_threshold is nan"),
            ({"queries": [5]}, "a query is text"),
            ({"queries": "x", "mode": "magic"}, "use hybrid, semantic or keyword"),
        ],
    )
    async def test_wrong_arguments_of_search(
        self, memory: VectorStoreBase, arguments: dict[str, Any], message: str
    ) -> None:
        """The error names the argument and its value."""
        with pytest.raises(ConfigurationError, match=message):
            await base(memory).search(**arguments)

    async def test_lone_surrogates_are_cleaned(self, memory: VectorStoreBase) -> None:
        """A cut-off emoji in a query or a chunk is left out, not an error. (S09)"""
        kb = base(memory)
        await kb.insert_document(chunks("gate\ud800way \x00timeout"), "d")

        (hit,) = await kb.search("gate\ud800way")

        assert hit.chunk.text == "gateway timeout"

    @pytest.mark.parametrize("model", ["nomodel", object()])
    def test_something_that_is_no_model(self, model: Any) -> None:
        """A wrong embedding model is refused when the handle is made."""
        with pytest.raises(ConfigurationError, match="needs `dimensions` and an awaitable call"):
            base(MemoryStore(), embedding_model=model)
