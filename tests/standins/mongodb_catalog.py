"""The commands of the MongoDB stand-in that make, list and drop collections, indexes and search indexes.

Stands for: the pages of those commands in "Database Commands" of the MongoDB 8.0 manual and of MongoDB
Search. A drop of what is not there succeeds, and so does a `create` of what is, as in MongoDB 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bson import Binary, Int64

from .mongodb_engine import Call, Engine, check_fields, list_search_indexes
from .mongodb_query import (
    Document,
    MongoError,
    bad_value,
    compile_filter,
)
from .mongodb_search import SearchIndex, validate_definition
from .mongodb_storage import Collection, Index, Namespace, check_names


def create_collection(engine: Engine, call: Call) -> Document:
    namespace = call.namespace()
    options = {key: call.body[key] for key in ("validator", "validationLevel", "validationAction") if key in call.body}
    if options:
        raise MongoError(115, "CommandNotSupported", "the stand-in does not validate documents")
    check_names(namespace)
    engine.storage.ensure(namespace)
    return {"ok": 1.0}


def drop_collection(engine: Engine, call: Call) -> Document:
    namespace = call.namespace()
    collection = engine.storage.collections.pop(namespace, None)
    if collection is None:
        return {"ok": 1.0}
    return {"nIndexesWas": len(collection.indexes), "ns": ".".join(namespace), "ok": 1.0}


def drop_database(engine: Engine, call: Call) -> Document:
    for name in list(engine.storage.names(call.database)):
        del engine.storage.collections[(call.database, name)]
    return {"dropped": call.database, "ok": 1.0}


def list_collections(engine: Engine, call: Call) -> Document:
    matches = compile_filter(call.body.get("filter") or {})
    entries: list[Document] = []
    for name in engine.storage.names(call.database):
        entry: Document = {"name": name, "type": "collection"}
        if not call.body.get("nameOnly"):
            unique_id = Binary(engine.storage.collections[(call.database, name)].uuid.bytes, 4)
            id_index = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
            entry |= {"options": {}, "info": {"readOnly": False, "uuid": unique_id}, "idIndex": id_index}
        entries.append(entry)
    found = [entry for entry in entries if matches(entry)]
    return engine.cursor((call.database, "$cmd.listCollections"), found, call.body.get("cursor", {}).get("batchSize"))


def list_databases(engine: Engine, call: Call) -> Document:
    matches = compile_filter(call.body.get("filter") or {})
    names = sorted({database for database, _ in engine.storage.collections})
    entries: list[Document] = [{"name": name, "sizeOnDisk": Int64(8192), "empty": False} for name in names]
    found = [entry for entry in entries if matches(entry)]
    if call.body.get("nameOnly"):
        return {"databases": [{"name": entry["name"]} for entry in found], "ok": 1.0}
    return {"databases": found, "totalSize": Int64(8192 * len(found)), "ok": 1.0}


def _existing(engine: Engine, namespace: Namespace) -> Collection:
    if namespace not in engine.storage.collections:
        raise MongoError(26, "NamespaceNotFound", f"ns does not exist: {'.'.join(namespace)}")
    return engine.storage.collections[namespace]


_INDEX_FIELDS: Final = {
    "key",
    "name",
    "unique",
    "sparse",
    "partialFilterExpression",
    "expireAfterSeconds",
    "background",
    "v",
}


def create_indexes(engine: Engine, call: Call) -> Document:
    created = call.namespace() not in engine.storage.collections
    collection = engine.storage.ensure(call.namespace())
    before = len(collection.indexes)
    for spec in call.body["indexes"]:
        check_fields(spec, _INDEX_FIELDS | {"hidden"}, "createIndexes.indexes")
        if not spec.get("key") or not spec.get("name"):
            raise MongoError(9, "FailedToParse", "The 'key' and 'name' fields are required in an index specification")
        for direction in spec["key"].values():
            if direction not in (1, -1, "hashed"):
                raise MongoError(67, "CannotCreateIndex", f"the stand-in has no index of kind {direction!r}")
        wanted = Index({"v": 2, **spec})
        if not _same_index(collection, wanted):
            engine.storage.build_index(collection, wanted)
    reply: Document = {
        "numIndexesBefore": before,
        "numIndexesAfter": len(collection.indexes),
        "createdCollectionAutomatically": created,
        "ok": 1.0,
    }
    return reply | ({"note": "all indexes already exist"} if len(collection.indexes) == before else {})


def _same_index(collection: Collection, wanted: Index) -> bool:
    """Whether the index is there already; a clash of name or key is an error."""
    for held in collection.indexes.values():
        same_key = list(held.spec["key"].items()) == list(wanted.spec["key"].items())
        if held.name == wanted.name:
            if not same_key or (held.name != "_id_" and held.unique != wanted.unique):
                raise MongoError(
                    86,
                    "IndexKeySpecsConflict",
                    "An existing index has the same name as the requested index. "
                    f"Requested index: {wanted.spec}, existing index: {held.spec}",
                )
            return True
        if same_key and held.unique == wanted.unique:
            if held.name == "_id_":
                return True
            raise MongoError(85, "IndexOptionsConflict", f"Index already exists with a different name: {held.name}")
    return False


def list_indexes(engine: Engine, call: Call) -> Document:
    collection = _existing(engine, call.namespace())
    specs = [index.spec for index in collection.indexes.values()]
    return engine.cursor(call.namespace(), specs, call.body.get("cursor", {}).get("batchSize"))


def drop_indexes(engine: Engine, call: Call) -> Document:
    collection, wanted = _existing(engine, call.namespace()), call.body["index"]
    before = len(collection.indexes)
    if wanted == "*":
        names = [name for name in collection.indexes if name != "_id_"]
    elif isinstance(wanted, Mapping):
        names = [i.name for i in collection.indexes.values() if list(i.spec["key"].items()) == list(wanted.items())]
    else:
        names = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names or [str(wanted)]:
        if name == "_id_":
            raise MongoError(72, "InvalidOptions", "cannot drop _id index")
        if collection.indexes.pop(name, None) is None and wanted != "*":
            raise MongoError(27, "IndexNotFound", f"index not found with name [{name}]")
    return {"nIndexesWas": before, "ok": 1.0}


def create_search_indexes(engine: Engine, call: Call) -> Document:
    collection = _searchable(engine, call)
    specs = call.body["indexes"]
    for spec in specs:
        check_fields(spec, {"name", "definition", "type"}, "createSearchIndexes.indexes")
        if spec.get("type", "search") not in ("search", "vectorSearch"):
            raise bad_value('"userCommand.indexes[0].type" must be one of [search, vectorSearch]')
        if spec.get("name", "default") in collection.search_indexes:
            raise MongoError(68, "IndexAlreadyExists", "Duplicate Index")
        validate_definition(spec.get("type", "search"), spec.get("definition"))
    made = [engine.storage.build_search_index(collection, spec, engine.build_time_s) for spec in specs]
    return {"indexesCreated": [{"id": index.id, "name": index.name} for index in made], "ok": 1.0}


def _searchable(engine: Engine, call: Call) -> Collection:
    namespace = call.namespace()
    if namespace not in engine.storage.collections:
        raise MongoError(26, "NamespaceNotFound", f"Collection '{'.'.join(namespace)}' does not exist.")
    return engine.storage.collections[namespace]


def _search_index(engine: Engine, call: Call) -> tuple[Collection, SearchIndex]:
    collection = _searchable(engine, call)
    collection.follow_log()
    for index in collection.search_indexes.values():
        if call.body.get("name") == index.name or call.body.get("id") == index.id:
            return collection, index
    raise MongoError(27, "IndexNotFound", f"search index not found: {call.body.get('name', call.body.get('id'))}")


def drop_search_index(engine: Engine, call: Call) -> Document:
    collection, index = _search_index(engine, call)
    del collection.search_indexes[index.name]
    return {"ok": 1.0}


def update_search_index(engine: Engine, call: Call) -> Document:
    _, index = _search_index(engine, call)
    index.stage(dict(call.body["definition"]), build_time_s=engine.build_time_s)
    return {"ok": 1.0}


def list_search_indexes_command(engine: Engine, call: Call) -> Document:
    collection = _searchable(engine, call)
    collection.follow_log()
    spec = {key: call.body[key] for key in ("name", "id") if key in call.body}
    docs = [doc for doc, _ in list_search_indexes(collection, spec)]
    return engine.cursor(call.namespace(), docs, None)
