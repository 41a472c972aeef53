"""The storage half of the MongoDB stand-in: collections, unique indexes, transactions, the change log.

Stands for: the document storage of a one-node replica set. Documents in it are never changed in place, so a
snapshot is a shallow copy. A transaction reads the snapshot of its first statement plus its own writes; the
first writer of a document wins and the other gets WriteConflict (112) with the label
TransientTransactionError; a write outside a transaction waits for an open transaction that holds the
document. Multi-document writes outside a transaction let other readers in between documents, as the server
does.

Does not do: oplog, change streams, time series, capped collections, TTL deletion, read concern other than
what falls out.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import bson

from .mongodb_query import (
    MAX_BSON_SIZE,
    MISSING,
    Document,
    MongoError,
    Predicate,
    compile_filter,
    order_key,
    values_at,
)
from .mongodb_search import Change, Key, SearchIndex

Namespace = tuple[str, str]
"""(database, collection)."""


class Index:
    """A plain index; only its uniqueness has an effect."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = dict(spec)
        self.name: str = spec["name"]
        self.paths = list(spec["key"])
        self.unique = bool(spec.get("unique")) or self.paths == ["_id"]
        self.sparse = bool(spec.get("sparse"))
        partial = spec.get("partialFilterExpression")
        self.covers: Predicate = compile_filter(partial) if partial else lambda doc: True
        self.owners: dict[Key, Key] = {}  # unique key -> document key

    def keys(self, doc: Document) -> set[Key]:
        """The index keys of a document; an array gives one key per element."""
        if not self.unique or not self.covers(doc):
            return set()
        columns: list[list[Any]] = []
        present = False
        for path in self.paths:
            found: list[Any] = []
            for value in values_at(doc, path.split(".")):
                present = present or value is not MISSING
                found.extend(value if isinstance(value, list) and value else [value])
            columns.append(found or [None])
        if self.sparse and not present:
            return set()
        return {tuple(order_key(value) for value in combination) for combination in itertools.product(*columns)}


class Collection:
    def __init__(self, namespace: Namespace, options: Document) -> None:
        self.namespace = namespace
        self.options = options
        self.uuid = uuid.uuid4()
        self.docs: dict[Key, Document] = {}
        self.versions: dict[Key, int] = {}  # commit number of the last write, kept for deleted documents too
        self.indexes: dict[str, Index] = {"_id_": Index({"v": 2, "key": {"_id": 1}, "name": "_id_"})}
        self.search_indexes: dict[str, SearchIndex] = {}
        self.log: list[Change] = []
        self.dropped = 0  # changes already removed from the front of the log

    @property
    def full_name(self) -> str:
        return ".".join(self.namespace)

    def unique_indexes(self) -> list[Index]:
        return [index for index in self.indexes.values() if index.unique and index.name != "_id_"]

    def follow_log(self) -> None:
        """Bring the search indexes up to what is visible by now and forget what all of them have seen."""
        for index in self.search_indexes.values():
            index.follow(self.log, self.dropped)
        seen = min((index.position for index in self.search_indexes.values()), default=self.dropped + len(self.log))
        del self.log[: seen - self.dropped]
        self.dropped = seen


class Transaction:
    def __init__(self, number: int, version: int, views: dict[Namespace, dict[Key, Document]]) -> None:
        self.number = number
        self.version = version
        self.views = views
        self.writes: dict[Namespace, dict[Key, Document | None]] = {}
        self.unique: dict[tuple[Namespace, str], dict[Key, Key]] = {}
        self.state = "open"
        self.last_used = time.monotonic()


