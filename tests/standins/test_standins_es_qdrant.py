"""The Qdrant and Elasticsearch stand-ins answer their official clients as the documentation says.

Expected answers come from three places, named at each test: the examples that the vendors publish (the
Elasticsearch reference and elastic/elasticsearch-specification; the Qdrant documentation), formulas of the
documentation worked by hand in a comment, and the documented error shapes.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from elasticsearch import ApiError, AsyncElasticsearch, BadRequestError, ConflictError, NotFoundError
from elasticsearch import ConnectionTimeout as EsTimeout
from elasticsearch.helpers import BulkIndexError, async_bulk
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as q
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from .elasticsearch_server import ElasticsearchServer
from .qdrant_server import QdrantServer

pytestmark = pytest.mark.asyncio


@pytest.fixture
def es_server() -> Iterator[ElasticsearchServer]:
    with ElasticsearchServer() as server:
        yield server


@pytest.fixture
async def es(es_server: ElasticsearchServer) -> AsyncIterator[AsyncElasticsearch]:
    async with AsyncElasticsearch(es_server.url, max_retries=0) as client:
        yield client


@pytest.fixture
def qdrant_server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


@pytest.fixture
async def qdrant(qdrant_server: QdrantServer) -> AsyncIterator[AsyncQdrantClient]:
    # The check runs in a thread of the client and warns when the test has stopped the server before it.
    client = AsyncQdrantClient(url=qdrant_server.url, check_compatibility=False)
    yield client
    await client.close()


Docs = dict[str, dict[str, Any]]


def ids(answer: Any) -> list[str]:
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def scores(answer: Any) -> list[float]:
    return [hit["_score"] for hit in answer["hits"]["hits"]]


async def fill(es: AsyncElasticsearch, index: str, docs: Docs, **mapping: Any) -> None:
    if mapping:
        await es.indices.create(index=index, mappings={"properties": mapping})
    operations = [line for key, doc in docs.items() for line in ({"index": {"_id": key}}, doc)]
    answer = await es.bulk(index=index, operations=operations, refresh=True)
    assert not answer["errors"], answer["items"]


async def refused(call: Any, status: int, kind: str, *, within: str = "") -> None:
    """The call fails with this status, root cause type and part of the reason."""
    with pytest.raises(ApiError) as caught:
        await call

    assert caught.value.status_code == status
    cause = caught.value.body["error"]["root_cause"][0]
    assert (cause["type"], within in cause["reason"]) == (kind, True), cause


# -- Elasticsearch: published examples -------------------------------------------------------------


async def test_es_sum_aggregation_example(es: AsyncElasticsearch) -> None:
    """The published example of the sum aggregation: the prices of all hats."""
    prices = [
        ("hat", 200),
        ("t-shirt", 200),
        ("bag", 150),
        ("hat", 50),
        ("t-shirt", 10),
        ("hat", 200),
        ("t-shirt", 175),
    ]
    properties = {"type": {"type": "keyword"}, "price": {"type": "long"}}
    await es.indices.create(index="sales", mappings={"properties": properties})
    for kind, price in prices:
        await es.index(index="sales", document={"type": kind, "price": price}, refresh=True)

    answer = await es.search(
        index="sales",
        size=0,
        query={"constant_score": {"filter": {"match": {"type": "hat"}}}},
        aggs={"hat_prices": {"sum": {"field": "price"}}, "none": {"sum": {"field": "discount"}}},
    )

    assert answer["aggregations"] == {"hat_prices": {"value": 450.0}, "none": {"value": 0.0}}


async def test_bulk_answers_as_the_reference_shows(es: AsyncElasticsearch) -> None:
    """Bulk API reference: index, delete of a missing id, create, update; their statuses and versions."""
    answer = await es.bulk(
        operations=[
            {"index": {"_index": "test", "_id": "1"}},
            {"field1": "value1"},
            {"delete": {"_index": "test", "_id": "2"}},
            {"create": {"_index": "test", "_id": "3"}},
            {"field1": "value3"},
            {"update": {"_id": "1", "_index": "test"}},
            {"doc": {"field2": "value2"}},
        ]
    )

    shown = [
        (kind, item["_id"], item["_version"], item["result"], item["status"], item["_seq_no"])
        for entry in answer["items"]
        for kind, item in entry.items()
    ]
    assert answer["errors"] is False
    assert shown == [
        ("index", "1", 1, "created", 201, 0),
        ("delete", "2", 1, "not_found", 404, 1),
        ("create", "3", 1, "created", 201, 2),
        ("update", "1", 2, "updated", 200, 3),
    ]
    assert (await es.get(index="test", id="1"))["_source"] == {"field1": "value1", "field2": "value2"}


async def test_bulk_reports_failed_items_beside_good_ones(es: AsyncElasticsearch) -> None:
    """Bulk API reference, failed actions: updates of missing documents are 404 items."""
    operations: list[dict[str, Any]] = [
        {"update": {"_id": "5", "_index": "index1"}},
        {"doc": {"my_field": "foo"}},
        {"update": {"_id": "6", "_index": "index1"}},
        {"doc": {"my_field": "foo"}},
        {"create": {"_id": "7", "_index": "index1"}},
        {"my_field": "foo"},
    ]
    answer = await es.bulk(operations=operations)
    only_errors = await es.bulk(operations=operations[:4], filter_path="items.*.error.type")

    first, _, third = answer["items"]
    assert answer["errors"] is True
    assert first["update"]["status"] == 404
    assert first["update"]["error"]["type"] == "document_missing_exception"
    assert first["update"]["error"]["reason"] == "[5]: document missing"
    assert (third["create"]["status"], third["create"]["result"]) == (201, "created")
    missing = {"update": {"error": {"type": "document_missing_exception"}}}
    assert only_errors.body == {"items": [missing, missing]}


async def test_knn_search_of_the_reference(es: AsyncElasticsearch) -> None:
    """kNN search guide: l2_norm over three images; score = 1 / (1 + d^2).

    Query (-5, 9, -12): d^2 to (1, 5, -20) is 36+16+64 = 116, to (42, 8, -15) 2209+1+9 = 2219,
    to (15, 11, 23) 400+4+1225 = 1629.
    """
    vector = {"type": "dense_vector", "dims": 3, "index": True, "similarity": "l2_norm"}
    docs: Docs = {
        "1": {"image-vector": [1, 5, -20], "title": "moose family", "file-type": "jpg"},
        "2": {"image-vector": [42, 8, -15], "title": "alpine lake", "file-type": "png"},
        "3": {"image-vector": [15, 11, 23], "title": "full moon", "file-type": "jpg"},
    }
    types: Docs = {"image-vector": vector, "title": {"type": "text"}, "file-type": {"type": "keyword"}}
    await fill(es, "image-index", docs, **types)

    knn = {"field": "image-vector", "query_vector": [-5, 9, -12], "k": 10, "num_candidates": 100}
    plain = await es.search(index="image-index", knn=knn, fields=[{"field": "title"}, {"field": "file-type"}])
    near = {"field": "image-vector", "query_vector": [54, 10, -2], "k": 5, "num_candidates": 50}
    png = {**near, "filter": {"term": {"file-type": "png"}}}
    filtered = await es.search(index="image-index", knn=png, fields=[{"field": "title"}], source=False)

    assert ids(plain) == ["1", "3", "2"]
    assert scores(plain) == pytest.approx([1 / 117, 1 / 1630, 1 / 2220], rel=1e-6)
    assert plain["hits"]["hits"][0]["fields"] == {"title": ["moose family"], "file-type": ["jpg"]}
    expected = {
        "_index": "image-index",
        "_id": "2",
        "_score": scores(filtered)[0],
        "fields": {"title": ["alpine lake"]},
    }
    assert filtered["hits"]["hits"] == [expected]


async def test_hybrid_search_adds_the_boosted_scores(es: AsyncElasticsearch) -> None:
    """kNN search guide: score = 0.9 * match_score + 0.1 * knn_score, a disjunction of both."""
    vector = {"type": "dense_vector", "dims": 2, "similarity": "l2_norm"}
    docs: Docs = {
        "1": {"v": [0, 0], "title": "mountain lake"},
        "2": {"v": [9, 9], "title": "mountain"},
        "3": {"v": [1, 0], "title": "moon"},
    }
    await fill(es, "both", docs, v=vector, title={"type": "text"})

    match = {"match": {"title": {"query": "mountain lake", "boost": 0.9}}}
    knn = {"field": "v", "query_vector": [0, 0], "k": 2, "num_candidates": 10, "boost": 0.1}
    text = await es.search(index="both", query={"match": {"title": "mountain lake"}})
    both = await es.search(index="both", query=match, knn=knn)

    alone = dict(zip(ids(text), scores(text), strict=True))
    expected = {"1": 0.9 * alone["1"] + 0.1 * 1.0, "2": 0.9 * alone["2"], "3": 0.1 * 0.5}
    assert dict(zip(ids(both), scores(both), strict=True)) == pytest.approx(expected, rel=1e-6)
    assert both["hits"]["total"] == {"value": 3, "relation": "eq"}


async def test_bm25_gives_the_score_of_the_published_explanation(es: AsyncElasticsearch) -> None:
    """elasticsearch-specification, ExplainResponseExample1: 1.6943598 = 2.2 * 1.3862944 * 0.5555556.

    N=5 documents, n=1 with the term, freq=1, dl=3, avgdl=5.4 (27 tokens): lengths 3, 6, 6, 6, 6.
    """
    docs: Docs = {"0": {"message": "trying out elasticsearch"}}
    docs |= {str(i): {"message": "a b c d e f"} for i in range(1, 5)}
    await fill(es, "my-index-000001", docs, message={"type": "text", "analyzer": "whitespace"})

    answer = await es.search(index="my-index-000001", query={"match": {"message": "elasticsearch"}})

    assert ids(answer) == ["0"]
    assert scores(answer) == [pytest.approx(1.6943598, abs=2e-7)]


async def test_keyword_term_scores_with_the_idf_alone(es: AsyncElasticsearch) -> None:
    """A published search example scores a term query 1.3862942: ln(1 + 4.5 / 1.5) for 1 of 5 documents."""
    docs: Docs = {str(i): {"user": "kimchy" if i == 0 else f"u{i}"} for i in range(5)}
    await fill(es, "users", docs, user={"type": "keyword"})

    answer = await es.search(index="users", query={"term": {"user": "kimchy"}})

    assert scores(answer) == [pytest.approx(math.log(4), abs=3e-7)]


async def test_composite_aggregation_of_the_reference_pages_with_after_key(es: AsyncElasticsearch) -> None:
    """Composite aggregation reference: the `sales` documents, here by their `product`."""
    sales = [
        ("mad max", "20"),
        ("mad max", "25"),
        ("rocky", "10"),
        ("mad max", "27"),
        ("apocalypse now", "10"),
    ]
    docs: Docs = {str(i): {"product": product, "price": price} for i, (product, price) in enumerate(sales)}
    await fill(es, "sales", docs, product={"type": "keyword"}, price={"type": "long"})

    def aggs(after: dict[str, str] | None) -> dict[str, Any]:
        sources = [{"product": {"terms": {"field": "product"}}}]
        top = {"top_hits": {"size": 1, "_source": ["price"], "sort": [{"price": "desc"}]}}
        composite = {"size": 2, "sources": sources, **({"after": after} if after else {})}
        return {"my_buckets": {"composite": composite, "aggs": {"dearest": top}}}

    first = (await es.search(index="sales", size=0, aggs=aggs(None)))["aggregations"]["my_buckets"]
    second = (await es.search(index="sales", size=0, aggs=aggs(first["after_key"])))["aggregations"]["my_buckets"]
    third = (await es.search(index="sales", size=0, aggs=aggs(second["after_key"])))["aggregations"]["my_buckets"]

    assert [(b["key"]["product"], b["doc_count"]) for b in first["buckets"]] == [
        ("apocalypse now", 1),
        ("mad max", 3),
    ]
    assert first["after_key"] == {"product": "mad max"}
    assert [(b["key"]["product"], b["doc_count"]) for b in second["buckets"]] == [("rocky", 1)]
    assert third == {"buckets": []}
    dearest = first["buckets"][1]["dearest"]["hits"]
    assert (dearest["total"]["value"], dearest["hits"][0]["_source"]) == (3, {"price": "27"})


async def test_vectors_are_left_out_of_the_source_since_9_2(es: AsyncElasticsearch) -> None:
    """Dense vector reference: `fields` and `_source.exclude_vectors: false` return them."""
    await fill(
        es,
        "my-index-2",
        {"1": {"my_vector": [0.5, 10, 6], "t": 1}},
        my_vector={"type": "dense_vector", "dims": 3},
    )

    plain = await es.search(index="my-index-2")
    flagged = await es.search(index="my-index-2", source={"exclude_vectors": False})
    fields = await es.search(index="my-index-2", fields=[{"field": "my_vector"}], source=False)
    got = await es.get(index="my-index-2", id="1", source_exclude_vectors=False)

    assert plain["hits"]["hits"][0]["_source"] == {"t": 1}
    assert flagged["hits"]["hits"][0]["_source"] == got["_source"] == {"my_vector": [0.5, 10, 6], "t": 1}
    assert fields["hits"]["hits"][0]["fields"] == {"my_vector": [0.5, 10.0, 6.0]}


async def test_vectors_stay_in_the_source_where_the_setting_or_version_says_so(
    es: AsyncElasticsearch,
) -> None:
    settings = {"index.mapping.exclude_source_vectors": False}
    mappings = {"properties": {"v": {"type": "dense_vector", "dims": 2}}}
    await es.indices.create(index="kept", settings=settings, mappings=mappings)
    await es.index(index="kept", id="1", document={"v": [1, 0]}, refresh=True)

    with ElasticsearchServer(version="9.1.0") as older:
        async with AsyncElasticsearch(older.url) as client:
            await client.indices.create(index="kept", mappings=mappings)
            await client.index(index="kept", id="1", document={"v": [1, 0]}, refresh=True)
            old = await client.search(index="kept")
            await refused(client.search(index="kept", source={"exclude_vectors": False}), 400, "parsing_exception")

    assert (await es.search(index="kept"))["hits"]["hits"][0]["_source"] == {"v": [1, 0]}
    assert old["hits"]["hits"][0]["_source"] == {"v": [1, 0]}


# -- Elasticsearch: scores by hand -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("similarity", "stored", "query", "expected"),
    [
        # cosine of (3, 4) and (4, 3) is 24/25: (1 + 0.96) / 2
        ("cosine", [[3, 4], [-3, -4]], [3, 4], [1.0, 0.0]),
        ("cosine", [[4, 3], [-4, 3]], [3, 4], [0.98, 0.5]),
        # 0.6 * 0.8 + 0.8 * 0.6 = 0.96
        ("dot_product", [[0.8, 0.6], [-0.6, -0.8]], [0.6, 0.8], [0.98, 0.0]),
        ("l2_norm", [[1, 1], [4, 5]], [1, 1], [1.0, 1 / 26]),
        # 3*1 + 4*2 = 11 -> 12; -11 -> 1 / 12
        ("max_inner_product", [[3, 4], [-3, -4]], [1, 2], [12.0, 1 / 12]),
    ],
)
async def test_knn_scores_follow_the_documented_formula(
    es: AsyncElasticsearch,
    similarity: str,
    stored: list[list[float]],
    query: list[float],
    expected: list[float],
) -> None:
    docs: Docs = {str(i): {"v": vector} for i, vector in enumerate(stored)}
    await fill(es, "knn", docs, v={"type": "dense_vector", "dims": 2, "similarity": similarity})

    knn = {"field": "v", "query_vector": query, "k": 2, "num_candidates": 10}
    top_level = await es.search(index="knn", knn=knn)
    as_query = await es.search(index="knn", query={"knn": knn})

    assert scores(top_level) == pytest.approx(expected, rel=1e-6, abs=1e-7)
    assert as_query["hits"]["hits"] == top_level["hits"]["hits"]


async def test_knn_similarity_bounds_the_raw_similarity(es: AsyncElasticsearch) -> None:
    docs: Docs = {"same": {"v": [1, 0]}, "right": {"v": [0, 1]}, "near": {"v": [4, 3]}}
    await fill(es, "knn", docs, v={"type": "dense_vector", "dims": 2})

    knn = {"field": "v", "query_vector": [1, 0], "k": 3, "num_candidates": 3, "similarity": 0.8}
    answer = await es.search(index="knn", knn=knn)

    assert (ids(answer), scores(answer)) == (["same", "near"], [1.0, pytest.approx(0.9)])


async def test_script_score_computes_vector_functions(es: AsyncElasticsearch) -> None:
    """kNN guide, exact search: cosineSimilarity(...) + 1.0 over a filter; a negative score is an error."""
    vector = {"type": "dense_vector", "dims": 2, "index": False}
    await fill(
        es,
        "exact",
        {"1": {"v": [3, 4], "p": 5}, "2": {"v": [-3, -4], "p": 5}, "3": {"v": [4, 3], "p": 1}},
        v=vector,
    )

    async def run(source: str) -> Any:
        script = {"source": source, "params": {"queryVector": [3, 4]}}
        query = {"bool": {"filter": {"range": {"p": {"gte": 2}}}}}
        return await es.search(index="exact", query={"script_score": {"query": query, "script": script}})

    cosine = await run("cosineSimilarity(params.queryVector, 'v') + 1.0")
    dot = await run("dotProduct(params.queryVector, 'v') + 25.0")

    assert (ids(cosine), scores(cosine)) == (["1", "2"], [2.0, 0.0])
    assert scores(dot) == [50.0, 0.0]
    negative = run("cosineSimilarity(params.queryVector, 'v')")
    await refused(negative, 400, "illegal_argument_exception", within="Must be a non-negative score!")


async def test_bm25_over_pretokenised_text_by_hand(es: AsyncElasticsearch) -> None:
    """Whitespace tokens, k1=1.2, b=0.75: "b" is in 2 of 3 documents, lengths 2, 3, 1, average 2.

    idf = ln(1 + 1.5 / 2.5) = 0.47000363; document 1: tf = 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2)) = 1 / 2.2;
    document 2: tf = 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2)) = 2 / 3.65; both times 2.2.
    """
    docs: Docs = {"1": {"t": "A b"}, "2": {"t": "b b C"}, "3": {"t": "x"}}
    await fill(es, "tok", docs, t={"type": "text", "analyzer": "whitespace"})

    answer = await es.search(index="tok", query={"match": {"t": "b"}})
    lower = await es.search(index="tok", query={"match": {"t": "a"}})

    idf = math.log(1.6)
    assert (ids(answer), ids(lower)) == (["2", "1"], [])
    assert scores(answer) == pytest.approx([2.2 * idf * 2 / 3.65, idf], rel=1e-6)


async def test_bm25_parameters_come_from_the_index_settings(es: AsyncElasticsearch) -> None:
    """b=0 and k1=0: the score is the idf, ln(1 + 1.5 / 1.5) for 1 of 2, times (k1 + 1) = 1."""
    settings = {"index": {"similarity": {"flat": {"type": "BM25", "k1": 0.0, "b": 0.0}}}}
    mappings = {"properties": {"t": {"type": "text", "similarity": "flat"}}}
    await es.indices.create(index="flat", settings=settings, mappings=mappings)
    await fill(es, "flat", {"1": {"t": "one one two"}, "2": {"t": "two"}})

    answer = await es.search(index="flat", query={"match": {"t": "ONE"}})

    assert scores(answer) == [pytest.approx(math.log(2), rel=1e-6)]


async def test_lossy_lengths_round_as_lucene_does() -> None:
    """SmallFloat: 100 - 24 = 76 = 0b1001100 keeps four bits, 0b1001000 = 72, and 24 + 72 = 96 is used."""
    docs: Docs = {"1": {"t": "w " * 100}, "2": {"t": "x " * 4}}
    expected = {}
    for lossy, length in ((False, 100), (True, 96)):
        with ElasticsearchServer(lossy_lengths=lossy) as server:
            async with AsyncElasticsearch(server.url) as client:
                await fill(client, "long", docs, t={"type": "text", "analyzer": "whitespace"})
                answer = await client.search(index="long", query={"match": {"t": "w"}})
        expected[lossy] = 2.2 * math.log(2) * 100 / (100 + 1.2 * (0.25 + 0.75 * length / 52))

        assert scores(answer) == [pytest.approx(expected[lossy], rel=1e-6)]

    assert expected[False] != pytest.approx(expected[True], rel=1e-6)


async def test_match_operator_and_minimum_should_match(es: AsyncElasticsearch) -> None:
    docs: Docs = {"1": {"t": "red green"}, "2": {"t": "red blue"}, "3": {"t": "red green blue"}}
    await fill(es, "m", docs, t={"type": "text"})

    async def found(**options: Any) -> set[str]:
        query = {"match": {"t": {"query": "Green blue", **options}}}
        return set(ids(await es.search(index="m", query=query)))

    assert await found() == {"1", "2", "3"}
    assert await found(operator="and") == {"3"}
    assert await found(minimum_should_match="100%") == {"3"}


# -- Elasticsearch: visibility and concurrency -----------------------------------------------------


async def test_a_write_is_searchable_only_after_a_refresh(es: AsyncElasticsearch) -> None:
    await es.index(index="r", id="1", document={"n": 1})
    before = (await es.count(index="r"))["count"], ids(await es.search(index="r"))
    real_time = (await es.get(index="r", id="1"))["_source"], (await es.exists(index="r", id="1")).body
    await es.indices.refresh(index="r")
    after = (await es.count(index="r"))["count"]
    await es.delete(index="r", id="1")
    still = ids(await es.search(index="r"))
    await es.index(index="r", id="2", document={"n": 2}, refresh="wait_for")
    waited = ids(await es.search(index="r"))

    assert before == (0, [])
    assert real_time == ({"n": 1}, True)
    assert (after, still, waited) == (1, ["1"], ["2"])


async def test_optimistic_concurrency(es: AsyncElasticsearch) -> None:
    """Optimistic concurrency control: a stale if_seq_no is 409, and so is a second create."""
    first = await es.index(index="occ", id="1", document={"n": 1})
    second = await es.index(
        index="occ",
        id="1",
        document={"n": 2},
        if_seq_no=first["_seq_no"],
        if_primary_term=first["_primary_term"],
    )

    assert (second["_version"], second["_seq_no"], second["result"]) == (2, 1, "updated")
    stale = es.index(index="occ", id="1", document={"n": 3}, if_seq_no=0, if_primary_term=1)
    reason = "required seqNo [0], primary term [1]. current document has seqNo [1] and primary term [1]"
    await refused(stale, 409, "version_conflict_engine_exception", within=reason)
    with pytest.raises(ConflictError):
        await es.create(index="occ", id="1", document={})
    items = [{"delete": {"_id": "1", "if_seq_no": 0, "if_primary_term": 1}}]
    bulk = await es.bulk(index="occ", operations=items)
    assert bulk["items"][0]["delete"]["status"] == 409


async def test_delete_by_query_deletes_what_a_refresh_showed(es: AsyncElasticsearch) -> None:
    docs: Docs = {str(i): {"n": i} for i in range(4)}
    await fill(es, "dq", docs, n={"type": "integer"})
    await es.index(index="dq", id="0", document={"n": 0, "newer": True})

    query = {"range": {"n": {"lt": 3}}}
    await_conflict = es.delete_by_query(index="dq", query={"term": {"n": 0}})
    with pytest.raises(ConflictError) as caught:
        await await_conflict
    answer = await es.delete_by_query(index="dq", query=query, conflicts="proceed", refresh=True)

    assert (caught.value.body["version_conflicts"], caught.value.body["deleted"]) == (1, 0)
    assert (answer["total"], answer["deleted"], answer["version_conflicts"], answer["failures"]) == (
        3,
        2,
        1,
        [],
    )
    assert sorted(ids(await es.search(index="dq"))) == ["0", "3"]


async def test_point_in_time_pages_over_a_frozen_view(es: AsyncElasticsearch) -> None:
    await fill(es, "pit", {str(i): {"n": i // 2} for i in range(5)}, n={"type": "long"})
    pit_id = (await es.open_point_in_time(index="pit", keep_alive="1m"))["id"]
    await es.delete_by_query(index="pit", query={"match_all": {}}, refresh=True)

    seen: list[str] = []
    after: list[Any] | None = None
    while True:
        page = await es.search(pit={"id": pit_id, "keep_alive": "1m"}, size=2, sort=[{"n": "desc"}], search_after=after)
        if not page["hits"]["hits"]:
            break
        seen += ids(page)
        after = page["hits"]["hits"][-1]["sort"]
    closed = await es.close_point_in_time(id=pit_id)

    assert seen == ["4", "2", "3", "0", "1"]
    assert closed.body == {"succeeded": True, "num_freed": 1}
    await refused(es.search(pit={"id": pit_id}), 404, "search_context_missing_exception")
    await refused(
        es.search(index="pit", pit={"id": pit_id}),
        400,
        "action_request_validation_exception",
        within="[indices]",
    )


async def test_sort_puts_missing_values_last_and_search_after_goes_on(es: AsyncElasticsearch) -> None:
    docs: Docs = {"a": {"k": "x"}, "b": {}, "c": {"k": "y"}, "d": {}}
    await fill(es, "srt", docs, k={"type": "keyword"}, id={"type": "keyword"})

    up = await es.search(index="srt", sort=[{"k": "asc"}])
    down = await es.search(index="srt", sort=[{"k": {"order": "desc", "missing": "_first"}}])
    rest = await es.search(index="srt", sort=[{"k": "asc"}], search_after=["x"])

    assert (ids(up), [hit["sort"] for hit in up["hits"]["hits"]]) == (
        ["a", "c", "b", "d"],
        [["x"], ["y"], [None], [None]],
    )
    assert ids(down) == ["b", "d", "c", "a"]
    assert (ids(rest), up["hits"]["max_score"]) == (["c", "b", "d"], None)


# -- Elasticsearch: fields and filters -------------------------------------------------------------


async def test_filters_over_the_mapped_types(es: AsyncElasticsearch) -> None:
    docs: Docs = {
        "1": {
            "k": ["a", "b"],
            "n": 5,
            "f": 1.5,
            "d": "2024-03-01",
            "b": True,
            "m": {"x.y": 1, "z": ["q", None]},
        },
        "2": {
            "k": "b",
            "n": "7",
            "f": 2,
            "d": "2024-03-01T12:00:00Z",
            "b": "false",
            "m": {},
            "off": {"n": [1, {}]},
        },
        "3": {"k": None, "n": [], "d": 1709337600000},  # 2024-03-02T00:00:00Z
    }
    types = {"k": "keyword", "n": "integer", "f": "double", "d": "date", "b": "boolean", "m": "flattened"}
    properties = {name: {"type": kind} for name, kind in types.items()}
    await fill(es, "types", docs, **properties, off={"type": "object", "enabled": False})

    async def found(*queries: Any) -> list[str]:
        return sorted(ids(await es.search(index="types", query={"bool": {"filter": list(queries)}})))

    assert await found({"term": {"k": "b"}}) == ["1", "2"]
    assert await found({"terms": {"n": [7, 8]}}) == ["2"]
    assert await found({"range": {"f": {"gt": 1.5}}}) == ["2"]
    assert await found({"range": {"d": {"lte": "2024-03-01"}}}) == ["1", "2"]  # to the end of that day
    assert await found({"range": {"d": {"gt": "2024-03-01"}}}) == ["3"]
    assert await found({"term": {"d": "2024-03-01"}}) == ["1", "2"]
    assert await found({"term": {"b": True}}) == ["1"]
    assert await found({"term": {"m.x.y": "1"}}, {"term": {"m": "q"}}) == ["1"]
    assert await found({"exists": {"field": "k"}}) == ["1", "2"]
    assert await found({"bool": {"must_not": {"exists": {"field": "n"}}}}) == ["3"]
    assert await found({"term": {"off.n": 1}}) == await found({"term": {"absent": 1}}) == []
    assert await found({"ids": {"values": ["1", "9"]}}) == await found({"term": {"_id": "1"}}) == ["1"]


async def test_boolean_should_and_scores_of_the_contexts(es: AsyncElasticsearch) -> None:
    """Bool query reference: filter and must_not score 0; should alone has to match once."""
    await fill(es, "bool", {"1": {"n": 1}, "2": {"n": 2}}, n={"type": "long"})

    async def run(**clauses: Any) -> tuple[list[str], list[float]]:
        answer = await es.search(index="bool", query={"bool": clauses})
        return ids(answer), scores(answer)

    one, two = {"term": {"n": 1}}, {"term": {"n": 2}}
    assert await run(filter=[one]) == (["1"], [0.0])
    assert await run(must_not=[one]) == (["2"], [0.0])
    assert await run(should=[one]) == (["1"], [1.0])
    assert await run(filter={"match_all": {}}, should=[two]) == (["2", "1"], [1.0, 0.0])
    assert await run(should=[one, two], minimum_should_match=2) == ([], [])
    assert await run(must={"constant_score": {"filter": one, "boost": 3}}) == (["1"], [3.0])


async def test_source_filtering_and_total_hits(es: AsyncElasticsearch) -> None:
    docs: Docs = {str(i): {"a": {"b": i, "c": [1]}, "d": "x"} for i in range(12)}
    await fill(es, "src", docs)

    some = await es.search(index="src", source={"includes": ["a.*"]}, size=1)
    rest = await es.search(index="src", source={"excludes": ["a.c", "d"]}, size=1)
    none = await es.search(index="src", source=False, size=1, track_total_hits=10)
    quiet = await es.search(index="src", size=0, track_total_hits=False)

    assert some["hits"]["hits"][0]["_source"] == {"a": {"b": 0, "c": [1]}}
    assert rest["hits"]["hits"][0]["_source"] == {"a": {"b": 0}}
    assert "_source" not in none["hits"]["hits"][0]
    assert none["hits"]["total"] == {"value": 10, "relation": "gte"}
    assert quiet["hits"] == {"max_score": None, "hits": []}


async def test_terms_and_value_count_aggregations(es: AsyncElasticsearch) -> None:
    docs: Docs = {"1": {"k": ["a", "b"], "n": 1}, "2": {"k": "b", "n": 2}, "3": {"n": 4}}
    await fill(es, "agg", docs, k={"type": "keyword"}, n={"type": "long"})

    aggs: Docs = {
        "by": {"terms": {"field": "k"}, "aggs": {"n": {"value_count": {"field": "n"}}}},
        "top": {"max": {"field": "n"}},
    }
    answer = (await es.search(index="agg", size=0, aggs=aggs))["aggregations"]

    buckets = [
        {"key": "b", "doc_count": 2, "n": {"value": 2}},
        {"key": "a", "doc_count": 1, "n": {"value": 1}},
    ]
    assert answer["by"]["buckets"] == buckets
    assert answer["top"] == {"value": 4.0}


async def test_mapping_meta_and_dynamic(es: AsyncElasticsearch) -> None:
    await es.indices.create(
        index="meta",
        mappings={"dynamic": "strict", "_meta": {"v": 1}, "properties": {"a": {"type": "keyword"}}},
    )
    await es.indices.put_mapping(index="meta", properties={"b": {"type": "long"}}, meta={"v": 2})
    mapping = (await es.indices.get_mapping(index="meta"))["meta"]["mappings"]
    await es.index(index="loose", id="1", document={"s": "x", "n": 1, "o": {"f": 0.5}, "when": "2024-01-01"})
    loose = (await es.indices.get_mapping(index="loose"))["loose"]["mappings"]["properties"]
    await es.indices.create(index="off", mappings={"dynamic": False})
    await es.index(index="off", id="1", document={"s": "x"}, refresh=True)
    await es.indices.create(index="run", mappings={"dynamic": "runtime"})
    await es.index(index="run", id="1", document={"s": "x"}, refresh=True)

    assert (mapping["_meta"], sorted(mapping["properties"])) == ({"v": 2}, ["a", "b"])
    assert loose["o"]["properties"] == {"f": {"type": "float"}}
    assert [loose[name]["type"] for name in ("s", "n", "when")] == ["text", "long", "date"]
    assert ids(await es.search(index="off", query={"term": {"s": "x"}})) == []
    assert ids(await es.search(index="run", query={"term": {"s": "x"}})) == ["1"]
    assert (await es.indices.get_mapping(index="run"))["run"]["mappings"]["runtime"] == {"s": {"type": "keyword"}}
    await refused(es.index(index="meta", id="1", document={"c": 1}), 400, "strict_dynamic_mapping_exception")
    change = es.indices.put_mapping(index="meta", properties={"a": {"type": "long"}})
    await refused(change, 400, "illegal_argument_exception", within="cannot be changed from type [keyword] to [long]")


# -- Elasticsearch: refusals -----------------------------------------------------------------------


async def test_unknown_things_are_refused(es: AsyncElasticsearch) -> None:
    await fill(
        es,
        "strict",
        {"1": {"v": [1, 0], "t": "x"}},
        v={"type": "dense_vector", "dims": 2},
        t={"type": "text"},
    )

    async def search(**body: Any) -> Any:
        return await es.search(index="strict", body=body)

    knn = {"field": "v", "query_vector": [1, 0], "k": 1, "num_candidates": 1}
    await refused(
        search(unheard={"a": 1}),
        400,
        "parsing_exception",
        within="Unknown key for a START_OBJECT in [unheard].",
    )
    await refused(search(query={"matches": {}}), 400, "parsing_exception", within="unknown query [matches]")
    await refused(
        search(query={"term": {"t": {"values": 1}}}),
        400,
        "parsing_exception",
        within="[term] query does not support [values]",
    )
    await refused(search(query={"match": {"t": "a", "u": "b"}}), 400, "parsing_exception", within="multiple fields")
    await refused(
        search(query={"bool": {"mustnt": []}}),
        400,
        "parsing_exception",
        within="[bool] query does not support [mustnt]",
    )
    await refused(search(knn={**knn, "ef": 3}), 400, "x_content_parse_exception", within="[knn] unknown field [ef]")
    await refused(
        search(aggs={"a": {"histo": {}}}), 400, "parsing_exception", within="Unknown aggregation type [histo]"
    )
    await refused(
        es.search(index="strict", sort=[{"t": "asc"}]),
        400,
        "illegal_argument_exception",
        within="Fielddata is disabled",
    )
    await refused(
        es.search(index="strict", sort=["_id"]),
        400,
        "illegal_argument_exception",
        within="_id field is disallowed",
    )
    await refused(
        es.search(index="strict", sort=["nope"]),
        400,
        "query_shard_exception",
        within="No mapping found for [nope]",
    )
    parameter = es.perform_request("GET", "/strict/_search?sizes=1", headers={"accept": "application/json"})
    await refused(parameter, 400, "illegal_argument_exception", within="unrecognized parameter: [sizes]")
    created = es.indices.create(index="other", settings={"index.knn": True})
    await refused(created, 400, "illegal_argument_exception", within="unknown setting [index.knn]")
    created = es.indices.create(index="other", mappings={"properties": {"a": {"type": "string"}}})
    await refused(created, 400, "mapper_parsing_exception", within="No handler for type [string] declared on field [a]")


async def test_an_unknown_query_has_the_published_error_shape(es: AsyncElasticsearch) -> None:
    await es.indices.create(index="i")

    with pytest.raises(BadRequestError) as caught:
        await es.search(index="i", query={"filtered": {}})

    error = caught.value.body["error"]
    cause = {"type": "named_object_not_found_exception", "reason": "[1:1] unknown field [filtered]"}
    root = {"type": "parsing_exception", "reason": "unknown query [filtered]", "line": 1, "col": 1}
    assert caught.value.body == {"error": {"root_cause": [root], **root, "caused_by": cause}, "status": 400}
    assert caught.value.error == error["type"]


async def test_limits_are_refused(es: AsyncElasticsearch) -> None:
    await fill(
        es,
        "lim",
        {"1": {"v": [1, 0], "k": "a"}},
        v={"type": "dense_vector", "dims": 2},
        k={"type": "keyword"},
    )

    def knn(**changes: Any) -> Any:
        spec = {"field": "v", "query_vector": [1, 0], "k": 2, "num_candidates": 5}
        return es.search(index="lim", knn={**spec, **changes})

    argument = "illegal_argument_exception"
    await refused(knn(num_candidates=1), 400, argument, within="[num_candidates] cannot be less than [k]")
    await refused(knn(num_candidates=10_001), 400, argument, within="[num_candidates] cannot exceed [10000]")
    await refused(
        knn(query_vector=[1, 0, 0]),
        400,
        argument,
        within="different dimension [3] than the index vectors [2]",
    )
    await refused(knn(query_vector=[0, 0]), 400, argument, within="zero magnitude")
    await refused(es.search(index="lim", from_=9_999, size=2), 400, argument, within="was [10001]")
    too_long = es.index(index="lim", id="x" * 513, document={})
    await refused(too_long, 400, "action_request_validation_exception", within="no longer than 512 bytes but was: 513")
    immense = es.index(index="lim", id="2", document={"k": "x" * 32_767})
    await refused(immense, 400, "document_parsing_exception", within="failed to parse field [k] of type [keyword]")
    wide = es.index(index="wide", id="1", document={f"f{i}": 1 for i in range(1_001)})
    await refused(wide, 400, argument, within="Limit of total fields [1000] has been exceeded")
    top = {"t": {"top_hits": {"size": 101}}}
    await refused(es.search(index="lim", aggs=top), 400, argument, within="[100] but was [101]")
    zero = es.index(index="lim", id="2", document={"v": [0, 0]})
    await refused(zero, 400, "document_parsing_exception", within="failed to parse field [v] of type [dense_vector]")
    dotted = es.index(index="lim", id="2", document={"m": {"a..b": 1}})
    await refused(dotted, 400, "document_parsing_exception", within="start or end with a dot")


async def test_missing_and_existing_indices(es: AsyncElasticsearch) -> None:
    await es.indices.create(index="here")

    assert (await es.indices.exists(index="here")).body is True
    assert (await es.indices.exists(index="gone")).body is False
    await refused(es.search(index="gone"), 404, "index_not_found_exception", within="no such index [gone]")
    await refused(es.indices.create(index="here"), 400, "resource_already_exists_exception")
    await refused(es.indices.create(index="Upper"), 400, "invalid_index_name_exception")
    assert (await es.search(index="gone", ignore_unavailable=True))["hits"]["hits"] == []
    assert list((await es.indices.get(index="he*")).body) == ["here"]
    with pytest.raises(NotFoundError) as caught:
        await es.get(index="here", id="1")
    assert caught.value.body == {"_index": "here", "_id": "1", "found": False}
    many = await es.mget(index="here", ids=["1"])
    assert many["docs"] == [{"_index": "here", "_id": "1", "found": False}]
    await es.indices.delete(index="here")
    await refused(es.indices.delete(index="here"), 404, "index_not_found_exception")


async def test_a_body_above_100_mb_is_413_and_bulk_needs_a_last_newline(
    es: AsyncElasticsearch, es_server: ElasticsearchServer
) -> None:
    es_server.max_body_bytes = 1_000

    with pytest.raises(ApiError) as caught:
        await es.bulk(index="b", operations=[{"index": {}}, {"t": "x" * 2_000}])

    assert caught.value.status_code == 413
    assert es_server.log[-1].body_bytes > 2_000
    headers = {"content-type": "application/x-ndjson"}
    async with httpx.AsyncClient(base_url=es_server.url, headers=headers) as http:
        unfinished = await http.post("/b/_bulk", content=b'{"index":{}}\n{"a":1}')
        unknown = await http.post("/b/_bulk", content=b'{"put":{}}\n{"a":1}\n')
        untyped = await http.post("/b/_bulk", content=b"{}\n", headers={"content-type": "text/plain"})
    assert unfinished.json()["error"]["reason"] == "The bulk request must be terminated by a newline [\\n]"
    assert "expected one of [create, delete, index, update] but found [put]" in unknown.json()["error"]["reason"]
    assert [answer.status_code for answer in (unfinished, unknown, untyped)] == [400, 400, 406]


async def test_ties_under_a_sort_stay_in_index_order_and_compressed_bodies_are_read(
    es_server: ElasticsearchServer,
) -> None:
    async with AsyncElasticsearch(es_server.url, http_compress=True) as client:
        docs = {key: {"n": 1, "t": text} for key, text in (("a", "x y z"), ("b", "x"), ("c", "x y"))}
        await fill(client, "tie", docs, n={"type": "long"}, t={"type": "text"})
        await client.index(index="tie", id="a", document=docs["a"], refresh=True)

        answer = await client.search(index="tie", query={"match": {"t": "x"}}, sort=["n"])

    assert ids(answer) == ["b", "c", "a"]


async def test_deleting_from_a_missing_index_does_not_create_it(es: AsyncElasticsearch) -> None:
    await refused(es.delete(index="none", id="1"), 404, "index_not_found_exception")
    bulk = await es.bulk(index="none", operations=[{"delete": {"_id": "1"}}])

    assert (bulk["errors"], bulk["items"][0]["delete"]["status"]) == (True, 404)
    assert not await es.indices.exists(index="none")


async def test_the_bulk_helper_raises_on_failed_items(es: AsyncElasticsearch) -> None:
    await es.indices.create(index="h", mappings={"properties": {"n": {"type": "long"}}})
    actions: list[dict[str, Any]] = [
        {"_index": "h", "_id": "1", "n": 1},
        {"_index": "h", "_id": "2", "n": "many"},
    ]

    with pytest.raises(BulkIndexError) as caught:
        await async_bulk(es, actions, refresh="wait_for")

    assert [error["index"]["_id"] for error in caught.value.errors] == ["2"]
    assert ids(await es.search(index="h")) == ["1"]


async def test_an_older_server_refuses_the_media_type_of_a_newer_client() -> None:
    with ElasticsearchServer(version="8.19.0") as server:
        async with AsyncElasticsearch(server.url) as client:
            with pytest.raises(BadRequestError) as caught:
                await client.info()
    assert caught.value.body["error"]["type"] == "media_type_header_exception"


# -- Elasticsearch: the switches -------------------------------------------------------------------


async def test_hang_fail_next_and_stop(es: AsyncElasticsearch, es_server: ElasticsearchServer) -> None:
    es_server.fail_next(1, 503)
    with pytest.raises(ApiError) as caught:
        await es.info()
    es_server.hang = True
    with pytest.raises(EsTimeout):
        await es.options(request_timeout=0.2).info()
    es_server.hang = False
    again = await es.info()
    es_server.stop()
    with pytest.raises(Exception, match="Connect"):
        await es.info()
    es_server.start()
    back = await es.info()

    assert caught.value.status_code == 503
    assert again.body == back.body
    assert [(entry.method, entry.path) for entry in es_server.log] == [("GET", "/")] * 4


# -- Qdrant ----------------------------------------------------------------------------------------

CITIES: list[tuple[int, list[float], dict[str, Any]]] = [
    (1, [0.05, 0.61, 0.76, 0.74], {"city": "Berlin"}),
    (2, [0.19, 0.81, 0.75, 0.11], {"city": "London"}),
    (3, [0.36, 0.55, 0.47, 0.94], {"city": "Moscow"}),
    (4, [0.18, 0.01, 0.85, 0.80], {"city": "New York"}),
    (5, [0.24, 0.18, 0.22, 0.44], {"city": "Beijing"}),
    (6, [0.35, 0.08, 0.11, 0.44], {"city": "Mumbai"}),
]


async def test_qdrant_quick_start(qdrant: AsyncQdrantClient) -> None:
    """Qdrant quick start: six cities by dot product; published answers 4, 1, 3 and, for London, 0.871.

    0.2 * 0.18 + 0.1 * 0.01 + 0.9 * 0.85 + 0.7 * 0.80 = 1.362.
    """
    name = "test_collection"
    await qdrant.create_collection(name, vectors_config=q.VectorParams(size=4, distance=q.Distance.DOT))
    points = [q.PointStruct(id=i, vector=vector, payload=payload) for i, vector, payload in CITIES]
    written = await qdrant.upsert(name, points, wait=True)

    plain = await qdrant.query_points(name, query=[0.2, 0.1, 0.9, 0.7], limit=3)
    london = q.Filter(must=[q.FieldCondition(key="city", match=q.MatchValue(value="London"))])
    filtered = await qdrant.query_points(name, query=[0.2, 0.1, 0.9, 0.7], query_filter=london, limit=3)

    assert written.status == q.UpdateStatus.COMPLETED
    assert [(point.id, round(point.score, 3)) for point in plain.points] == [
        (4, 1.362),
        (1, 1.273),
        (3, 1.208),
    ]
    assert [(point.id, round(point.score, 3)) for point in filtered.points] == [(2, 0.871)]


async def hybrid_collection(qdrant: AsyncQdrantClient) -> None:
    await qdrant.create_collection(
        "h",
        vectors_config={"dense": q.VectorParams(size=2, distance=q.Distance.COSINE)},
        sparse_vectors_config={"words": q.SparseVectorParams(modifier=q.Modifier.IDF)},
    )
    vectors = [([1.0, 0.0], [1, 2]), ([0.0, 1.0], [2, 3]), ([-1.0, 0.0], [3, 4])]
    points = [
        q.PointStruct(
            id=i,
            vector={"dense": dense, "words": q.SparseVector(indices=words, values=[1.0, 0.5])},
            payload={"i": i, "tags": ["a", None], "k": None, "big": "x" * i},
        )
        for i, (dense, words) in enumerate(vectors)
    ]
    await qdrant.upsert("h", points)


async def test_qdrant_cosine_and_sparse_scores(qdrant: AsyncQdrantClient) -> None:
    """Equal, orthogonal and opposite vectors score 1, 0, -1; sparse with IDF by the documented formula.

    Token 3 is in 2 of 3 points, idf = ln(1 + 1.5 / 2.5) = ln 1.6; point 1 holds 0.5 of it, point 2 holds 1.
    """
    await hybrid_collection(qdrant)

    dense = await qdrant.query_points("h", query=[2.0, 0.0], using="dense")
    sparse = await qdrant.query_points("h", query=q.SparseVector(indices=[3], values=[1.0]), using="words")
    above = await qdrant.query_points("h", query=[2.0, 0.0], using="dense", score_threshold=0.5)

    assert [(p.id, p.score) for p in dense.points] == [(0, 1.0), (1, 0.0), (2, -1.0)]
    assert [p.id for p in sparse.points] == [2, 1]
    assert [p.score for p in sparse.points] == pytest.approx([math.log(1.6), 0.5 * math.log(1.6)], rel=1e-6)
    assert [p.id for p in above.points] == [0]


async def test_qdrant_payload_and_vector_selection(qdrant: AsyncQdrantClient) -> None:
    await hybrid_collection(qdrant)

    both = await qdrant.query_points(
        "h",
        query=[1.0, 0.0],
        using="dense",
        limit=1,
        with_payload=q.PayloadSelectorExclude(exclude=["big"]),
        with_vectors=["dense"],
    )
    records = await qdrant.retrieve("h", ids=[2, 99, 0], with_payload=["k"], with_vectors=True)
    page, after = await qdrant.scroll("h", limit=2, with_payload=False)

    assert both.points[0].payload == {"i": 0, "tags": ["a", None], "k": None}
    assert both.points[0].vector == {"dense": [1.0, 0.0]}
    assert [(record.id, record.payload) for record in records] == [(2, {"k": None}), (0, {"k": None})]
    assert records[0].vector == {
        "dense": [-1.0, 0.0],
        "words": q.SparseVector(indices=[3, 4], values=[1.0, 0.5]),
    }
    assert ([record.id for record in page], after, page[0].payload) == ([0, 1], 2, None)


async def test_qdrant_writes(qdrant: AsyncQdrantClient) -> None:
    await hybrid_collection(qdrant)
    one = q.Filter(must=[q.FieldCondition(key="i", range=q.Range(lte=1))])

    await qdrant.set_payload("h", payload={"new": {"a.b": 1}}, points=one)
    await qdrant.delete_payload("h", keys=["k"], points=[0])
    batch = q.Batch(ids=[7, 8], vectors={"dense": [[1.0, 1.0], [2.0, 2.0]]}, payloads=[{"i": 7}, {"i": 8}])
    await qdrant.upsert("h", batch)
    results = await qdrant.batch_update_points(
        "h",
        update_operations=[
            q.DeleteOperation(delete=q.PointIdsList(points=[8])),
            q.SetPayloadOperation(set_payload=q.SetPayload(payload={"i": 70}, points=[7])),
        ],
        wait=False,
    )
    await qdrant.delete("h", points_selector=q.FilterSelector(filter=q.Filter(must=[q.HasIdCondition(has_id=[1])])))
    records, _ = await qdrant.scroll("h", with_payload=["i", "new", "k"])

    assert [result.status for result in results] == [q.UpdateStatus.ACKNOWLEDGED] * 2
    assert (await qdrant.count("h")).count == 3
    assert {record.id: record.payload for record in records} == {
        0: {"i": 0, "new": {"a.b": 1}},
        2: {"i": 2, "k": None},
        7: {"i": 70},
    }


async def test_qdrant_reports_collection_parameters_back(qdrant: AsyncQdrantClient) -> None:
    int8 = q.ScalarQuantization(scalar=q.ScalarQuantizationConfig(type=q.ScalarType.INT8, always_ram=True))
    await qdrant.create_collection(
        "c",
        vectors_config={"d": q.VectorParams(size=4, distance=q.Distance.COSINE, on_disk=True)},
        shard_number=3,
        replication_factor=2,
        quantization_config=int8,
        hnsw_config=q.HnswConfigDiff(m=0, payload_m=16),
        on_disk_payload=True,
        metadata={"model": "m", "dims": 4},
    )
    tenant = q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD, is_tenant=True)
    await qdrant.create_payload_index("c", "tenant", field_schema=tenant)
    await qdrant.update_collection("c", metadata={"dims": 5}, hnsw_config=q.HnswConfigDiff(m=8))

    info = await qdrant.get_collection("c")

    params = info.config.params
    assert (params.shard_number, params.replication_factor, params.on_disk_payload) == (3, 2, True)
    assert isinstance(params.vectors, dict)
    assert params.vectors["d"].on_disk is True
    assert (info.config.hnsw_config.m, info.config.hnsw_config.payload_m) == (8, 16)
    assert info.config.quantization_config == int8
    assert info.config.metadata == {"model": "m", "dims": 5}
    assert info.payload_schema["tenant"].params == tenant
    assert (await qdrant.collection_exists("c"), await qdrant.collection_exists("d")) == (True, False)
    assert [found.name for found in (await qdrant.get_collections()).collections] == ["c"]
    assert (await qdrant.delete_collection("c"), await qdrant.delete_collection("c")) == (True, False)


async def test_qdrant_facet_and_order_by_need_an_index(qdrant: AsyncQdrantClient) -> None:
    await hybrid_collection(qdrant)

    for call in (qdrant.facet("h", key="tags"), qdrant.scroll("h", order_by="i")):
        with pytest.raises(UnexpectedResponse) as caught:
            await call
        assert caught.value.status_code == 400

    await qdrant.create_payload_index("h", "tags", field_schema=q.PayloadSchemaType.KEYWORD)
    await qdrant.create_payload_index("h", "i", field_schema=q.PayloadSchemaType.INTEGER)
    facet = await qdrant.facet("h", key="tags")
    ordered, _ = await qdrant.scroll("h", order_by=q.OrderBy(key="i", direction=q.Direction.DESC))
    assert [(hit.value, hit.count) for hit in facet.hits] == [("a", 3)]
    assert [record.id for record in ordered] == [2, 1, 0]


async def test_qdrant_errors_have_the_documented_status_and_shape(qdrant: AsyncQdrantClient) -> None:
    await hybrid_collection(qdrant)
    vectors = {"dense": q.VectorParams(size=2, distance=q.Distance.COSINE)}
    cases = [
        (qdrant.get_collection("nope"), 404, "Not found: Collection `nope` doesn't exist!"),
        (qdrant.count("nope"), 404, "Not found: Collection `nope` doesn't exist!"),
        (
            qdrant.create_collection("h", vectors_config=vectors),
            409,
            "Wrong input: Collection `h` already exists!",
        ),
        (qdrant.upsert("h", [q.PointStruct(id=1, vector={"dense": [1.0]})]), 400, "expected dim: 2, got 1"),
        (qdrant.upsert("h", [q.PointStruct(id="abc", vector={})]), 400, "value abc is not a valid point ID"),
        (qdrant.delete("h", points_selector=["abc"]), 400, "value abc is not a valid point ID"),
        (qdrant.scroll("h", limit=0), 422, "[limit: value 0 invalid, must be 1 or larger]"),
        (qdrant.query_points("h", query=[1.0, 0.0], using="other"), 400, "other"),
    ]
    for call, status, message in cases:
        with pytest.raises(UnexpectedResponse) as caught:
            await call
        content = caught.value.structured()
        assert (caught.value.status_code, message in content["status"]["error"]) == (status, True), content
        assert (content["result"], isinstance(content["time"], float)) == (None, True)


async def test_qdrant_refuses_unknown_body_fields(qdrant: AsyncQdrantClient, qdrant_server: QdrantServer) -> None:
    await hybrid_collection(qdrant)
    http = qdrant.http.client._async_client

    for method, path, body in (
        ("POST", "/collections/h/points/query", {"query": [1.0, 0.0], "using": "dense", "top": 3}),
        ("PUT", "/collections/new", {"vectors": {"size": 2, "distance": "Cosine", "metric": "x"}}),
        ("PUT", "/collections/h/points", {"points": [{"id": 1, "vectors": {"dense": [1.0, 0.0]}}]}),
        ("POST", "/collections/h/points/delete", {"ids": [1]}),
    ):
        answer = await http.request(method, f"{qdrant_server.url}{path}", json=body)
        assert answer.status_code == 400
        assert "Format error in JSON body" in answer.json()["status"]["error"]

    assert (await http.get(f"{qdrant_server.url}/cluster")).status_code == 404


async def test_qdrant_refuses_a_body_above_its_limit(qdrant: AsyncQdrantClient, qdrant_server: QdrantServer) -> None:
    """qdrant/qdrant#2537: the default limit is 33554432 bytes; the answer is 400 and names both sizes."""
    await hybrid_collection(qdrant)
    assert qdrant_server.max_body_bytes == 33_554_432
    qdrant_server.max_body_bytes = 10_000

    big = q.PointStruct(id=9, vector={}, payload={"text": "x" * 20_000})
    with pytest.raises(UnexpectedResponse) as caught:
        await qdrant.upsert("h", [big])

    entry = qdrant_server.log[-1]
    assert (entry.method, entry.path, entry.body_bytes > 20_000) == ("PUT", "/collections/h/points", True)
    message = f"JSON payload ({entry.body_bytes} bytes) is larger than allowed (limit: 10000 bytes)."
    assert (caught.value.status_code, caught.value.structured()["status"]["error"]) == (400, message)


