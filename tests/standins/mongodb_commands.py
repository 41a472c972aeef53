"""The commands of the stand-in for MongoDB that `MongoDBStore` and its driver send, over storage in memory.

After "Database Commands" of the manual of MongoDB 8.0. A field that a command does not have is refused with 40415, a
command that is not here with 59. A write of several documents lets other commands in between two of them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import bson
from bson import Int64
from bson.raw_bson import RawBSONDocument

from .mongodb_query import (
    MAX_BSON_SIZE,
    Document,
    MongoError,
    Row,
    bad_value,
    compile_filter,
    known,
    project,
    run_stages,
)
from .mongodb_search import Change, SearchIndex, search_error

Namespace = tuple[str, str]
"""(database, collection)."""

_FIRST_BATCH = 101


class Collection:
    def __init__(self) -> None:
        self.docs: dict[Any, Document] = {}
        self.indexes: dict[str, SearchIndex] = {}
        self.log: list[Change] = []


class Storage:
    """All databases. Commands run one at a time, under `lock`."""

    def __init__(
        self,
        *,
        search_delay_s: float,
        search_spread_s: float,
        index_build_s: float,
        building: Literal["empty", "error"],
    ) -> None:
        self.search_delay_s = search_delay_s
        self.search_spread_s = search_spread_s
        self.index_build_s = index_build_s
        self.building = building
        self.lock = threading.Lock()
        self.collections: dict[Namespace, Collection] = {}
        self.cursors: dict[int, tuple[str, list[Document]]] = {}

    def write(self, where: Namespace, key: Any, doc: Document | None) -> None:
        """Put a document; None deletes it."""
        if doc is not None and (size := len(bson.encode(doc))) > MAX_BSON_SIZE:
            raise MongoError(10334, "BSONObjectTooLarge", f"BSONObj size: {size} is invalid.")
        collection = self.collections.setdefault(where, Collection())
        if doc is None:
            del collection.docs[key]
        else:
            collection.docs[key] = doc
        visible_at = time.monotonic() + self.search_delay_s
        if collection.log:
            visible_at = max(visible_at, collection.log[-1][0] + self.search_spread_s)
        collection.log.append((visible_at, key, doc))

    def matching(self, where: Namespace, query: Mapping[str, Any]) -> list[Any]:
        """Ids of the documents that match."""
        matches = compile_filter(query)
        docs = self.collections[where].docs if where in self.collections else {}
        wanted = query.get("_id")
        if isinstance(wanted, Mapping) and list(wanted) == ["$in"]:
            return [key for key in dict.fromkeys(wanted["$in"]) if key in docs and matches(docs[key])]
        return [key for key, doc in list(docs.items()) if matches(doc)]

    def docs_of(self, where: Namespace, query: Mapping[str, Any]) -> list[Document]:
        return [self.collections[where].docs[key] for key in self.matching(where, query)]

    def let_others_in(self) -> None:
        self.lock.release()
        time.sleep(0)
        self.lock.acquire()


def run_command(storage: Storage, name: str, body: Document) -> Document:
    if name not in _COMMANDS:
        raise MongoError(59, "CommandNotFound", f"no such command: '{name}'")
    run, fields = _COMMANDS[name]
    known(body, {name, *fields, *_GENERIC}, name)
    return {**run(storage, body, (body["$db"], str(body[name]))), "ok": 1.0}


# --- reading ---


def _find(storage: Storage, body: Document, where: Namespace) -> Document:
    docs = storage.docs_of(where, body.get("filter", {}))
    for name, direction in reversed(list(body.get("sort", {}).items())):
        docs.sort(key=lambda doc: doc[name], reverse=direction < 0)
    if limit := body.get("limit"):
        docs = docs[:limit]
    if fields := body.get("projection"):
        docs = [project(doc, fields) for doc in docs]
    return _cursor(storage, where, docs, body.get("batchSize"))


def _aggregate(storage: Storage, body: Document, where: Namespace) -> Document:
    stages = list(body["pipeline"])
    ((name, spec),) = stages[0].items()
    if name in ("$vectorSearch", "$search", "$listSearchIndexes"):
        rows = _first_stage(storage, where, name, spec)
        stages = stages[1:]
    else:
        rows = [(doc, {}) for doc in storage.docs_of(where, {})]
    docs = [doc for doc, _ in run_stages(rows, stages)]
    return _cursor(storage, where, docs, body["cursor"].get("batchSize"))


def _first_stage(storage: Storage, where: Namespace, stage: str, spec: Document) -> list[Row]:
    collection = storage.collections.get(where, Collection())
    if stage == "$listSearchIndexes":
        return [(one.described(), {}) for one in collection.indexes.values() if spec.get("name") in (None, one.name)]
    index = collection.indexes.get(spec["index"])
    if index is None:
        return []
    if not index.queryable:
        if storage.building == "error":
            raise search_error(f"cannot query index {index.name} while in state INITIAL_SYNC")
        return []
    index.follow(collection.log)
    score = "vectorSearchScore" if stage == "$vectorSearch" else "searchScore"
    found = index.search(stage, spec)
    return [(collection.docs[key], {score: value}) for key, value in found if key in collection.docs]


def _cursor(storage: Storage, where: Namespace, docs: list[Document], size: int | None) -> Document:
    batch, rest = _batch(docs, _FIRST_BATCH if size is None else size)
    cursor_id = 0
    if rest:
        cursor_id = random.getrandbits(62) + 1
        storage.cursors[cursor_id] = (".".join(where), rest)
    return {"cursor": {"firstBatch": batch, "id": Int64(cursor_id), "ns": ".".join(where)}}


def _get_more(storage: Storage, body: Document, _: Namespace) -> Document:
    cursor_id = int(body["getMore"])
    if cursor_id not in storage.cursors:
        raise MongoError(43, "CursorNotFound", f"cursor id {cursor_id} not found")
    name, docs = storage.cursors.pop(cursor_id)
    batch, rest = _batch(docs, int(body.get("batchSize") or 2**31))
    if rest:
        storage.cursors[cursor_id] = (name, rest)
    return {"cursor": {"nextBatch": batch, "id": Int64(cursor_id if rest else 0), "ns": name}}


def _batch(docs: list[Document], size: int) -> tuple[list[RawBSONDocument], list[Document]]:
    """As many documents as fit into a reply of 16 MB, at most `size`; and the rest."""
    batch: list[RawBSONDocument] = []
    room = MAX_BSON_SIZE
    for place, doc in enumerate(docs):
        raw = bson.encode(doc)
        room -= len(raw)
        if place == size or (batch and room < 0):
            return batch, docs[place:]
        batch.append(RawBSONDocument(raw))
    return batch, []


def _kill_cursors(storage: Storage, body: Document, _: Namespace) -> Document:
    for cursor_id in body["cursors"]:
        storage.cursors.pop(int(cursor_id), None)
    return {"cursorsKilled": body["cursors"], "cursorsNotFound": [], "cursorsAlive": [], "cursorsUnknown": []}


# --- writing ---


def _each(storage: Storage, body: Document, name: str, write: Callable[[Document], Document]) -> Document:
    """Run the statements of a write command and collect counts, upserts and errors."""
    reply: Document = {"n": 0}
    for place, statement in enumerate(body[name]):
        try:
            done = write(statement)
        except MongoError as error:
            reply.setdefault("writeErrors", []).append({"index": place, "code": error.code, "errmsg": error.message})
            if body.get("ordered", True):
                break
            continue
        reply |= {key: reply.get(key, 0) + done[key] for key in ("n", "nModified") if key in done}
        if "upserted" in done:
            reply.setdefault("upserted", []).append({"index": place, "_id": done["upserted"]})
        storage.let_others_in()
    return reply


def _insert(storage: Storage, body: Document, where: Namespace) -> Document:
    def insert(doc: Document) -> Document:
        if storage.matching(where, {"_id": {"$in": [doc["_id"]]}}):
            raise MongoError(11000, "DuplicateKey", f"E11000 duplicate key error collection: {'.'.join(where)}")
        storage.write(where, doc["_id"], doc)
        return {"n": 1}

    return _each(storage, body, "documents", insert)


def _update(storage: Storage, body: Document, where: Namespace) -> Document:
    """One document: a replacement, `$set`, or `$setOnInsert` with an upsert."""

    def update(statement: Document) -> Document:
        known(statement, {"q", "u", "upsert", "multi"}, "update.updates")
        query, change = statement["q"], statement["u"]
        operators = [name for name in change if name.startswith("$")]
        if statement.get("multi") or (operators and operators not in (["$set"], ["$setOnInsert"])):
            raise bad_value(f"update of many, or by {operators}")
        for key in storage.matching(where, query)[:1]:
            old = storage.collections[where].docs[key]
            new = {**old, **change.get("$set", {})} if operators else {"_id": key, **change}
            if new != old:
                storage.write(where, key, new)
            return {"n": 1, "nModified": int(new != old)}
        if not statement.get("upsert"):
            return {"n": 0, "nModified": 0}
        made = {**query, **change["$setOnInsert"]}
        storage.write(where, made["_id"], made)
        return {"n": 1, "nModified": 0, "upserted": made["_id"]}

    return _each(storage, body, "updates", update)


def _delete(storage: Storage, body: Document, where: Namespace) -> Document:
    def delete(statement: Document) -> Document:
        known(statement, {"q", "limit"}, "delete.deletes")
        matches, count = compile_filter(statement["q"]), 0
        for key in storage.matching(where, statement["q"]):
            doc = storage.collections[where].docs.get(key)
            if doc is not None and matches(doc):
                storage.write(where, key, None)
                count += 1
            storage.let_others_in()
        return {"n": count}

    return _each(storage, body, "deletes", delete)


# --- collections and indexes ---


def _create(storage: Storage, body: Document, where: Namespace) -> Document:
    name = where[1]
    if "$" in name or name.startswith((".", "system.")) or len(".".join(where).encode()) > 255:
        raise MongoError(73, "InvalidNamespace", f"Invalid collection name: '{'.'.join(where)}'")
    storage.collections.setdefault(where, Collection())
    return {}


def _drop(storage: Storage, body: Document, where: Namespace) -> Document:
    storage.collections.pop(where, None)
    return {}


def _list_collections(storage: Storage, body: Document, where: Namespace) -> Document:
    matches = compile_filter(body.get("filter") or {})
    entries = [{"name": name, "type": "collection"} for database, name in storage.collections if database == where[0]]
    return _cursor(storage, (where[0], "$cmd.listCollections"), list(filter(matches, entries)), None)


def _create_indexes(storage: Storage, body: Document, where: Namespace) -> Document:
    for spec in body["indexes"]:
        known(spec, {"key", "name"}, "createIndexes.indexes")
    return {"numIndexesBefore": 1, "numIndexesAfter": 1 + len(body["indexes"])}


def _create_search_indexes(storage: Storage, body: Document, where: Namespace) -> Document:
    collection = _existing(storage, where)
    for spec in body["indexes"]:
        if spec["name"] in collection.indexes:
            raise MongoError(68, "IndexAlreadyExists", "Duplicate Index")
        index = collection.indexes[spec["name"]] = SearchIndex(spec, collection.docs, storage.index_build_s)
        index.skip(collection.log)
    return {"indexesCreated": [{"id": spec["name"], "name": spec["name"]} for spec in body["indexes"]]}


def _drop_search_index(storage: Storage, body: Document, where: Namespace) -> Document:
    if _existing(storage, where).indexes.pop(body["name"], None) is None:
        raise MongoError(27, "IndexNotFound", f"search index not found: {body['name']}")
    return {}


def _existing(storage: Storage, where: Namespace) -> Collection:
    if where not in storage.collections:
        raise MongoError(26, "NamespaceNotFound", f"Collection '{'.'.join(where)}' does not exist.")
    return storage.collections[where]


# --- the server itself ---


def _nothing(storage: Storage, body: Document, where: Namespace) -> Document:
    return {}


def _build_info(storage: Storage, body: Document, where: Namespace) -> Document:
    return {"version": "8.0.4", "versionArray": [8, 0, 4, 0], "maxBsonObjectSize": MAX_BSON_SIZE}


_GENERIC = {"$db", "lsid", "txnNumber", "$clusterTime", "$readPreference", "readConcern", "writeConcern"}
_COMMANDS: dict[str, tuple[Callable[[Storage, Document, Namespace], Document], set[str]]] = {
    "ping": (_nothing, set()),
    "buildInfo": (_build_info, set()),
    "buildinfo": (_build_info, set()),
    "endSessions": (_nothing, set()),
    "find": (_find, {"filter", "sort", "projection", "limit", "batchSize", "singleBatch"}),
    "aggregate": (_aggregate, {"pipeline", "cursor"}),
    "getMore": (_get_more, {"collection", "batchSize"}),
    "killCursors": (_kill_cursors, {"cursors"}),
    "insert": (_insert, {"documents", "ordered"}),
    "update": (_update, {"updates", "ordered"}),
    "delete": (_delete, {"deletes", "ordered"}),
    "create": (_create, set()),
    "drop": (_drop, set()),
    "listCollections": (_list_collections, {"filter", "nameOnly", "cursor"}),
    "createIndexes": (_create_indexes, {"indexes"}),
    "createSearchIndexes": (_create_search_indexes, {"indexes"}),
    "dropSearchIndex": (_drop_search_index, {"name"}),
}