class Storage:
    """All databases. Every method runs under `lock`; the server takes it for the whole of a command."""

    def __init__(self, *, search_delay_s: float, search_spread_s: float, lock_wait_s: float, lifetime_s: float) -> None:
        self.search_delay_s = search_delay_s
        self.search_spread_s = search_spread_s
        self.lock_wait_s = lock_wait_s
        self.lifetime_s = lifetime_s
        self.lock = threading.Condition(threading.Lock())
        self.collections: dict[Namespace, Collection] = {}
        self.version = 0
        self.open: set[Transaction] = set()
        self.holders: dict[tuple[Namespace, Key], Transaction] = {}

    # --- reading ---

    def view(self, namespace: Namespace, txn: Transaction | None) -> dict[Key, Document]:
        """The documents of a collection as the transaction, or anybody, sees them now."""
        if txn is not None:
            return txn.views.setdefault(namespace, {})
        collection = self.collections.get(namespace)
        return collection.docs if collection else {}

    def begin(self, number: int) -> Transaction:
        views = {namespace: dict(collection.docs) for namespace, collection in self.collections.items()}
        txn = Transaction(number, self.version, views)
        self.open.add(txn)
        return txn

    # --- writing ---

    def ensure(self, namespace: Namespace) -> Collection:
        if namespace not in self.collections:
            check_names(namespace)
            self.collections[namespace] = Collection(namespace, {})
        return self.collections[namespace]

    def acquire(self, namespace: Namespace, key: Key, txn: Transaction | None) -> None:
        """Get the right to write a document: in a transaction at once or not at all, else after waiting."""
        held = (namespace, key)

        def free() -> bool:
            holder = self.holders.get(held)
            if holder is not None and time.monotonic() - holder.last_used > self.lifetime_s:
                self.abort(holder)
                holder = None
            return holder is None or holder is txn

        if txn is None:
            if not self.lock.wait_for(free, self.lock_wait_s):
                raise write_conflict(in_transaction=False)
            return
        collection = self.collections.get(namespace)
        changed = collection is not None and collection.versions.get(key, 0) > txn.version
        if changed or not free():
            raise write_conflict(in_transaction=True)
        self.holders[held] = txn

    def write(self, namespace: Namespace, key: Key, doc: Document | None, txn: Transaction | None) -> None:
        """Put a document, or delete it with None, after `acquire`.

        Raises: MongoError: 11000 for a taken unique key, 112 when another transaction is about to take it.
        """
        if doc is not None:
            check_size(doc)
        collection = self.ensure(namespace)
        old = self.view(namespace, txn).get(key)
        self._check_unique(collection, key, doc, txn)
        if txn is None:
            self._commit(collection, key, old, doc, time.monotonic())
            return
        view = txn.views.setdefault(namespace, {})
        if doc is None:
            view.pop(key, None)
        else:
            view[key] = doc
        txn.writes.setdefault(namespace, {})[key] = doc
        for index in collection.unique_indexes():
            taken = txn.unique.setdefault((namespace, index.name), {})
            for unique_key in [k for k, owner in taken.items() if owner == key]:
                del taken[unique_key]
            taken.update(dict.fromkeys(index.keys(doc) if doc is not None else (), key))

    def _commit(self, collection: Collection, key: Key, old: Document | None, doc: Document | None, at: float) -> None:
        self.version += 1
        collection.versions[key] = self.version
        for index in collection.unique_indexes():
            for unique_key in index.keys(old) if old is not None else ():
                if index.owners.get(unique_key) == key:
                    del index.owners[unique_key]
            for unique_key in index.keys(doc) if doc is not None else ():
                index.owners[unique_key] = key
        if doc is None:
            collection.docs.pop(key, None)
        else:
            collection.docs[key] = doc
        if collection.search_indexes:
            visible_at = at + self.search_delay_s
            if collection.log:
                visible_at = max(visible_at, collection.log[-1][0] + self.search_spread_s)
            collection.log.append((visible_at, key, doc))

    def _check_unique(self, collection: Collection, key: Key, doc: Document | None, txn: Transaction | None) -> None:
        if doc is None:
            return
        for index in collection.unique_indexes():
            wanted = index.keys(doc)
            for unique_key in wanted:
                owner = self._owner(collection, index, unique_key, txn)
                if owner is not None and owner != key:
                    raise duplicate_key(collection.full_name, index, doc)
            slot = (collection.namespace, index.name)
            for other in self.open - {txn}:
                if other.unique.get(slot, {}).keys() & wanted:
                    raise write_conflict(in_transaction=txn is not None)

    def _owner(self, collection: Collection, index: Index, unique_key: Key, txn: Transaction | None) -> Key | None:
        if txn is not None:
            mine = txn.unique.get((collection.namespace, index.name), {}).get(unique_key)
            if mine is not None:
                return mine
        owner = index.owners.get(unique_key)
        if owner is None or txn is None:
            return owner
        current = self.view(collection.namespace, txn).get(owner)
        return owner if current is not None and unique_key in index.keys(current) else None

    def let_others_in(self, txn: Transaction | None) -> None:
        """Between two documents of a multi-document write: other connections may read and write now."""
        if txn is None:
            self.lock.release()
            time.sleep(0)
            self.lock.acquire()

    # --- ending transactions ---

    def commit(self, txn: Transaction) -> None:
        now = time.monotonic()
        for namespace, writes in txn.writes.items():
            collection = self.ensure(namespace)
            for key, doc in writes.items():
                self._commit(collection, key, collection.docs.get(key), doc, now)
        self._end(txn, "committed")

    def abort(self, txn: Transaction) -> None:
        self._end(txn, "aborted")

    def _end(self, txn: Transaction, state: str) -> None:
        txn.state = state
        txn.views = {}
        self.open.discard(txn)
        self.holders = {held: holder for held, holder in self.holders.items() if holder is not txn}
        self.lock.notify_all()

    # --- indexes ---

    def build_index(self, collection: Collection, index: Index) -> None:
        """Add an index; a unique one only over data without duplicates."""
        if index.unique:
            for key, doc in collection.docs.items():
                for unique_key in index.keys(doc):
                    if index.owners.setdefault(unique_key, key) != key:
                        raise duplicate_key(collection.full_name, index, doc)
        collection.indexes[index.name] = index

    def build_search_index(self, collection: Collection, spec: Mapping[str, Any], build_time_s: float) -> SearchIndex:
        collection.follow_log()
        index = SearchIndex(
            spec.get("name", "default"),
            spec.get("type", "search"),
            dict(spec["definition"]),
            documents=collection.docs,
            position=collection.dropped + len(collection.log),
            build_time_s=build_time_s,
        )
        collection.search_indexes[index.name] = index
        return index

    def names(self, database: str) -> Iterator[str]:
        return (name for db, name in sorted(self.collections) if db == database)