async def test_qdrant_takes_1500_points_of_256_dimensions(qdrant: AsyncQdrantClient) -> None:
    vectors = np.random.default_rng(7).normal(size=(1_500, 256))
    await qdrant.create_collection("many", vectors_config=q.VectorParams(size=256, distance=q.Distance.COSINE))

    await qdrant.upsert(
        "many", [q.PointStruct(id=i, vector=row.tolist(), payload={"i": i}) for i, row in enumerate(vectors)]
    )
    answer = await qdrant.query_points("many", query=vectors[3].tolist(), limit=10)

    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    best = np.argsort(-(unit @ unit[3]))[:10]
    assert [point.id for point in answer.points] == best.tolist()
    assert answer.points[0].score == pytest.approx(1.0, abs=1e-6)


async def test_qdrant_hang_fail_next_and_stop(qdrant_server: QdrantServer) -> None:
    client = AsyncQdrantClient(url=qdrant_server.url, timeout=1, check_compatibility=False)
    qdrant_server.fail_next(1, 500)
    with pytest.raises(UnexpectedResponse) as caught:
        await client.get_collections()
    qdrant_server.hang = True
    with pytest.raises(ResponseHandlingException):
        await client.get_collections()
    qdrant_server.hang = False
    await client.create_collection("kept", vectors_config={})
    qdrant_server.stop()
    with pytest.raises(ResponseHandlingException):
        await client.get_collections()
    qdrant_server.start()
    names = [found.name for found in (await client.get_collections()).collections]
    await client.close()

    assert (caught.value.status_code, names) == (500, ["kept"])
