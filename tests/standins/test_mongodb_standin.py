"""The stand-in for MongoDB answers its official client as the documentation says."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import bson
import pytest

pymongo = pytest.importorskip("pymongo", reason="needs pip install pymongo", exc_type=ImportError)

from bson import Binary, Int64  # noqa: E402
from bson.binary import BinaryVectorDtype  # noqa: E402
from pymongo import AsyncMongoClient, InsertOne, UpdateOne  # noqa: E402
from pymongo.asynchronous.collection import AsyncCollection  # noqa: E402
from pymongo.errors import (  # noqa: E402
    AutoReconnect,
    BulkWriteError,
    DuplicateKeyError,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)
from pymongo.operations import SearchIndexModel  # noqa: E402

from .mongodb_server import MongoDBServer, MongoError  # noqa: E402

pytestmark = pytest.mark.asyncio

Collection = AsyncCollection[dict[str, Any]]


@pytest.fixture
def mongo() -> Iterator[MongoDBServer]:
    server = MongoDBServer(index_build_s=0.05, search_delay_s=0.0)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def client(mongo: MongoDBServer) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo.uri, serverSelectionTimeoutMS=2000)
    yield client
    await client.close()


@pytest.fixture
def inventory(client: AsyncMongoClient[dict[str, Any]]) -> Collection:
    return client.shop.inventory


async def ids(collection: Collection, query: dict[str, Any]) -> list[Any]:
    return [doc["_id"] for doc in await collection.find(query, {"_id": 1}).to_list()]


async def rows(collection: Collection, *pipeline: dict[str, Any]) -> list[dict[str, Any]]:
    return await (await collection.aggregate(list(pipeline))).to_list()


async def queryable(collection: Collection, name: str) -> None:
    for _ in range(200):
        found = await (await collection.list_search_indexes(name)).to_list()
        if found and found[0]["queryable"]:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{name} does not become queryable")


def vector_index(*filters: str, similarity: str = "cosine", dimensions: int = 2) -> SearchIndexModel:
    vector = {"type": "vector", "path": "v", "numDimensions": dimensions, "similarity": similarity}
    fields = [vector, *({"type": "filter", "path": path} for path in filters)]
    return SearchIndexModel({"fields": fields}, name="vectors", type="vectorSearch")


def near(*vector: float, limit: int = 10, **extra: Any) -> list[dict[str, Any]]:
    candidates = {} if extra.get("exact") or "numCandidates" in extra else {"numCandidates": 100}
    stage = {
        "index": "vectors",
        "path": "v",
        "queryVector": list(vector),
        "limit": limit,
        **candidates,
        **extra,
    }
    return [{"$vectorSearch": stage}, {"$project": {"score": {"$meta": "vectorSearchScore"}}}]


async def with_vectors(collection: Collection, docs: list[dict[str, Any]], index: SearchIndexModel) -> None:
    await collection.insert_many(docs)
    await collection.create_search_index(index)
    await queryable(collection, "vectors")


async def test_hello_announces_a_replica_set_of_mongodb_8(client: AsyncMongoClient[dict[str, Any]]) -> None:
    """`hello` has what drivers need for sessions and transactions, and the documented limits."""
    hello = await client.admin.command("hello")

    assert hello["setName"] == "rs0"
    assert hello["isWritablePrimary"] is True
    assert hello["maxWireVersion"] == 25
    assert hello["logicalSessionTimeoutMinutes"] == 30
    assert hello["maxBsonObjectSize"] == 16_777_216
    assert hello["maxMessageSizeBytes"] == 48_000_000
    assert hello["maxWriteBatchSize"] == 100_000


async def test_the_wire_protocol_is_op_msg_and_op_query_for_the_handshake(mongo: MongoDBServer) -> None:
    """Raw bytes of the published message formats get replies in them; a message above 48 MB closes the
    connection.
    """

    def roundtrip(op_code: int, payload: bytes) -> tuple[int, int, bytes]:
        with socket.create_connection(("127.0.0.1", mongo.port)) as connection:
            connection.sendall(struct.pack("<iiii", 16 + len(payload), 7, 0, op_code) + payload)
            length, _, response_to, reply_code = struct.unpack("<iiii", connection.recv(16, socket.MSG_WAITALL))
            return response_to, reply_code, connection.recv(length - 16, socket.MSG_WAITALL)

    ping = bson.encode({"ping": 1, "$db": "admin"})
    response_to, op_code, payload = roundtrip(2013, struct.pack("<IB", 0, 0) + ping)
    assert (response_to, op_code) == (7, 2013)
    assert bson.decode(payload[5:]) == {"ok": 1.0}

    query = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + bson.encode({"isMaster": 1})
    response_to, op_code, payload = roundtrip(2004, query)
    assert (response_to, op_code) == (7, 1)
    assert bson.decode(payload[20:])["ismaster"] is True

    with socket.create_connection(("127.0.0.1", mongo.port)) as connection:
        connection.sendall(struct.pack("<iiii", 48_000_001, 1, 0, 2013))
        assert connection.recv(1) == b""


async def test_query_for_null_or_missing_fields(inventory: Collection) -> None:
    """The examples of the manual page of that name."""
    await inventory.insert_many([{"_id": 1, "item": None}, {"_id": 2}])

    assert await ids(inventory, {"item": None}) == [1, 2]
    assert await ids(inventory, {"item": {"$ne": None}}) == []
    assert await ids(inventory, {"item": {"$type": 10}}) == [1]
    assert await ids(inventory, {"item": {"$exists": False}}) == [2]


async def test_query_an_array(inventory: Collection) -> None:
    """The examples of the manual page of that name."""
    await inventory.insert_many(
        [
            {"_id": "journal", "qty": 25, "tags": ["blank", "red"], "dim_cm": [14, 21]},
            {"_id": "notebook", "qty": 50, "tags": ["red", "blank"], "dim_cm": [14, 21]},
            {"_id": "paper", "qty": 100, "tags": ["red", "blank", "plain"], "dim_cm": [14, 21]},
            {"_id": "planner", "qty": 75, "tags": ["blank", "red"], "dim_cm": [22.85, 30]},
            {"_id": "postcard", "qty": 45, "tags": ["blue"], "dim_cm": [10, 15.25]},
        ]
    )
    four = ["journal", "notebook", "paper", "planner"]

    assert await ids(inventory, {"tags": ["red", "blank"]}) == ["notebook"]
    assert await ids(inventory, {"tags": {"$all": ["red", "blank"]}}) == four
    assert await ids(inventory, {"tags": "red"}) == four
    assert await ids(inventory, {"dim_cm": {"$gt": 25}}) == ["planner"]
    assert await ids(inventory, {"dim_cm": {"$gt": 15, "$lt": 20}}) == [
        "journal",
        "notebook",
        "paper",
        "postcard",
    ]
    assert await ids(inventory, {"dim_cm": {"$elemMatch": {"$gt": 22, "$lt": 30}}}) == ["planner"]
    assert await ids(inventory, {"dim_cm.1": {"$gt": 25}}) == ["planner"]
    assert await ids(inventory, {"tags": {"$size": 3}}) == ["paper"]


async def test_comparison_brackets_types(inventory: Collection) -> None:
    """A comparison sees only values of its own type; 1 is 1.0 and not True; NaN equals only NaN."""
    values = [1, 1.0, Int64(1), True, "1", None, [1], {"b": 1}, float("nan"), datetime(2024, 1, 1)]
    await inventory.insert_many([{"_id": i, "a": value} for i, value in enumerate(values)])

    assert await ids(inventory, {"a": 1}) == [0, 1, 2, 6]
    assert await ids(inventory, {"a": True}) == [3]
    assert await ids(inventory, {"a": {"$gte": 0}}) == [0, 1, 2, 6]
    assert await ids(inventory, {"a": {"$lt": "2"}}) == [4]
    assert await ids(inventory, {"a": {"$gt": datetime(2023, 1, 1)}}) == [9]
    assert await ids(inventory, {"a": float("nan")}) == [8]
    assert await ids(inventory, {"a.b": {"$in": [1, 2]}}) == [7]
    assert await ids(inventory, {"a": {"$not": {"$gte": 0}}}) == [3, 4, 5, 7, 8, 9]
    assert await ids(inventory, {"$nor": [{"a": {"$type": "number"}}, {"a": None}]}) == [3, 4, 7, 9]


async def test_dotted_paths_walk_arrays_of_documents(inventory: Collection) -> None:
    """A path goes through arrays; null matches where an element lacks the field, not in an empty array."""
    await inventory.insert_many(
        [
            {"_id": 0, "a": [{"b": 1}, {"b": 2}]},
            {"_id": 1, "a": [{"b": 1}, {"c": 2}]},
            {"_id": 2, "a": []},
            {"_id": 3, "a": 4},
            {"_id": 4, "a.b": 1},
        ]
    )

    assert await ids(inventory, {"a.b": 1}) == [0, 1]
    assert await ids(inventory, {"a.b": None}) == [1, 3, 4]
    assert await ids(inventory, {"a.b": {"$exists": True}}) == [0, 1]
    assert await ids(inventory, {"a": {"$elemMatch": {"b": 1, "c": None}}}) == [0, 1]
    assert await ids(inventory, {"a.1.b": 2}) == [0]


async def test_update_operators(inventory: Collection) -> None:
    """The examples of the manual pages $inc and $setOnInsert, and a few more operators."""
    await inventory.insert_one({"_id": 1, "sku": "abc123", "quantity": 10, "metrics": {"orders": 2, "ratings": 3.5}})

    await inventory.update_one({"sku": "abc123"}, {"$inc": {"quantity": -2, "metrics.orders": 1}})
    upserted = await inventory.update_one(
        {"_id": 2}, {"$set": {"item": "apple"}, "$setOnInsert": {"defaultQty": 100}}, upsert=True
    )
    await inventory.update_one({"_id": 2}, {"$push": {"tags": "a"}, "$unset": {"item": ""}})
    await inventory.update_one({"_id": 2}, [{"$set": {"n": {"$size": "$tags"}}}])

    assert upserted.upserted_id == 2
    assert await inventory.find({}).to_list() == [
        {"_id": 1, "sku": "abc123", "quantity": 8, "metrics": {"orders": 3, "ratings": 3.5}},
        {"_id": 2, "defaultQty": 100, "tags": ["a"], "n": 1},
    ]


async def test_mistakes_have_the_servers_codes(inventory: Collection) -> None:
    """Unknown commands, fields, operators and stages are refused with the codes of the server."""
    await inventory.insert_one({"_id": 1, "a": 1})
    database = inventory.database

    async def code(call: Any) -> int | None:
        with pytest.raises(OperationFailure) as caught:
            await call
        return caught.value.code

    assert await code(database.command("nonsense")) == 59
    assert await code(database.command("find", "inventory", nonsense=1)) == 40415
    assert await code(inventory.find({"a": {"$near": 1}}).to_list()) == 2
    assert await code(inventory.update_one({}, {"$frob": {"a": 1}})) == 9
    assert await code(inventory.update_one({}, {"$set": {"_id": 2}})) == 66
    assert await code(inventory.update_one({}, {"$set": {"a": 1, "a.b": 2}})) == 40
    assert await code(inventory.update_one({}, {"$set": {"a.b": 2}})) == 28
    assert await code(inventory.aggregate([{"$frob": {}}])) == 40324
    assert await code(inventory.aggregate([{"$project": {"x": {"$frob": 1}}}])) == 168
    assert await code(inventory.find({}, {"a": 1, "b": 0}).to_list()) == 31254
    assert await code(database.command("getMore", Int64(99), collection="inventory")) == 43


async def test_projections(inventory: Collection) -> None:
    """Inclusion keeps `_id`, exclusion drops, paths reach into arrays of documents."""
    await inventory.insert_one({"_id": 1, "a": 1, "b": {"c": 2, "d": 3}, "e": [{"f": 4, "g": 5}]})

    async def shown(projection: Any) -> Any:
        return await inventory.find_one({}, projection)

    assert await shown({"_id": 1}) == {"_id": 1}
    assert await shown({"a": 1}) == {"_id": 1, "a": 1}
    assert await shown({"b.c": 1, "e.f": 1, "_id": 0}) == {"b": {"c": 2}, "e": [{"f": 4}]}
    assert await shown({"b": 0, "e.g": 0}) == {"_id": 1, "a": 1, "e": [{"f": 4}]}
    assert await shown({"a": 1, "sum": {"$add": ["$a", "$b.c"]}}) == {"_id": 1, "a": 1, "sum": 3}


async def test_sort_orders_types_and_arrays(inventory: Collection) -> None:
    """The comparison order of the manual: null, numbers, strings, objects, booleans, dates; arrays by their
    extreme.
    """
    values = [datetime(2024, 1, 1), True, {"x": 1}, "a", 2, None, [0, 9]]
    await inventory.insert_many([{"_id": i, "a": value} for i, value in enumerate(values)])

    ascending = [doc["_id"] for doc in await inventory.find().sort("a", 1).to_list()]
    descending = [doc["_id"] for doc in await inventory.find().sort("a", -1).to_list()]

    assert ascending == [5, 6, 4, 3, 2, 1, 0]
    assert descending == [0, 1, 2, 3, 6, 4, 5]


async def test_cursors_hand_out_batches(inventory: Collection, mongo: MongoDBServer) -> None:
    """The first batch has 101 documents, `getMore` gives the rest, a batch ends before 16 MB."""
    await inventory.insert_many([{"_id": i} for i in range(250)])
    await inventory.database.big.insert_many([{"_id": i, "x": "x" * 4_000_000} for i in range(5)])
    mongo.requests.clear()

    everything = await inventory.find({}).to_list()
    sized = await inventory.find({}, batch_size=100).sort("_id", -1).skip(10).limit(220).to_list()
    big = await inventory.database.big.find({}).to_list()

    assert [doc["_id"] for doc in everything] == list(range(250))
    assert [doc["_id"] for doc in sized] == list(range(239, 19, -1))
    assert len(big) == 5
    batches = [request.command for request in mongo.requests]
    assert batches == ["find", "getMore", "find", "getMore", "getMore", "find", "getMore"]


async def test_documents_above_16_mb_are_refused(inventory: Collection) -> None:
    """An update that makes a document too large fails with 10334 and changes nothing."""
    await inventory.insert_one({"_id": 1, "x": "x" * 10_000_000})

    with pytest.raises(OperationFailure) as caught:
        await inventory.update_one({"_id": 1}, [{"$set": {"y": "$x"}}])

    assert caught.value.code == 10334
    assert await inventory.count_documents({"y": {"$exists": True}}) == 0


async def test_aggregation_stages(inventory: Collection) -> None:
    """$group, $unwind, $unionWith, $facet and $replaceRoot as in the examples of their manual pages."""
    await inventory.insert_many(
        [
            {"_id": 1, "item": "abc", "price": 10, "quantity": 2, "sizes": ["S", "M", "L"]},
            {"_id": 2, "item": "jkl", "price": 20, "quantity": 1, "sizes": []},
            {"_id": 3, "item": "abc", "price": 10, "quantity": 5, "sizes": "M"},
        ]
    )
    await inventory.database.other.insert_one({"_id": 9, "item": "xyz"})
    total = {"$sum": {"$multiply": ["$price", "$quantity"]}}

    grouped = await rows(
        inventory,
        {"$group": {"_id": "$item", "total": total, "n": {"$avg": "$quantity"}}},
        {"$sort": {"_id": 1}},
    )
    unwound = await rows(inventory, {"$unwind": "$sizes"}, {"$project": {"sizes": 1}})
    union = await rows(
        inventory,
        {"$match": {"_id": 2}},
        {"$unionWith": {"coll": "other", "pipeline": []}},
        {"$project": {"item": 1}},
    )
    facet = await rows(inventory, {"$facet": {"n": [{"$count": "all"}], "first": [{"$limit": 1}, {"$unset": "sizes"}]}})
    root = await rows(inventory, {"$limit": 1}, {"$replaceRoot": {"newRoot": {"all": {"$concat": ["$item", "!"]}}}})

    assert grouped == [{"_id": "abc", "total": 70, "n": 3.5}, {"_id": "jkl", "total": 20, "n": 1.0}]
    assert unwound == [{"_id": 1, "sizes": s} for s in "SML"] + [{"_id": 3, "sizes": "M"}]
    assert union == [{"_id": 2, "item": "jkl"}, {"_id": 9, "item": "xyz"}]
    assert facet == [{"n": [{"all": 3}], "first": [{"_id": 1, "item": "abc", "price": 10, "quantity": 2}]}]
    assert root == [{"all": "abc!"}]


async def test_unique_indexes_and_bulk_errors(inventory: Collection) -> None:
    """A taken key is error 11000 with its pattern and value; unordered writes go on after it."""
    await inventory.create_index([("a", 1), ("b", 1)], unique=True)

    with pytest.raises(BulkWriteError) as caught:
        await inventory.bulk_write(
            [InsertOne({"_id": i, "a": 1, "b": b}) for i, b in enumerate([1, 1, 2])], ordered=False
        )
    with pytest.raises(DuplicateKeyError) as again:
        await inventory.update_one({"_id": 2}, {"$set": {"b": 1}})

    assert caught.value.details["nInserted"] == 2
    assert [(e["index"], e["code"]) for e in caught.value.details["writeErrors"]] == [(1, 11000)]
    assert again.value.details is not None
    assert again.value.details["keyValue"] == {"a": 1, "b": 1}
    assert [index["name"] for index in await (await inventory.list_indexes()).to_list()] == [
        "_id_",
        "a_1_b_1",
    ]


async def test_a_transaction_is_invisible_until_its_commit(
    client: AsyncMongoClient[dict[str, Any]], inventory: Collection
) -> None:
    """Outside the transaction its writes appear all at once with the commit, or never after an abort."""
    await inventory.insert_one({"_id": 1})

    async with client.start_session() as session:
        async with await session.start_transaction():
            await inventory.delete_one({"_id": 1}, session=session)
            await inventory.insert_many([{"_id": 2}, {"_id": 3}], session=session)
            inside, outside = await inventory.find({}, session=session).to_list(), await ids(inventory, {})
        after = await ids(inventory, {})
        await session.start_transaction()
        await inventory.delete_many({}, session=session)
        await session.abort_transaction()

    assert (inside, outside, after) == ([{"_id": 2}, {"_id": 3}], [1], [2, 3])
    assert await ids(inventory, {}) == [2, 3]


async def test_a_write_conflict_is_transient(client: AsyncMongoClient[dict[str, Any]], inventory: Collection) -> None:
    """The second writer of a document gets error 112, labelled for a retry; a write outside waits for the
    commit.
    """
    await inventory.insert_one({"_id": 1, "n": 0})

    async with client.start_session() as first, client.start_session() as second:
        await first.start_transaction()
        await second.start_transaction()
        await inventory.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=first)
        with pytest.raises(OperationFailure) as caught:
            await inventory.update_one({"_id": 1}, {"$inc": {"n": 10}}, session=second)
        waiting = asyncio.create_task(inventory.update_one({"_id": 1}, {"$inc": {"n": 100}}))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        await first.commit_transaction()
        await waiting
        await second.abort_transaction()
        retried = await second.with_transaction(
            lambda s: inventory.find_one_and_update({"_id": 1}, {"$inc": {"n": 1000}}, session=s)
        )

    assert caught.value.code == 112
    assert caught.value.has_error_label("TransientTransactionError")
    assert not done
    assert retried == {"_id": 1, "n": 101}


async def test_an_error_ends_the_transaction(client: AsyncMongoClient[dict[str, Any]], inventory: Collection) -> None:
    """After a failed statement the transaction is gone: the next one gets NoSuchTransaction (251)."""
    await inventory.insert_one({"_id": 1})

    async with client.start_session() as session:
        await session.start_transaction()
        with pytest.raises(DuplicateKeyError):
            await inventory.insert_one({"_id": 1}, session=session)
        with pytest.raises(OperationFailure) as caught:
            await inventory.insert_one({"_id": 2}, session=session)
        await session.abort_transaction()

    assert caught.value.code == 251
    assert await ids(inventory, {}) == [1]


async def test_search_stages_are_not_allowed_in_a_transaction(
    client: AsyncMongoClient[dict[str, Any]], inventory: Collection
) -> None:
    """$vectorSearch inside a transaction is error 263."""
    await inventory.insert_one({"v": [1.0, 0.0]})

    async with client.start_session() as session:
        await session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            await inventory.aggregate(near(1, 0), session=session)
        await session.abort_transaction()

    assert caught.value.code == 263


@pytest.mark.parametrize(
    ("similarity", "scores"),
    [
        # query (1, 0); documents (1, 0), (0.6, 0.8), (0, 1), (-1, 0)
        # cosine and dot 1, 0.6, 0, -1 -> (1 + x) / 2
        ("cosine", [1.0, 0.8, 0.5, 0.0]),
        ("dotProduct", [1.0, 0.8, 0.5, 0.0]),
        # distances 0, sqrt(0.16 + 0.64) = 0.894427, sqrt(2) = 1.414214, 2 -> 1 / (1 + x)
        ("euclidean", [1.0, 0.527864, 0.414214, 0.333333]),
    ],
)
async def test_vector_scores(inventory: Collection, similarity: str, scores: list[float]) -> None:
    """Scores are normalised as "Score the Documents in the Results" documents."""
    docs = [{"_id": i, "v": v} for i, v in enumerate([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])]
    await with_vectors(inventory, docs, vector_index(similarity=similarity))

    found = await rows(inventory, *near(1, 0))

    assert [doc["_id"] for doc in found] == [0, 1, 2, 3]
    assert [doc["score"] for doc in found] == pytest.approx(scores, abs=1e-6)


async def test_bson_vectors_are_vectors(inventory: Collection) -> None:
    """Documents and queries may hold BSON vectors of float32 instead of arrays."""
    packed = Binary.from_vector([0.6, 0.8], BinaryVectorDtype.FLOAT32)
    await with_vectors(inventory, [{"_id": 1, "v": packed}], vector_index())

    found = await rows(inventory, {"$vectorSearch": near(1, 0)[0]["$vectorSearch"] | {"queryVector": packed}})

    assert [doc["_id"] for doc in found] == [1]


async def test_a_new_index_is_not_queryable_at_once() -> None:
    """Status goes PENDING, BUILDING, READY; before READY a search has no rows, or mongot's error where asked
    for.
    """
    for building in ("empty", "error"):
        with MongoDBServer(index_build_s=0.3, building=building) as uri:  # type: ignore[arg-type]
            client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
            collection = client.db.c
            await collection.insert_one({"_id": 1, "v": [1.0, 0.0]})
            missing = await rows(collection, *near(1, 0))
            await collection.create_search_index(vector_index())
            states: list[tuple[str, bool]] = []
            early: Any = None
            while ("READY", True) not in states:
                index = (await (await collection.list_search_indexes("vectors")).to_list())[0]
                if (index["status"], index["queryable"]) not in states:
                    states.append((index["status"], index["queryable"]))
                if early is None:
                    try:
                        early = await rows(collection, *near(1, 0))
                    except OperationFailure as error:
                        early = error.details["errmsg"] if error.details else None
                await asyncio.sleep(0.01)
            ready = await rows(collection, *near(1, 0))
            await client.close()

        assert missing == []
        assert states == [("PENDING", False), ("BUILDING", False), ("READY", True)]
        assert early == [] if building == "empty" else "while in state NOT_STARTED" in early
        assert ready == [{"_id": 1, "score": 1.0}]


async def test_vector_search_checks_its_arguments(inventory: Collection) -> None:
    """Bounds, dimensions, filter paths and operators are refused with the texts of mongot."""
    await with_vectors(inventory, [{"_id": 1, "v": [1.0, 0.0], "year": 2024}], vector_index("year"))

    async def message(pipeline: list[dict[str, Any]]) -> str:
        with pytest.raises(OperationFailure) as caught:
            await rows(inventory, *pipeline)
        return str(caught.value.details and caught.value.details["errmsg"]).rpartition(" :: ")[2]

    assert await message(near(1, 0, filter={"lang": "en"})) == "Path 'lang' needs to be indexed as filter"
    assert await message(near(1, 0, filter={"year": {"$regex": "x"}})) == '"filter.year" unsupported operator $regex'
    assert "must be a boolean" in await message(near(1, 0, filter={"year": {"$eq": [1]}}))
    assert await message(near(1, 0, 0)) == "vector field is indexed with 2 dimensions but queried with 3"
    assert await message(near(1, 0, numCandidates=10_001)) == '"numCandidates" must be within bounds [1..10000]'
    assert await message(near(1, 0, limit=200)) == '"limit" must be less than or equal to "numCandidates"'
    assert (
        await message(near(1, 0, exact=True, numCandidates=10))
        == '"numCandidates" must be omitted when "exact" is set to true'
    )
    assert await message(near(0, 0)) == "Cosine similarity cannot be calculated against a zero vector."
    assert await message(near(1, 0, path="w")) == "w is not indexed as vector"
    assert await message(near(1, 0, k=3)) == '"$vectorSearch" unrecognized field "k"'
    assert "only valid as the first stage" in await message([{"$match": {}}, *near(1, 0)])
    assert len(await rows(inventory, *near(1, 0, exact=True, limit=20_000))) == 1


async def test_vector_search_prefilters(inventory: Collection) -> None:
    """The filter runs before the limit; inside arrays of documents nothing is indexed."""
    docs = [
        {"_id": 0, "v": [1.0, 0.0], "m": {"year": 2020, "tags": ["a", "b"]}},
        {"_id": 1, "v": [0.9, 0.1], "m": {"year": 2024, "tags": ["b"]}},
        {"_id": 2, "v": [0.0, 1.0], "m": {"year": None}},
        {"_id": 3, "v": [0.0, 1.0], "m": [{"year": 2024}]},
        {"_id": 4, "v": [1.0, 0.0, 0.0], "m": {"year": 2024}},
    ]
    await with_vectors(inventory, docs, vector_index("m.year", "m.tags"))

    async def found(condition: dict[str, Any], limit: int = 10) -> list[Any]:
        return [doc["_id"] for doc in await rows(inventory, *near(1, 0, limit=limit, filter=condition))]

    assert await found({"m.year": {"$gte": 2021}}, limit=1) == [1]
    assert await found({"m.tags": {"$in": ["a", "x"]}}) == [0]
    assert await found({"m.year": {"$ne": 2020}}) == [1, 2, 3]
    assert await found({"m.year": {"$exists": False}}) == [3]
    assert await found({"$or": [{"m.year": None}, {"m.tags": "b"}]}) == [0, 1, 2, 3]
    assert await found({"m.year": {"$not": {"$gt": 2021}}}) == [0, 2, 3]


async def test_search_sees_writes_late_and_documents_as_they_are() -> None:
    """A write is searchable after the delay; a deleted document drops out at once, a changed one keeps its
    old score.
    """
    with MongoDBServer(index_build_s=0.0, search_delay_s=0.3) as uri:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
        collection = client.db.c
        await collection.insert_many([{"_id": i, "v": [1.0, 0.0]} for i in range(3)])
        await collection.create_search_index(vector_index())
        await collection.insert_one({"_id": 3, "v": [1.0, 0.0]})
        await collection.delete_one({"_id": 0})
        await collection.update_one({"_id": 1}, {"$set": {"v": [0.0, 1.0], "new": True}})
        stage = near(1, 0)[0]
        shown = {"$project": {"new": 1, "score": {"$meta": "vectorSearchScore"}}}

        early = await rows(collection, stage, shown)
        await asyncio.sleep(0.35)
        late = await rows(collection, stage, shown)
        await client.close()

    assert early == [{"_id": 1, "new": True, "score": 1.0}, {"_id": 2, "score": 1.0}]
    assert late == [{"_id": 2, "score": 1.0}, {"_id": 3, "score": 1.0}, {"_id": 1, "new": True, "score": 0.5}]


async def test_text_scores_are_bm25(inventory: Collection) -> None:
    """Worked by hand: N = 3, average length 7/3; "apple" in two of them, idf = ln(1 + 1.5 / 2.5) = 0.470004.

    Length 2: 1 / (1 + 1.2 (0.25 + 0.75 * 2 / (7/3))) = 0.482759, score 0.226898. Length 3: 0.406977, score
    0.191281. "sky": idf = ln(1 + 2.5 / 1.5) = 0.980829, length 2, score 0.473504.
    """
    texts = ["red apple", "green apple pie", "blue sky"]
    await inventory.insert_many([{"_id": i, "t": text} for i, text in enumerate(texts)])
    definition = {"mappings": {"fields": {"t": {"type": "string", "analyzer": "lucene.whitespace"}}}}
    await inventory.create_search_index(SearchIndexModel(definition, name="text"))
    await queryable(inventory, "text")

    async def search(query: Any) -> list[dict[str, Any]]:
        stage = {"$search": {"index": "text", "text": {"query": query, "path": "t"}}}
        return await rows(inventory, stage, {"$project": {"score": {"$meta": "searchScore"}}})

    one, both, none = await search("apple"), await search(["apple", "sky"]), await search("Apple")

    assert [(doc["_id"], round(doc["score"], 6)) for doc in one] == [(0, 0.226898), (1, 0.191281)]
    assert [(doc["_id"], round(doc["score"], 6)) for doc in both] == [
        (2, 0.473504),
        (0, 0.226898),
        (1, 0.191281),
    ]
    assert none == []


async def test_search_statistics_follow_deletions(inventory: Collection) -> None:
    """After a deletion N, document frequencies and lengths are those of what is left."""
    await inventory.insert_many([{"_id": i, "t": t} for i, t in enumerate(["a b", "a", "c c c"])])
    await inventory.create_search_index(SearchIndexModel({"mappings": {"dynamic": True}}))
    await queryable(inventory, "default")

    await inventory.delete_many({"_id": {"$in": [0, 2]}})
    found = await rows(
        inventory,
        {"$search": {"text": {"query": "a", "path": "t"}}},
        {"$project": {"score": {"$meta": "searchScore"}}},
    )

    # N = n = 1: idf = ln(1 + 0.5 / 1.5) = 0.287682; length = average: 1 / (1 + 1.2) = 0.454545
    assert found == [{"_id": 1, "score": pytest.approx(0.130765, abs=1e-6)}]


async def test_compound_search(inventory: Collection) -> None:
    """must and should add scores, filter and mustNot only decide; equals on a string needs a token field."""
    docs = [
        {"_id": 0, "t": "apple", "lang": "en", "year": 2020},
        {"_id": 1, "t": "apple", "lang": "de", "year": 2024},
        {"_id": 2, "t": "pear", "lang": "en", "year": 2024, "draft": True},
    ]
    await inventory.insert_many(docs)
    fields = {
        "t": [{"type": "string"}, {"type": "token"}],
        "lang": {"type": "token"},
        "year": {"type": "number"},
    }
    definition = {"mappings": {"dynamic": False, "fields": fields | {"draft": {"type": "boolean"}}}}
    await inventory.create_search_index(SearchIndexModel(definition))
    await queryable(inventory, "default")
    shown = {"$project": {"score": {"$meta": "searchScore"}}}

    async def search(**operator: Any) -> list[tuple[Any, float]]:
        return [(doc["_id"], doc["score"]) for doc in await rows(inventory, {"$search": operator}, shown)]

    english = {"equals": {"path": "lang", "value": "en"}}
    assert await search(compound={"filter": [english]}) == [(0, 0.0), (2, 0.0)]
    assert await search(compound={"must": [english], "mustNot": [{"exists": {"path": "draft"}}]}) == [(0, 1.0)]
    assert await search(compound={"must": [{"range": {"path": "year", "gt": 2020}}], "should": [english]}) == [
        (2, 2.0),
        (1, 1.0),
    ]
    assert await search(**{"in": {"path": "lang", "value": ["de", "fr"]}}) == [(1, 1.0)]
    assert await search(equals={"path": "draft", "value": True}) == [(2, 1.0)]
    assert await search(text={"query": "APPLE", "path": "t", "score": {"constant": {"value": 3}}}) == [
        (0, 3.0),
        (1, 3.0),
    ]
    with pytest.raises(OperationFailure, match="Path 'year' needs to be indexed as token"):
        await search(equals={"path": "year", "value": "2020"})
    with pytest.raises(OperationFailure, match='unrecognized field "wildcard"'):
        await search(wildcard={"path": "t", "query": "*"})


async def test_search_index_commands(inventory: Collection) -> None:
    """Definitions are checked, names are unique, an update takes effect when it is built, drop ends the
    index.
    """
    with pytest.raises(OperationFailure) as no_collection:
        await inventory.create_search_index(vector_index())
    await inventory.insert_one({"_id": 1, "v": [1.0, 0.0], "a": 1})
    await inventory.create_search_index(vector_index())
    with pytest.raises(OperationFailure) as duplicate:
        await inventory.create_search_index(vector_index())
    with pytest.raises(OperationFailure) as unknown_field:
        await inventory.create_search_index(
            SearchIndexModel({"fields": [{"type": "vector", "path": "v", "dims": 2}]}, name="x", type="vectorSearch")
        )
    await queryable(inventory, "vectors")

    await inventory.update_search_index("vectors", vector_index("a").document["definition"])
    old = (await (await inventory.list_search_indexes("vectors")).to_list())[0]
    await asyncio.sleep(0.1)
    filtered = await rows(inventory, *near(1, 0, filter={"a": 1}))
    await inventory.drop_search_index("vectors")

    assert (no_collection.value.code, duplicate.value.code, unknown_field.value.code) == (26, 68, 2)
    assert (old["queryable"], old["latestDefinitionVersion"]["version"]) == (True, 2)
    assert filtered == [{"_id": 1, "score": 1.0}]
    assert await (await inventory.list_search_indexes()).to_list() == []


async def test_failures_on_request(mongo: MongoDBServer, inventory: Collection) -> None:
    """fail_next answers with an error or cuts the connection; a repeated write is not applied twice."""
    mongo.fail_next(1, MongoError(91, "ShutdownInProgress", "going down"), commands=["find"])
    mongo.fail_next(1, "disconnect_after", commands=["update"])
    await inventory.insert_one({"_id": 1, "n": 0})

    found = await inventory.find_one({"_id": 1})  # the driver retries reads once
    await inventory.update_one({"_id": 1}, {"$inc": {"n": 1}})  # and writes, with the same transaction number
    mongo.fail_next(2, "disconnect", commands=["find"])
    with pytest.raises(AutoReconnect):
        await inventory.find_one({})

    assert found == {"_id": 1, "n": 0}
    assert await inventory.find_one({}) == {"_id": 1, "n": 1}
    assert [request.command for request in mongo.requests].count("update") == 2


async def test_a_hanging_and_a_stopped_server() -> None:
    """A server that hangs runs into the client's timeout; one that is gone is not selected; data survives a
    restart.
    """
    server = MongoDBServer()
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
        server.start(), socketTimeoutMS=200, serverSelectionTimeoutMS=400, retryReads=False
    )
    await client.db.c.insert_one({"_id": 1})

    server.hang = True
    with pytest.raises(NetworkTimeout):
        await client.db.c.find_one({})
    server.hang = False
    server.stop()
    with pytest.raises((ServerSelectionTimeoutError, AutoReconnect)):
        await client.db.c.find_one({})
    server.start()
    found = await client.db.c.find_one({})
    await client.close()
    server.stop()

    assert found == {"_id": 1}


async def test_bulk_updates_keep_their_counts(inventory: Collection) -> None:
    """Matched counts documents, modified only those that changed."""
    await inventory.insert_many([{"_id": i, "n": i % 2} for i in range(4)])

    result = await inventory.bulk_write(
        [UpdateOne({"_id": 0}, {"$set": {"n": 0}}), UpdateOne({"_id": 9}, {"$set": {"n": 1}}, upsert=True)]
    )
    many = await inventory.update_many({}, {"$set": {"n": 1}})
    deleted = await inventory.delete_many({"_id": {"$in": [0, 1, 77]}})

    assert (result.matched_count, result.modified_count, result.upserted_ids) == (1, 0, {1: 9})
    assert (many.matched_count, many.modified_count) == (5, 2)
    assert deleted.deleted_count == 2
