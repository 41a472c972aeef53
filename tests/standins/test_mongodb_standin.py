"""The stand-in for MongoDB answers its official client as the documentation says."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import pytest

pymongo = pytest.importorskip("pymongo", reason="pip install 'agent-rag-middleware[mongodb]' to run this")

import bson  # noqa: E402
from bson import Binary  # noqa: E402
from bson.binary import BinaryVectorDtype  # noqa: E402
from pymongo import AsyncMongoClient, InsertOne, ReplaceOne  # noqa: E402
from pymongo.asynchronous.collection import AsyncCollection  # noqa: E402
from pymongo.errors import AutoReconnect, BulkWriteError, OperationFailure  # noqa: E402
from pymongo.operations import SearchIndexModel  # noqa: E402

from .mongodb_server import MongoDBServer, MongoError  # noqa: E402

Collection = AsyncCollection[dict[str, Any]]


@pytest.fixture
def mongo() -> Iterator[MongoDBServer]:
    server = MongoDBServer(index_build_s=0.02, search_delay_s=0.0)
    with server:
        yield server


@pytest.fixture
async def inventory(mongo: MongoDBServer) -> AsyncIterator[Collection]:
    async with AsyncMongoClient[dict[str, Any]](mongo.uri, serverSelectionTimeoutMS=2000) as client:
        yield client.shop.inventory


async def ids(collection: Collection, query: dict[str, Any]) -> list[Any]:
    return [doc["_id"] for doc in await collection.find(query, {"_id": 1}).to_list()]


async def rows(collection: Collection, *pipeline: dict[str, Any]) -> list[dict[str, Any]]:
    return await (await collection.aggregate(list(pipeline))).to_list()


async def indexed(collection: Collection, docs: list[dict[str, Any]], index: SearchIndexModel) -> None:
    """Insert, and wait until the index can be asked."""
    await collection.insert_many(docs)
    await collection.create_search_index(index)
    while not (await rows(collection, {"$listSearchIndexes": {}}))[0]["queryable"]:
        await asyncio.sleep(0.01)


def vectors(similarity: str = "cosine", *filters: str) -> SearchIndexModel:
    vector = {"type": "vector", "path": "v", "numDimensions": 2, "similarity": similarity}
    fields = [vector, *({"type": "filter", "path": path} for path in filters)]
    return SearchIndexModel({"fields": fields}, name="vectors", type="vectorSearch")


def texts(**fields: Any) -> SearchIndexModel:
    return SearchIndexModel({"mappings": {"dynamic": False, "fields": fields}}, name="texts", type="search")


def near(*vector: float, **more: Any) -> list[dict[str, Any]]:
    stage = {"index": "vectors", "path": "v", "queryVector": list(vector), "limit": 10, "numCandidates": 100, **more}
    return [{"$vectorSearch": stage}, {"$project": {"score": {"$meta": "vectorSearchScore"}}}]


def search(**operator: Any) -> list[dict[str, Any]]:
    return [{"$search": {"index": "texts", **operator}}, {"$project": {"score": {"$meta": "searchScore"}}}]


async def refusal(collection: Collection, pipeline: list[dict[str, Any]]) -> str:
    """The last part of the server's message."""
    with pytest.raises(OperationFailure) as caught:
        await rows(collection, *pipeline)
    return str(caught.value.details and caught.value.details["errmsg"]).rpartition(" :: ")[2]


# --- the protocol ---


async def test_hello_announces_a_replica_set_of_mongodb_8(inventory: Collection) -> None:
    """It has what drivers need for sessions, and the documented limits."""
    hello = await inventory.database.client.admin.command("hello")

    assert (hello["setName"], hello["isWritablePrimary"], hello["maxWireVersion"]) == ("rs0", True, 25)
    assert (hello["maxBsonObjectSize"], hello["maxMessageSizeBytes"]) == (16_777_216, 48_000_000)


def test_the_wire_protocol_is_op_msg_and_op_query_for_the_handshake(mongo: MongoDBServer) -> None:
    """Raw bytes of the published message formats get replies in them."""
    port = int(mongo.uri.split(":")[2].split("/")[0])

    def roundtrip(op_code: int, payload: bytes) -> tuple[int, int, bytes]:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(struct.pack("<iiii", 16 + len(payload), 7, 0, op_code) + payload)
            length, _, response_to, reply_code = struct.unpack("<iiii", connection.recv(16, socket.MSG_WAITALL))
            return response_to, reply_code, connection.recv(length - 16, socket.MSG_WAITALL)

    ping = struct.pack("<IB", 0, 0) + bson.encode({"ping": 1, "$db": "admin"})
    hello = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + bson.encode({"isMaster": 1})

    answered, code, payload = roundtrip(2013, ping)
    greeted, greeting_code, greeting = roundtrip(2004, hello)

    assert (answered, code, bson.decode(payload[5:])) == (7, 2013, {"ok": 1.0})
    assert (greeted, greeting_code, bson.decode(greeting[20:])["ismaster"]) == (7, 1, True)


