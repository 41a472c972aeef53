"""The commands of the MongoDB stand-in: each a function of (engine, call) that gives the reply or raises.

Stands for: "Database Commands" of the MongoDB 8.0 manual. A field that a command does not have is refused
with error 40415, a command that is not here with error 59. Fields that only tune the server (hint, maxTimeMS,
comment, ...) are accepted.

Does not do: authentication, `bulkWrite`, `explain`, `mapReduce`, change streams, views, users and roles,
collations. `create` and `createIndexes` inside a transaction take effect at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import bson
from bson import Binary, Int64, ObjectId

from . import mongodb_catalog as catalog
from .mongodb_aggregate import (
    apply_pipeline_update,
    expression_filter,
    run_pipeline,
    scope_of,
)
from .mongodb_engine import Call, Engine, check_collation, check_fields, take_batch
from .mongodb_expressions import evaluate
from .mongodb_query import (
    MAX_BSON_SIZE,
    MISSING,
    Document,
    MongoError,
    Predicate,
    bson_type,
    order_key,
    project,
    sort_rows,
    sort_value,
    values_at,
)
from .mongodb_search import Key
from .mongodb_storage import Namespace, duplicate_key
from .mongodb_update import apply_update, is_replacement, upsert_seed

MAX_WRITE_BATCH: Final = 100_000
VERSION: Final = "8.0.4"


# --- reading -------------------------------------------------------------------------------------------


def _find(engine: Engine, call: Call) -> Document:
    body, namespace = call.body, call.namespace()
    variables = body.get("let", {})
    query = body.get("filter", {})
    keys = engine.matching(call, namespace, query, expression_filter(query, variables))
    view = engine.storage.view(namespace, call.txn)
    docs = [view[key] for key in keys]
    docs = sort_rows(docs, body.get("sort") or {}, sort_value)
    limit = abs(int(body.get("limit", 0)))
    start = int(body.get("skip", 0))
    docs = docs[start : start + limit if limit else None]
    if body.get("projection"):
        docs = [project(doc, body["projection"], lambda e, d: evaluate(e, scope_of(d, {}, variables))) for doc in docs]
    single = bool(body.get("singleBatch")) or int(body.get("limit", 0)) < 0
    return engine.cursor(namespace, docs, body.get("batchSize"), single=single)


def _aggregate(engine: Engine, call: Call) -> Document:
    body = call.body
    if not isinstance(body["aggregate"], str):
        raise MongoError(73, "InvalidNamespace", "the stand-in aggregates over collections only, not {aggregate: 1}")
    if not isinstance(body.get("cursor"), Mapping):
        raise MongoError(
            9,
            "FailedToParse",
            "The 'cursor' option is required, except for aggregate with the explain argument",
        )
    if not isinstance(body.get("pipeline"), list):
        raise MongoError(14, "TypeMismatch", "'pipeline' option must be specified as an array")
    rows = run_pipeline(engine.reader(call), body["aggregate"], body["pipeline"], body.get("let", {}))
    return engine.cursor(call.namespace(), [doc for doc, _ in rows], body["cursor"].get("batchSize"))


def _get_more(engine: Engine, call: Call) -> Document:
    cursor_id = int(call.body["getMore"])
    if cursor_id not in engine.cursors:
        raise MongoError(43, "CursorNotFound", f"cursor id {cursor_id} not found")
    namespace, docs = engine.cursors.pop(cursor_id)
    batch, rest = take_batch(docs, int(call.body.get("batchSize") or 2**31))
    if rest:
        engine.cursors[cursor_id] = (namespace, rest)
    next_id = Int64(cursor_id if rest else 0)
    return {"cursor": {"nextBatch": batch, "id": next_id, "ns": ".".join(namespace)}, "ok": 1.0}


def _kill_cursors(engine: Engine, call: Call) -> Document:
    killed: list[Int64] = []
    unknown: list[Int64] = []
    for cursor_id in call.body["cursors"]:
        (unknown if engine.cursors.pop(int(cursor_id), None) is None else killed).append(Int64(cursor_id))
    return {
        "cursorsKilled": killed,
        "cursorsNotFound": unknown,
        "cursorsAlive": [],
        "cursorsUnknown": [],
        "ok": 1.0,
    }


def _count(engine: Engine, call: Call) -> Document:
    query = call.body.get("query", {})
    count = len(engine.matching(call, call.namespace(), query, expression_filter(query, {})))
    count = max(count - int(call.body.get("skip", 0)), 0)
    limit = abs(int(call.body.get("limit", 0)))
    return {"n": min(count, limit) if limit else count, "ok": 1.0}


def _distinct(engine: Engine, call: Call) -> Document:
    query, namespace = call.body.get("query", {}), call.namespace()
    view = engine.storage.view(namespace, call.txn)
    found: dict[Key, Any] = {}
    for key in engine.matching(call, namespace, query, expression_filter(query, {})):
        for value in values_at(view[key], call.body["key"].split(".")):
            for single in value if isinstance(value, list) else [value]:
                if single is not MISSING:
                    found.setdefault(order_key(single), single)
    return {"values": [found[key] for key in sorted(found)], "ok": 1.0}


# --- writing -------------------------------------------------------------------------------------------


def _insert(engine: Engine, call: Call) -> Document:
    def insert(doc: Document) -> Document:
        stored = doc if next(iter(doc), None) == "_id" else {"_id": doc.get("_id", ObjectId())} | doc
        _check_id_type(stored["_id"])
        _put_new(engine, call, call.namespace(), stored)
        return {"n": 1}

    return _write_batch(engine, call, call.body.get("documents"), insert)


def _check_id_type(value: Any) -> None:
    if bson_type(value) in (4, 11):
        raise MongoError(53, "InvalidIdField", "The '_id' value cannot be of type array or regex")


def _put_new(engine: Engine, call: Call, namespace: Namespace, doc: Document) -> None:
    key = order_key(doc["_id"])
    engine.storage.acquire(namespace, key, call.txn)
    if key in engine.storage.view(namespace, call.txn):
        index = engine.storage.ensure(namespace).indexes["_id_"]
        raise duplicate_key(".".join(namespace), index, doc)
    engine.storage.write(namespace, key, doc, call.txn)


def _write_batch(engine: Engine, call: Call, statements: Any, write: Callable[[Document], Document]) -> Document:
    """Run the statements of a write command and collect counts, upserts and write errors."""
    if not isinstance(statements, list) or not 1 <= len(statements) <= MAX_WRITE_BATCH:
        count = len(statements) if isinstance(statements, list) else 0
        raise MongoError(
            16,
            "InvalidLength",
            f"Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {count} operations.",
        )
    reply: Document = {"n": 0}
    errors: list[Document] = []
    for position, statement in enumerate(statements):
        try:
            result = write(statement)
        except MongoError as error:
            if call.txn is not None and error.labels:
                raise
            errors.append({"index": position, "code": error.code, "errmsg": error.message, **error.extra})
            if call.body.get("ordered", True) or call.txn is not None:
                break
        else:
            reply["n"] += result["n"]
            if "nModified" in result:
                reply["nModified"] = reply.get("nModified", 0) + result["nModified"]
            if "upserted" in result:
                reply.setdefault("upserted", []).append({"index": position, "_id": result["upserted"]})
        engine.storage.let_others_in(call.txn)
    if call.name == "update":
        reply.setdefault("nModified", 0)
    if errors:
        reply["writeErrors"] = errors
        if call.txn is not None:
            engine.storage.abort(call.txn)
    return reply | {"ok": 1.0}


def _update(engine: Engine, call: Call) -> Document:
    def update(statement: Document) -> Document:
        check_fields(statement, {"q", "u", "c", "upsert", "multi", "hint", "collation", "sort"}, "update.updates")
        check_collation(statement)
        multi = bool(statement.get("multi"))
        if multi and is_replacement(statement["u"]):
            raise MongoError(9, "FailedToParse", "multi update is not supported for replacement-style update")
        changes = _Changes(engine, call, call.namespace(), statement["q"], statement["u"], statement.get("c", {}))
        return changes.run(multi=multi, upsert=bool(statement.get("upsert")), sort=statement.get("sort"))

    return _write_batch(engine, call, call.body.get("updates"), update)


class _Changes:
    """One update statement, also that of findAndModify."""

    def __init__(
        self, engine: Engine, call: Call, namespace: Namespace, query: Any, update: Any, constants: Any
    ) -> None:
        self.engine, self.call, self.namespace = engine, call, namespace
        self.query, self.update, self.variables = query, update, constants
        self.matches = expression_filter(query, constants)
        self.before: Document | None = None
        self.after: Document | None = None

    def run(self, *, multi: bool, upsert: bool, sort: Any = None) -> Document:
        matched = modified = 0
        for key in self._keys(sort):
            changed = self._change(key)
            if changed is None:
                continue
            matched, modified = matched + 1, modified + changed
            if not multi:
                break
            self.engine.storage.let_others_in(self.call.txn)
        if matched or not upsert:
            return {"n": matched, "nModified": modified}
        return self._insert()

    def _keys(self, sort: Any) -> list[Key]:
        keys = self.engine.matching(self.call, self.namespace, self.query, self.matches)
        if not sort:
            return keys
        view = self.engine.storage.view(self.namespace, self.call.txn)
        return sort_rows(keys, sort, lambda key, path, descending: sort_value(view[key], path, descending))

    def _change(self, key: Key) -> int | None:
        """1 when the document changed, 0 when the update changes nothing, None when it does not match any
        more.
        """
        storage = self.engine.storage
        storage.acquire(self.namespace, key, self.call.txn)
        doc = storage.view(self.namespace, self.call.txn).get(key)
        if doc is None or not self.matches(doc):
            return None
        new = self._applied(doc, inserting=False)
        self.before, self.after = doc, new
        if bson.encode(new) == bson.encode(doc):
            return 0
        storage.write(self.namespace, key, new, self.call.txn)
        return 1

    def _applied(self, doc: Document, *, inserting: bool) -> Document:
        if isinstance(self.update, list):
            return apply_pipeline_update(doc, self.update, self.variables)
        return apply_update(doc, self.update, inserting=inserting)

    def _insert(self) -> Document:
        new = self._applied(upsert_seed(self.query), inserting=True)
        new = {"_id": new.get("_id", ObjectId())} | new
        _check_id_type(new["_id"])
        key = order_key(new["_id"])
        self.engine.storage.acquire(self.namespace, key, self.call.txn)
        held = self.engine.storage.view(self.namespace, self.call.txn).get(key)
        if held is not None and self.matches(held):  # somebody was faster: update what is there now
            return self.run(multi=False, upsert=False)
        _put_new(self.engine, self.call, self.namespace, new)
        self.after = new
        return {"n": 1, "nModified": 0, "upserted": new["_id"]}


def _delete(engine: Engine, call: Call) -> Document:
    def delete(statement: Document) -> Document:
        check_fields(statement, {"q", "limit", "hint", "collation"}, "delete.deletes")
        check_collation(statement)
        if statement.get("limit") not in (0, 1):
            raise MongoError(9, "FailedToParse", "The limit field in delete objects must be 0 or 1.")
        namespace, matches = call.namespace(), expression_filter(statement["q"], call.body.get("let", {}))
        count = 0
        for key in engine.matching(call, namespace, statement["q"], matches):
            if not _delete_one(engine, call, namespace, key, matches):
                continue
            count += 1
            if statement["limit"] == 1:
                break
            engine.storage.let_others_in(call.txn)
        return {"n": count}

    return _write_batch(engine, call, call.body.get("deletes"), delete)


def _delete_one(engine: Engine, call: Call, namespace: Namespace, key: Key, matches: Predicate) -> Document | None:
    engine.storage.acquire(namespace, key, call.txn)
    doc = engine.storage.view(namespace, call.txn).get(key)
    if doc is None or not matches(doc):
        return None
    engine.storage.write(namespace, key, None, call.txn)
    return doc


def _find_and_modify(engine: Engine, call: Call) -> Document:
    body, namespace = call.body, call.namespace()
    if bool(body.get("remove")) == ("update" in body):
        raise MongoError(9, "FailedToParse", "Either an update or remove=true must be specified")
    changes = _Changes(engine, call, namespace, body.get("query", {}), body.get("update"), body.get("let", {}))
    value: Document | None = None
    if body.get("remove"):
        for key in changes._keys(body.get("sort")):
            value = _delete_one(engine, call, namespace, key, changes.matches)
            if value is not None:
                break
        outcome: Document = {"n": int(value is not None)}
    else:
        result = changes.run(multi=False, upsert=bool(body.get("upsert")), sort=body.get("sort"))
        value = changes.after if body.get("new") else changes.before
        outcome = {"n": result["n"], "updatedExisting": bool(result["n"]) and "upserted" not in result}
        if "upserted" in result:
            outcome["upserted"] = result["upserted"]
    if value is not None and body.get("fields"):
        value = project(value, body["fields"], lambda e, d: evaluate(e, scope_of(d, {}, {})))
    return {"lastErrorObject": outcome, "value": value, "ok": 1.0}


# --- the server itself ---------------------------------------------------------------------------------


def _ping(_engine: Engine, _call: Call) -> Document:
    return {"ok": 1.0}


def _build_info(_engine: Engine, _call: Call) -> Document:
    return {
        "version": VERSION,
        "versionArray": [*map(int, VERSION.split(".")), 0],
        "gitVersion": "standin",
        "modules": [],
        "maxBsonObjectSize": MAX_BSON_SIZE,
        "ok": 1.0,
    }


def _start_session(_engine: Engine, _call: Call) -> Document:
    return {"id": {"id": Binary(uuid.uuid4().bytes, 4)}, "timeoutMinutes": 30, "ok": 1.0}


def _sasl_start(_engine: Engine, _call: Call) -> Document:
    raise MongoError(18, "AuthenticationFailed", "the stand-in has no users: connect without credentials")


# --- dispatch ------------------------------------------------------------------------------------------

_GENERIC: Final = {
    "$db",
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "$clusterTime",
    "$readPreference",
    "readConcern",
    "writeConcern",
    "maxTimeMS",
    "comment",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
}
_QUERY: Final = {"hint", "collation", "let"}
_WRITE: Final = {"ordered", "bypassDocumentValidation", "bypassEmptyTsReplacement", "let"}
Handler = Callable[[Engine, Call], Document]

COMMANDS: Final[dict[str, tuple[Handler, set[str]]]] = {
    "ping": (_ping, set()),
    "buildInfo": (_build_info, set()),
    "buildinfo": (_build_info, set()),
    "startSession": (_start_session, set()),
    "refreshSessions": (_ping, set()),
    "saslStart": (_sasl_start, {"mechanism", "payload", "options", "autoAuthorize"}),
    "find": (
        _find,
        _QUERY
        | {
            "filter",
            "sort",
            "projection",
            "skip",
            "limit",
            "batchSize",
            "singleBatch",
            "noCursorTimeout",
            "allowDiskUse",
        },
    ),
    "aggregate": (_aggregate, _QUERY | {"pipeline", "cursor", "allowDiskUse", "bypassDocumentValidation"}),
    "getMore": (_get_more, {"collection", "batchSize"}),
    "killCursors": (_kill_cursors, {"cursors"}),
    "count": (_count, _QUERY | {"query", "limit", "skip", "fields"}),
    "distinct": (_distinct, _QUERY | {"key", "query"}),
    "insert": (_insert, _WRITE | {"documents"}),
    "update": (_update, _WRITE | {"updates"}),
    "delete": (_delete, _WRITE | {"deletes"}),
    "findAndModify": (
        _find_and_modify,
        _QUERY | {"query", "update", "remove", "new", "upsert", "fields", "sort", "bypassDocumentValidation"},
    ),
    "create": (catalog.create_collection, {"validator", "validationLevel", "validationAction"}),
    "drop": (catalog.drop_collection, set()),
    "dropDatabase": (catalog.drop_database, set()),
    "listCollections": (catalog.list_collections, {"filter", "nameOnly", "authorizedCollections", "cursor"}),
    "listDatabases": (catalog.list_databases, {"filter", "nameOnly", "authorizedDatabases"}),
    "createIndexes": (catalog.create_indexes, {"indexes", "commitQuorum"}),
    "listIndexes": (catalog.list_indexes, {"cursor"}),
    "dropIndexes": (catalog.drop_indexes, {"index"}),
    "createSearchIndexes": (catalog.create_search_indexes, {"indexes"}),
    "listSearchIndexes": (catalog.list_search_indexes_command, {"name", "id"}),
    "updateSearchIndex": (catalog.update_search_index, {"name", "id", "definition"}),
    "dropSearchIndex": (catalog.drop_search_index, {"name", "id"}),
}
IN_TRANSACTION: Final = {
    "find",
    "aggregate",
    "getMore",
    "killCursors",
    "distinct",
    "insert",
    "update",
    "delete",
    "findAndModify",
    "create",
    "createIndexes",
}


def run_command(engine: Engine, call: Call) -> Document:
    """Check the fields of a command and run it."""
    if call.name not in COMMANDS:
        raise MongoError(59, "CommandNotFound", f"no such command: '{call.name}'")
    handler, fields = COMMANDS[call.name]
    if call.txn is not None and call.name not in IN_TRANSACTION:
        raise MongoError(
            263,
            "OperationNotSupportedInTransaction",
            f"Cannot run '{call.name}' in a multi-document transaction.",
        )
    check_fields(call.body, {call.name} | fields | _GENERIC, call.name)
    check_collation(call.body)
    return handler(engine, call)
