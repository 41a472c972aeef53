"""Level "keyword": BM25 as in Lucene over the shared tokeniser, compared with a naive computation here."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

import pytest

from ...content import Base64Source, DataBlock
from ...documents import ChunkKey, VectorRecord, VectorSearchResult
from ...filters import F
from ...retrieval.analysis import FIELDS, GRAMS, index_tokens, query_weights
from ...retrieval.lexical import tokenize
from ...stores.base import RetrieveRequest
from ...stores.native import NativeStoreBase
from ..records import document, record
from .base import EAST, StoreFixtures, assert_same_hits, ids
from .records import PIXEL
from .retrieve import Recorder

WORDS = """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon
    phi chi psi omega running runs runner ran naïve straße Привет мир 数据库 検索 검색 2024 v2 α42""".split()  # noqa: SIM905


def naive_bm25(texts: Mapping[ChunkKey, str], query: str) -> list[tuple[ChunkKey, float]]:
    """(key, score > 0) of all matching texts, best first, ties by key; k1 = 1.2, b = 0.75, Lucene's idf."""
    return _bm25({key: tokenize(text) for key, text in texts.items()}, Counter(tokenize(query)))


def _bm25(texts: Mapping[ChunkKey, list[str]], query: Mapping[str, float]) -> list[tuple[ChunkKey, float]]:
    counted = {key: Counter(tokens) for key, tokens in texts.items()}
    counted = {key: tokens for key, tokens in counted.items() if tokens}
    lengths = {key: sum(tokens.values()) for key, tokens in counted.items()}
    scores: dict[ChunkKey, float] = {}
    for term, weight in query.items():
        having = [key for key, tokens in counted.items() if term in tokens]
        idf = math.log(1 + (len(counted) - len(having) + 0.5) / (len(having) + 0.5))
        for key in having:
            frequency = counted[key][term]
            norm = 1.2 * (0.25 + 0.75 * lengths[key] * len(counted) / sum(lengths.values()))
            scores[key] = scores.get(key, 0.0) + weight * idf * frequency / (frequency + norm)
    return sorted(((key, score) for key, score in scores.items() if score > 0), key=lambda hit: (-hit[1], hit[0]))


def random_texts(rng: random.Random, count: int) -> list[str]:
    """Texts of 1 to 40 words of a skewed vocabulary."""
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    return [" ".join(rng.choices(WORDS, weights, k=rng.randint(1, 40))) for _ in range(count)]