async def test_a_repeated_write_is_applied_once(mongo: MongoDBServer, inventory: Collection) -> None:
    """The driver repeats what was cut off, with the same transaction number; reads are repeated as well."""
    mongo.fail_next(1, MongoError(91, "ShutdownInProgress", "going down"), commands=["find"])
    mongo.fail_next(1, "disconnect_after", commands=["insert"])

    await inventory.insert_one({"_id": 1})
    found = await inventory.find_one({"_id": 1})
    mongo.fail_next(2, "disconnect", commands=["find"])
    with pytest.raises(AutoReconnect):
        await inventory.find_one({})

    assert found == {"_id": 1}


async def test_cursors_hand_out_batches(inventory: Collection) -> None:
    """As many documents as asked for, and no more than 16 MB."""
    await inventory.insert_many([{"_id": n, "x": "y" * 4_000_000} for n in range(6)])

    found = [doc["_id"] async for doc in inventory.find({}, batch_size=5)]

    assert found == list(range(6))


async def test_mistakes_have_the_servers_codes(inventory: Collection) -> None:
    """Commands, fields, stages and operators that are not there."""
    codes = []
    for command in (
        {"nothing": 1},
        {"find": "c", "filters": {}},
        {"aggregate": "c", "cursor": {}, "pipeline": [{"$nothing": {}}]},
        {"find": "c", "filter": {"a": {"$regex": "x"}}},
    ):
        with pytest.raises(OperationFailure) as caught:
            await inventory.database.command(command)
        codes.append(caught.value.code)

    assert codes == [59, 40415, 40324, 2]


# --- documents ---


async def test_queries(inventory: Collection) -> None:
    """As "Query an Array" and "Query for Null or Missing Fields" say."""
    await inventory.insert_many(
        [
            {"_id": 0, "tags": ["blank", "red"], "n": 1},
            {"_id": 1, "tags": ["red"], "n": 2},
            {"_id": 2, "tags": [], "item": None},
            {"_id": 3, "item": "x"},
        ]
    )

    queries: list[tuple[dict[str, Any], list[int]]] = [
        ({"tags": "red"}, [0, 1]),
        ({"tags": {"$in": ["blank", "other"]}}, [0]),
        ({"tags": {"$nin": ["blank"]}}, [1, 2, 3]),
        ({"item": None}, [0, 1, 2]),
        ({"n": {"$lt": 2}}, [0]),
        ({"$or": [{"item": "x"}, {"$and": [{"tags": "red"}, {"n": 2}]}]}, [1, 3]),
        ({"_id": {"$in": [3, 0, 9]}}, [3, 0]),
    ]
    assert [await ids(inventory, query) for query, _ in queries] == [kept for _, kept in queries]


async def test_find_sorts_limits_and_projects(inventory: Collection) -> None:
    """By several fields, one of them descending."""
    await inventory.insert_many([{"_id": n, "a": n % 2, "b": n, "c": 0} for n in range(4)])

    found = await inventory.find({}, {"b": 1}, sort=[("a", 1), ("b", -1)], limit=3).to_list()

    assert found == [{"_id": 2, "b": 2}, {"_id": 0, "b": 0}, {"_id": 3, "b": 3}]


async def test_groups_and_counts(inventory: Collection) -> None:
    """Sums of a field and of a number, by a field or over all."""
    await inventory.insert_many([{"_id": n, "kind": "ab"[n % 2], "n": n} for n in range(5)])

    sums = await rows(
        inventory,
        {"$match": {"_id": {"$nin": [0]}}},
        {"$group": {"_id": "$kind", "n": {"$sum": "$n"}, "rows": {"$sum": 1}}},
    )

    assert sums == [{"_id": "b", "n": 4, "rows": 2}, {"_id": "a", "n": 6, "rows": 2}]
    assert await inventory.count_documents({"kind": "a"}, limit=2) == 2