# --- checks and errors ---------------------------------------------------------------------------------

_TRANSIENT: Final = ("TransientTransactionError",)


def write_conflict(*, in_transaction: bool) -> MongoError:
    return MongoError(
        112,
        "WriteConflict",
        "Caused by :: Write conflict during plan execution and yielding is disabled. "
        ":: Please retry your operation or multi-document transaction.",
        labels=_TRANSIENT if in_transaction else (),
    )


def no_such_transaction(number: int) -> MongoError:
    return MongoError(
        251,
        "NoSuchTransaction",
        f"Given transaction number {number} does not match any in-progress transactions.",
        labels=_TRANSIENT,
    )


def duplicate_key(full_name: str, index: Index, doc: Document) -> MongoError:
    values = {path: next(iter(values_at(doc, path.split("."))), None) for path in index.paths}
    shown = ", ".join(f"{path}: {_shown(value)}" for path, value in values.items())
    return MongoError(
        11000,
        "DuplicateKey",
        f"E11000 duplicate key error collection: {full_name} index: {index.name} dup key: {{ {shown} }}",
        extra={
            "keyPattern": dict(index.spec["key"]),
            "keyValue": {path: None if value is MISSING else value for path, value in values.items()},
        },
    )


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return "null" if value is MISSING or value is None else str(value)


def check_size(doc: Document) -> None:
    size = len(bson.encode(doc))
    if size > MAX_BSON_SIZE:
        raise MongoError(
            10334,
            "BSONObjectTooLarge",
            f"BSONObj size: {size} ({size:#x}) is invalid. Size must be between 0 and 16793600(16MB)",
        )


def check_names(namespace: Namespace) -> None:
    database, name = namespace
    if not database or any(c in database for c in ' ."$*/\\') or len(database.encode()) > 63:
        raise MongoError(73, "InvalidNamespace", f"Invalid database name: '{database}'")
    if (
        not name
        or "$" in name
        or "\0" in name
        or name.startswith((".", "system."))
        or len(".".join(namespace).encode()) > 255
    ):
        raise MongoError(73, "InvalidNamespace", f"Invalid collection name: '{'.'.join(namespace)}'")