class StoreKeyword(StoreFixtures):
    """Keyword search through `retrieve`."""

    level: ClassVar[tuple[str, ...]] = ("native", "keyword_search")

    async def assert_bm25(
        self, store: NativeStoreBase, collection: str, records: list[VectorRecord], rng: random.Random
    ) -> None:
        """Random queries give the scores and the order of the naive computation over `records`."""
        texts = {item.key: item.chunk.indexed_text for item in records}
        for _ in range(20):
            query = " ".join(rng.sample(WORDS, rng.randint(1, 4)))
            found = await self.keyword(store, collection, query, limit=30)
            actual = [(hit.key, hit.score) for hit in found]
            assert_same_hits(actual, naive_bm25(texts, query)[:30], tolerance=self.keyword_tolerance)

    async def test_scores_are_bm25(self, store: NativeStoreBase, collection: str) -> None:
        """The sum over the query's tokens of idf * tf / (tf + k1 (1 - b + b length / average)), best first."""
        rng = random.Random(1)
        records = [record(f"d{n:03}", text=text) for n, text in enumerate(random_texts(rng, 150))]
        await self.fill(store, collection, records)

        await self.assert_bm25(store, collection, records, rng)

    async def test_a_score_worked_by_hand(self, store: NativeStoreBase, collection: str) -> None:
        """Two chunks of 1 and 3 tokens, one query token that is in both.

        N = 2, df = 2: idf = ln(1 + .5 / 2.5) = .18232; average length 2. For a (tf 1, length 1):
        1 / (1 + 1.2 (.25 + .75 * .5)) = .57143. For b (tf 2, length 3): 2 / (2 + 1.2 (.25 + .75 * 1.5)) = .54795.
        """
        await self.fill(store, collection, [record("a", text="pear"), record("b", text="pear pear plum")])

        hits = await self.keyword(store, collection, "pears")

        assert ids(hits) == ["a:0", "b:0"]
        assert [hit.score for hit in hits] == pytest.approx([0.10418, 0.09990], rel=1e-4)
        assert [hit.signals.keyword for hit in hits] == [hit.score for hit in hits]

    async def test_fields_have_their_weights(self, store: NativeStoreBase, collection: str) -> None:
        """Titles, pairs and parts of words are tokens of the same bag; a query weighs them by their field."""
        rng = random.Random(5)
        titles = random_texts(rng, 12)
        records = [
            record(f"d{n:03}", text=text, title=titles[n % 12], analysis=GRAMS)
            for n, text in enumerate(random_texts(rng, 60))
        ]
        await self.fill(store, collection, records)

        bags = {item.key: index_tokens(item.chunk) for item in records}
        for _ in range(10):
            query = " ".join(rng.sample(WORDS, rng.randint(1, 4)))
            found = await self.keyword(store, collection, query, limit=30)
            assert_same_hits(
                [(hit.key, hit.score) for hit in found],
                _bm25(bags, query_weights(query))[:30],
                tolerance=self.keyword_tolerance,
            )

    async def test_a_word_with_another_ending_is_found_by_its_parts(
        self, store: NativeStoreBase, collection: str
    ) -> None:
        """Where the chunks have the field; `grams=False` does not ask for it."""
        await self.fill(
            store,
            collection,
            [record("de", text="Wasserpumpen", analysis=GRAMS), record("plain", text="Ventile", analysis=FIELDS)],
        )

        found = [
            await store.retrieve(collection, RetrieveRequest(texts=["Wasserpumpe"], grams=grams))
            for grams in (True, False)
        ]
        wrong = await store.retrieve(collection, RetrieveRequest(texts=["Wasserpumqen"]))

        assert [ids(hits) for hits in found] == [["de:0"], []]
        assert ids(wrong) == ["de:0"]

    async def test_says_how_much_of_a_query_the_collection_has(self, store: NativeStoreBase, collection: str) -> None:
        """By idf; a word that no chunk has counts as the rarest.

        N = 2. pear, in both: ln(1 + .5 / 2.5) = .18232; kiwi, in none, as if in one: ln(1 + 1.5 / 1.5) = .69315.
        """
        await self.fill(store, collection, [record("a", text="pear plum"), record("b", text="pear fig")])
        seen: list[float] = []

        await store.retrieve(collection, RetrieveRequest(texts=["pears kiwi pear", "kiwi", "plum", "?"], seen=seen))

        assert seen == pytest.approx([0.18232 / (0.18232 + 0.69315), 0.0, 1.0, 1.0], abs=1e-4)

    async def test_words_are_counted_for_corrections(self, store: NativeStoreBase, collection: str) -> None:
        """How many live chunks have each token; a store that cannot tell quickly says None."""
        records = [record(name, text=text) for name, text in (("a", "pear plum"), ("b", "pear"), ("c", "pear fig"))]
        await self.fill(store, collection, records)
        await store.delete(collection, "c")
        await self.settle(store, collection)

        counted = await store.word_counts(collection, ["pear", "plum", "fig", "absent"])

        assert counted in ({"pear": 2, "plum": 1}, None)
        request = RetrieveRequest(texts=["peer"], corrections={"peer": "pear"})
        assert ids(await store.retrieve(collection, request)) == ["b:0", "a:0"]

    async def test_names_in_code_are_found_by_their_words(self, store: NativeStoreBase, collection: str) -> None:
        """camelCase and snake_case find each other, and words find both."""
        records = [record("camel", text="parseHttpHeader"), record("snake", text="parse_http_header")]
        await self.fill(store, collection, [*records, record("other", text="render page")])

        for query in ("parse http header", "parseHttpHeader", "parse_http_header"):
            hits = await self.keyword(store, collection, query)
            assert {hit.key.document_id for hit in hits} == {"camel", "snake"}, query

    async def test_statistics_are_live_after_deleting(self, store: NativeStoreBase, collection: str) -> None:
        """Deleted chunks count neither in document frequencies nor in the average length."""
        rng = random.Random(2)
        records = [record(f"d{n:03}", text=text) for n, text in enumerate(random_texts(rng, 120))]
        await self.fill(store, collection, records)

        for number in range(0, 120, 5):
            await store.delete(collection, f"d{number:03}")
        await self.settle(store, collection)

        await self.assert_bm25(store, collection, [item for n, item in enumerate(records) if n % 5], rng)

    async def test_statistics_are_live_after_overwriting(self, store: NativeStoreBase, collection: str) -> None:
        """An overwritten text counts no more."""
        rng = random.Random(3)
        records = [record(f"d{n:03}", text=text) for n, text in enumerate(random_texts(rng, 60))]
        changed = [record(f"d{n:03}", text=text) for n, text in enumerate(random_texts(rng, 30))]
        await self.fill(store, collection, records)

        await store.insert(collection, changed)
        await self.settle(store, collection)

        await self.assert_bm25(store, collection, [*changed, *records[30:]], rng)

    async def test_statistics_are_live_after_replacing(self, store: NativeStoreBase, collection: str) -> None:
        """What `replace` removed counts no more, with more and with fewer chunks than before."""
        rng = random.Random(4)
        texts = random_texts(rng, 120)
        records = [record(f"d{n % 12}", n // 12, text) for n, text in enumerate(texts)]
        await self.fill(store, collection, records)
        fresh = random_texts(rng, 40)
        changed = [record("d0", n, text) for n, text in enumerate(fresh[:38])]
        changed += [record("d1", n, text) for n, text in enumerate(fresh[38:])]

        await store.replace(collection, [document("d0"), document("d1")], changed)
        await self.settle(store, collection)

        left = [item for item in records if item.document_id not in ("d0", "d1")]
        await self.assert_bm25(store, collection, [*changed, *left], rng)

    async def test_chunks_without_words_are_no_documents(self, store: NativeStoreBase, collection: str) -> None:
        """A chunk without any token counts neither in the number of documents nor in the average length."""
        records = [record(f"d{n}", text=text) for n, text in enumerate(("pear plum", "pear", "...", "!?", "plum fig"))]
        await self.fill(store, collection, records)

        found = await self.keyword(store, collection, "plum")

        expected = naive_bm25({item.key: item.chunk.text for item in records}, "plum")
        assert_same_hits([(hit.key, hit.score) for hit in found], expected, tolerance=self.keyword_tolerance)

    async def test_filters_and_scopes_do_not_change_the_scores(self, store: NativeStoreBase, collection: str) -> None:
        """Statistics are those of the collection, so a chunk scores the same for every reader."""
        records = [record(f"d{n}", text="pear " * (1 + n % 3) + "plum", metadata={"n": n % 2}) for n in range(10)]
        await self.fill(store, collection, records)

        everything = {hit.key: hit.score for hit in await self.keyword(store, collection, "pear")}
        filtered = await self.keyword(store, collection, "pear", metadata_filter={"n": 1})

        assert len(filtered) == 5
        assert [hit.score for hit in filtered] == pytest.approx([everything[hit.key] for hit in filtered], rel=1e-6)

    async def test_only_matches_are_returned(self, store: NativeStoreBase, collection: str) -> None:
        """No hit pads the result: none without a query token, none that fails the filter, none with score 0."""
        records = [record(f"d{n}", text="pear" if n < 3 else "plum", metadata={"n": n}) for n in range(5)]
        await self.fill(store, collection, records)

        hits = await self.keyword(store, collection, "pear", limit=4)
        filtered = await self.keyword(store, collection, "pear", limit=4, metadata_filter=F("n").in_([1, 2, 4]))

        assert ids(hits) == ["d0:0", "d1:0", "d2:0"]
        assert ids(filtered) == ["d1:0", "d2:0"]
        assert all(hit.score > 0 for hit in (*hits, *filtered))
        assert await self.keyword(store, collection, "absent") == []

    async def test_equal_scores_are_ordered_by_document(self, store: NativeStoreBase, collection: str) -> None:
        """Also where `limit` cuts them."""
        await self.fill(store, collection, [record(f"d{n:02}", text="pear") for n in reversed(range(30))])

        assert ids(await self.keyword(store, collection, "pear", limit=3)) == ["d00:0", "d01:0", "d02:0"]
        assert ids(await self.keyword(store, collection, "pear")) == [f"d{n:02}:0" for n in range(30)]

    async def test_queries_without_words_find_nothing(self, store: NativeStoreBase, collection: str) -> None:
        """Blank text and punctuation are no error; a query is cleaned as texts are."""
        await self.fill(store, collection, [record("a", text="pear and plum")])

        assert [await self.keyword(store, collection, text) for text in ("", "   ", "?!", "\x00")] == [[], [], [], []]
        assert ids(await self.keyword(store, collection, "pe\x00ar \ud800")) == ["a:0"]

    async def test_stop_words_count_only_where_nothing_else_does(self, store: NativeStoreBase, collection: str) -> None:
        """A text of stop words only is found by its words; in other texts and queries they do not count."""
        await self.fill(
            store, collection, [record("hamlet", text="To be or not to be"), record("pear", text="to the pear")]
        )

        assert ids(await self.keyword(store, collection, "to be or not to be")) == ["hamlet:0"]
        assert ids(await self.keyword(store, collection, "what is the pear")) == ["pear:0"]

    async def test_a_token_twice_in_the_query_counts_twice(self, store: NativeStoreBase, collection: str) -> None:
        """As in Lucene and bm25s."""
        await self.fill(store, collection, [record("a", text="pear plum"), record("b", text="plum fig")])

        (once,) = await self.keyword(store, collection, "pear")
        (twice,) = await self.keyword(store, collection, "pear pear")

        assert twice.score == pytest.approx(2 * once.score, rel=1e-6)

    async def test_chinese_japanese_and_korean_are_found(self, store: NativeStoreBase, collection: str) -> None:
        """By single characters and pairs, within a sentence without spaces."""
        texts = {
            "zh": "知识库支持向量检索和关键词检索。",
            "ja": "データベースを検索します",
            "ko": "지식 베이스를 검색합니다",
            "en": "search",
        }
        await self.fill(store, collection, [record(name, text=text) for name, text in texts.items()])

        first = [
            (await self.keyword(store, collection, text))[0].document_id for text in ("向量检索", "データ", "베이스")
        ]

        assert first == ["zh", "ja", "ko"]

    async def test_the_indexed_text_is_searched(self, store: NativeStoreBase, collection: str) -> None:
        """Title and headings count as text, `embed_text` stands in for all, and a caption makes an image found."""
        image = DataBlock(source=Base64Source(data=PIXEL, media_type="image/png"), caption="wiring diagram")
        records = [
            record("titled", text="body", title="Handbook", heading_path=["Returns"]),
            record("other", text="visible", embed_text="hidden words"),
            record("image", 0, image),
        ]
        await self.fill(store, collection, records)

        found = {
            text: ids(await self.keyword(store, collection, text))
            for text in ("handbook", "returns", "hidden", "visible", "wiring diagrams")
        }

        assert found == {
            "handbook": ["titled:0"],
            "returns": ["titled:0"],
            "hidden": ["other:0"],
            "visible": [],
            "wiring diagrams": ["image:0"],
        }

    async def test_dirty_text_is_searchable(self, store: NativeStoreBase, collection: str) -> None:
        """A NUL inside a word is dropped before the text is indexed."""
        await self.fill(store, collection, [record("nul", text="o\x00er"), record("lone", text="plum \ud800 fig")])

        assert ids(await self.keyword(store, collection, "oer")) == ["nul:0"]
        assert ids(await self.keyword(store, collection, "figs")) == ["lone:0"]

    async def test_several_texts_are_several_lists(self, store: NativeStoreBase, collection: str) -> None:
        """`rank` gets one keyword list per text."""
        await self.fill(store, collection, [record("a", text="pear"), record("b", text="plum")])
        rank = Recorder()

        await store.retrieve(collection, RetrieveRequest(texts=["plum", "pear", "fig"], rank=rank))

        assert [[hit.key.document_id for hit in ranking] for ranking in rank.keyword] == [["b"], ["a"], []]

    async def test_keyword_works_without_vectors(self, store: NativeStoreBase, collection: str) -> None:
        """A collection of 0 dimensions has keyword search."""
        await self.fill(
            store, collection, [record("a", text="pear", vector=()), record("b", text="plum", vector=())], dimensions=0
        )

        assert ids(await self.keyword(store, collection, "plum")) == ["b:0"]

    async def test_a_missing_term_does_not_hide_the_others(self, store: NativeStoreBase, collection: str) -> None:
        """A question finds what shares any word with it, unlike an AND of all words."""
        await self.fill(store, collection, [record("a", text="The gateway times out after 30 seconds"), record("b")])

        hits: list[VectorSearchResult] = await self.keyword(store, collection, "What is the gateway timeout, please?")

        assert ids(hits) == ["a:0"]
        assert await store.search(collection, list(EAST), 1) != []