async def test_writes_say_what_they_did(inventory: Collection) -> None:
    """Matched, modified, upserted, deleted, and which one failed."""
    set_once = {"$setOnInsert": {"n": 0}}
    upserted = [(await inventory.update_one({"_id": 1}, set_once, upsert=True)).upserted_id for _ in range(2)]
    bulk: list[Any] = [
        ReplaceOne({"_id": 1, "n": 0}, {"n": 1}),
        ReplaceOne({"_id": 1, "n": 0}, {"n": 2}),
        InsertOne({"_id": 2}),
    ]

    done = await inventory.bulk_write(bulk, ordered=False)
    with pytest.raises(BulkWriteError) as caught:
        await inventory.insert_many([{"_id": 2}, {"_id": 3}], ordered=False)
    deleted = await inventory.delete_many({"_id": {"$in": [2, 3, 77]}})

    assert upserted == [1, None]
    assert (done.matched_count, done.modified_count, done.inserted_count) == (1, 1, 1)
    assert [(error["index"], error["code"]) for error in caught.value.details["writeErrors"]] == [(0, 11000)]
    assert deleted.deleted_count == 2
    assert await inventory.find({}).to_list() == [{"_id": 1, "n": 1}]


# --- search ---


@pytest.mark.parametrize(
    ("similarity", "scores"),
    [
        # query (1, 0); documents (1, 0), (.6, .8), (0, 1), (-1, 0): cosine and dot 1, .6, 0, -1 -> (1 + x) / 2
        ("cosine", [1.0, 0.8, 0.5, 0.0]),
        ("dotProduct", [1.0, 0.8, 0.5, 0.0]),
        # distances 0, sqrt(.16 + .64) = .894427, sqrt(2) = 1.414214, 2 -> 1 / (1 + x)
        ("euclidean", [1.0, 0.527864, 0.414214, 0.333333]),
    ],
)
async def test_vector_scores(inventory: Collection, similarity: str, scores: list[float]) -> None:
    """Normalised as "Score the Documents in the Results" says; a document may hold a BSON vector."""
    packed = Binary.from_vector([0.6, 0.8], BinaryVectorDtype.FLOAT32)
    held: list[Any] = [[1.0, 0.0], packed, [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0, 0.0]]
    await indexed(inventory, [{"_id": n, "v": v} for n, v in enumerate(held)], vectors(similarity))

    found = await rows(inventory, *near(1, 0))

    assert [doc["_id"] for doc in found] == [0, 1, 2, 3]
    assert [doc["score"] for doc in found] == pytest.approx(scores, abs=1e-6)


async def test_vector_search_checks_its_arguments(inventory: Collection) -> None:
    """Bounds, dimensions and filter paths are refused with the texts of mongot; the filter runs before the limit."""
    docs = [{"_id": n, "v": [1.0, n], "tags": ["a", "b"][n:]} for n in range(2)]
    await indexed(inventory, docs, vectors("cosine", "tags"))

    assert await refusal(inventory, near(1, 0, filter={"lang": "en"})) == "Path 'lang' needs to be indexed as filter"
    assert "indexed with 2 dimensions but queried with 3" in await refusal(inventory, near(1, 0, 0))
    assert '"numCandidates" must be within bounds' in await refusal(inventory, near(1, 0, numCandidates=10_001))
    assert '"numCandidates" must be omitted' in await refusal(inventory, near(1, 0, exact=True))
    assert "against a zero vector" in await refusal(inventory, near(0, 0))
    assert await refusal(inventory, near(1, 0, path="w")) == "w is not indexed as vector"
    assert await refusal(inventory, near(1, 0, k=3)) == '"$vectorSearch" unrecognized field "k"'
    found = await rows(inventory, *near(1, 0, limit=1, filter={"tags": {"$nin": ["a"]}}))
    assert [doc["_id"] for doc in found] == [1]


@pytest.mark.parametrize("building", ["empty", "error"])
async def test_a_new_index_is_not_queryable_at_once(building: Literal["empty", "error"]) -> None:
    """A search has no rows, or mongot's error; without an index it has none."""
    with MongoDBServer(index_build_s=60.0, building=building) as uri:
        async with AsyncMongoClient[dict[str, Any]](uri) as client:
            await client.db.c.insert_one({"_id": 1, "v": [1.0, 0.0]})
            missing = await rows(client.db.c, *near(1, 0))
            await client.db.c.create_search_index(vectors())
            (state,) = await rows(client.db.c, {"$listSearchIndexes": {"name": "vectors"}})

            assert (missing, state["status"], state["queryable"]) == ([], "PENDING", False)
            if building == "empty":
                assert await rows(client.db.c, *near(1, 0)) == []
            else:
                assert "while in state" in await refusal(client.db.c, near(1, 0))


async def test_search_sees_writes_late_and_documents_as_they_are(mongo: MongoDBServer, inventory: Collection) -> None:
    """A deleted document takes a place until search knows, and gives no row; a changed one keeps its old score."""
    await indexed(inventory, [{"_id": n, "v": [1.0, 0.0]} for n in range(3)], vectors())
    mongo.storage.search_delay_s = 60.0

    await inventory.insert_one({"_id": 3, "v": [1.0, 0.0]})
    await inventory.delete_one({"_id": 0})
    await inventory.update_one({"_id": 1}, {"$set": {"v": [0.0, 1.0]}})

    assert await rows(inventory, *near(1, 0, limit=2)) == [{"_id": 1, "score": 1.0}]


async def test_text_scores_are_bm25(inventory: Collection) -> None:
    """N = 3, average length 7/3; "apple" in two, idf = ln(1 + 1.5 / 2.5) = .470004. Length 2: 1 / (1 + 1.2 (.25 + .75 *
    2 / (7/3))) = .482759, score .226898. Length 3: .406977, score .191281.

    After a deletion N = 2, average 5/2, n = 1, idf = ln(1 + 1.5 / 1.5) = .693147, length 2: 1 / (1 + 1.2 (.25 + .75 *
    2 / 2.5)) = .495050, score .343142.
    """
    docs = [{"_id": n, "t": text} for n, text in enumerate(["red apple", "green apple pie", "blue sky"])]
    await indexed(inventory, docs, texts(t={"type": "string", "analyzer": "lucene.whitespace"}))
    apple = search(text={"query": "apple", "path": "t"})

    before = await rows(inventory, *apple)
    await inventory.delete_one({"_id": 2})
    await inventory.insert_one({"_id": 2, "t": "blue"})
    await inventory.delete_many({"_id": {"$in": [0, 2]}})
    await inventory.insert_one({"_id": 4, "t": "blue sky"})
    after = await rows(inventory, *apple)

    assert before == [
        {"_id": 0, "score": pytest.approx(0.226898, abs=1e-6)},
        {"_id": 1, "score": pytest.approx(0.191281, abs=1e-6)},
    ]
    # length 3: 1 / (1 + 1.2 (.25 + .75 * 3 / 2.5)) = .420168, score .291238
    assert after == [{"_id": 1, "score": pytest.approx(0.291238, abs=1e-6)}]


async def test_compound_search(inventory: Collection) -> None:
    """should adds scores, filter and mustNot only decide; a negation alone finds nothing."""
    docs = [
        {"_id": n, "t": text, "lang": lang} for n, (text, lang) in enumerate([("a", ["en"]), ("a", ["de"]), ("b", [])])
    ]
    fields = {"t": {"type": "string", "analyzer": "lucene.whitespace"}, "lang": {"type": "token"}}
    await indexed(inventory, docs, texts(**fields))

    async def found(**compound: Any) -> list[Any]:
        return [doc["_id"] for doc in await rows(inventory, *search(compound=compound))]

    english, a = {"in": {"path": "lang", "value": ["en", "fr"]}}, {"text": {"query": "a", "path": "t"}}
    exists = {"exists": {"path": "lang"}}
    assert await found(should=[a], minimumShouldMatch=1) == [0, 1]
    assert await found(should=[a], minimumShouldMatch=1, filter=[english]) == [0]
    assert await found(filter=[exists], mustNot=[english]) == [1, 2]
    assert await found(mustNot=[english]) == []
    assert "needs to be indexed as token" in await refusal(inventory, search(**{"in": {"path": "x", "value": ["y"]}}))
    assert 'unrecognized field "wildcard"' in await refusal(inventory, search(wildcard={"path": "t", "query": "*"}))


async def test_search_index_commands(inventory: Collection) -> None:
    """Names are unique, definitions are checked, and drop ends an index."""
    bad = SearchIndexModel({"fields": [{"type": "vector", "path": "v", "dims": 2}]}, name="x", type="vectorSearch")
    codes = []
    for prepare, model in ((None, vectors()), ({"_id": 1}, vectors()), ({"_id": 2}, vectors()), ({"_id": 3}, bad)):
        if prepare:
            await inventory.insert_one(prepare)
        try:
            await inventory.create_search_index(model)
        except OperationFailure as error:
            codes.append(error.code)

    await inventory.drop_search_index("vectors")

    assert codes == [26, 68, 2]
    assert await rows(inventory, {"$listSearchIndexes": {}}) == []
