"""The connection to Elasticsearch: errors, bulk requests of a size that it takes, pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr
from pydantic_core import to_json

from ..._util.extras import needs
from ...errors import CollectionNotFoundError, StoreError, StoreUnavailableError, redact
from ..engine.records import closed_store
from ..versions.groups import at_most, grouped, side_by_side, slices

Document = dict[str, Any]
Refresh = bool | str
# Most of what one request carries; the event loop stands still while it is copied and sent.
_PIECE_BYTES = 1_000_000
_PIECE_DOCUMENTS = 1_000
_PAGE = 1_000
_KEEP_ALIVE = "2m"
_UNAVAILABLE = frozenset({429, 502, 503, 504})
_RECOVERING = ("no_shard_available", "illegal_index_shard_state", "shard_not_found")
_PASSING = (*_RECOVERING, "index_closed_exception", "cluster_block_exception", "unavailable_shards")
"""Reasons of refusals that pass, or that an administrator ends."""
CONFLICT, BUSY = 409, 429
_ATTEMPTS = 6
_BULKS, _PAGES = 2, 4
"""Requests of one call at once."""
CONNECTIONS = 100
"""Of a client to each node; with the default, 10, a search waits behind 60 writes for seconds."""


@dataclass(frozen=True)
class ElasticsearchOptions:
    """What the constructor of the store got."""

    hosts: Sequence[str]
    num_candidates: int
    refresh: Refresh
    api_key: SecretStr | None
    timeout_s: float
    index_prefix: str
    index_settings: Mapping[str, Any] = field(default_factory=dict)
    client_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """For messages."""
        return redact(", ".join(self.hosts))


@dataclass(frozen=True, slots=True)
class Action:
    """One line or two of a bulk request, as bytes."""

    body: bytes

    @classmethod
    def index(cls, doc_id: str, source: bytes) -> Action:
        return cls(_lines({"index": {"_id": doc_id}}, source))

    @classmethod
    def create(cls, doc_id: str, source: bytes) -> Action:
        return cls(_lines({"create": {"_id": doc_id}}, source))

    @classmethod
    def index_over(cls, doc_id: str, source: bytes, guard: tuple[int, int]) -> Action:
        """Write only over what was read: `guard` is its ``(_seq_no, _primary_term)``."""
        return cls(_lines({"index": {"_id": doc_id, "if_seq_no": guard[0], "if_primary_term": guard[1]}}, source))

    @classmethod
    def delete(cls, doc_id: str) -> Action:
        return cls(_lines({"delete": {"_id": doc_id}}))


class Connection:
    """An AsyncElasticsearch client that is open or closed."""

    def __init__(self, owner: object, options: ElasticsearchOptions) -> None:
        self._owner = owner
        self.options = options
        self.module = needs("elasticsearch", "elasticsearch", purpose="ElasticsearchStore")
        self._client: Any = None

    @property
    def version(self) -> str:
        """Of the client."""
        return ".".join(map(str, self.module.__version__))

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open(self) -> None:
        key = self.options.api_key
        arguments: dict[str, Any] = {
            "request_timeout": self.options.timeout_s,
            # aiohttp, the default, warns of every body above 1 MB.
            "node_class": "httpxasync",
            "connections_per_node": CONNECTIONS,
            **({} if key is None else {"api_key": key.get_secret_value()}),
            **self.options.client_kwargs,
        }
        self._client = self.module.AsyncElasticsearch(list(self.options.hosts), **arguments)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def client(self) -> Any:
        if self._client is None:
            raise closed_store(self._owner)
        return self._client

    @contextlib.contextmanager
    def errors(self, collection: str = "") -> Iterator[None]:
        """Turn errors of the client into ours."""
        module = self.module
        try:
            yield
        except (module.ConnectionError, module.ConnectionTimeout) as error:
            raise self._unavailable(str(error)) from error
        except module.ApiError as error:
            raise self._refused(collection, error.status_code, str(error)) from error
        except module.TransportError as error:  # no Elasticsearch, or an answer that cannot be read
            raise StoreError(f"Elasticsearch at {self.options.where}: {redact(str(error))[:500]}") from error

    def _refused(self, collection: str, status: int, reason: str) -> StoreError:
        """Our error for an answer that is none of success."""
        if "index_not_found" in reason:
            return CollectionNotFoundError(
                f"collection {collection!r} does not exist in Elasticsearch; create it with create_collection, or "
                "check the name"
            )
        if status in _UNAVAILABLE or any(kind in reason for kind in _PASSING):
            return self._unavailable(reason)
        if status in (401, 403):
            return StoreError(
                f"Elasticsearch at {self.options.where} answered {status}: {redact(reason)[:300]}; check the key, and "
                "what its role may do with indexes of this prefix (docs/stores/elasticsearch.md lists it)"
            )
        return StoreError(f"Elasticsearch at {self.options.where} refused a request: {redact(reason)[:500]}")

    def _unavailable(self, reason: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"Elasticsearch at {self.options.where} does not answer: {redact(reason)[:300]}; check the address, and "
            "that the server runs and the index is open; a shard that recovers takes seconds"
        )

    # --- writing ---

    async def bulk(self, index: str, actions: Sequence[Action], *, refresh: Refresh = False) -> list[int]:
        """Run `actions`, and make them visible as `refresh` says. Returns the status of each.

        Raises: StoreUnavailableError: the server was too busy for one, also after a while. StoreError: one failed
            otherwise than by a conflict, or by what it should delete being gone.
        """
        pieces = list(_pieces(actions))
        wait = refresh if len(pieces) == 1 else False
        statuses = await side_by_side((self._bulk(index, piece, wait) for piece in pieces), _BULKS)
        if len(pieces) > 1 and refresh:
            # A write that waits does so for the shards of its own request only.
            await self.client.indices.refresh(index=index)
        return [status for piece in statuses for status in piece]

    async def _bulk(self, index: str, actions: Sequence[Action], refresh: Refresh) -> list[int]:
        statuses = [BUSY] * len(actions)
        for attempt in range(_ATTEMPTS):
            pending = [place for place, status in enumerate(statuses) if status == BUSY]
            answer = await self.client.bulk(
                index=index,
                operations=b"".join(actions[place].body for place in pending),
                refresh=refresh,
                filter_path=["items.*.status", "items.*.error"],
            )
            items = [result for item in answer["items"] for result in item.values()]
            failed = [item for item in items if "error" in item and item["status"] not in (CONFLICT, BUSY)]
            if failed:
                raise self._refused(index, failed[0]["status"], json.dumps(failed[0]["error"]))
            for place, item in zip(pending, items, strict=True):
                statuses[place] = item["status"]
            if BUSY not in statuses:
                return statuses
            await asyncio.sleep(0.1 * 2**attempt)
        raise self._unavailable(f"it rejects writes (429): {json.dumps(items[-1].get('error'))}")

    # --- reading ---

    async def get(self, index: str, ids: Sequence[str], source: Sequence[str], *, page: int = _PAGE) -> list[Document]:
        """Documents as of now (a search shows what was refreshed); missing ones are left out."""
        pages = (self._get(index, part, source) for part in slices(ids, page))
        return [document for found in await side_by_side(pages, _PAGES) for document in found]

    async def _get(self, index: str, ids: Sequence[str], source: Sequence[str]) -> list[Document]:
        """One page; waits a moment for shards that recover, as those of a new index do."""
        for attempt in range(_ATTEMPTS):
            answer = await self.client.mget(index=index, docs=[{"_id": one, "_source": source} for one in ids])
            errors = [json.dumps(document["error"]) for document in answer["docs"] if "error" in document]
            if not errors:
                return [document for document in answer["docs"] if document.get("found")]
            if not any(kind in errors[0] for kind in _RECOVERING):
                break
            await asyncio.sleep(0.1 * 2**attempt)
        raise self._refused(index, 503, errors[0])

    async def msearch(self, index: str, searches: Sequence[tuple[Document, Document]]) -> list[Document]:
        """The answer to each ``(header, body)``, all of one request."""
        lines: list[Document] = []
        for header, body in searches:
            lines += [{"allow_partial_search_results": False, **header}, {"track_total_hits": False, **body}]
        answer = await self.client.msearch(index=index, searches=lines)
        for one in answer["responses"]:
            if "error" in one:
                raise self._refused(index, one.get("status", 500), json.dumps(one["error"]))
        return list(answer["responses"])

    async def scan(self, index: str, query: Document, source: Sequence[str] | bool) -> AsyncIterator[Document]:
        """All hits of one point in time."""
        opened = await self.client.open_point_in_time(index=index, keep_alive=_KEEP_ALIVE)
        snapshot, after = opened["id"], None
        try:
            while True:
                answer = await self.client.search(
                    pit={"id": snapshot, "keep_alive": _KEEP_ALIVE},
                    query=query,
                    size=_PAGE,
                    sort=[{"_shard_doc": "asc"}],
                    source=source,
                    track_total_hits=False,
                    **({} if after is None else {"search_after": after}),
                )
                snapshot = answer.get("pit_id", snapshot)
                hits = answer["hits"]["hits"]
                for hit in hits:
                    yield hit
                if len(hits) < _PAGE:
                    return
                after = hits[-1]["sort"]
        finally:
            with contextlib.suppress(self.module.ApiError, self.module.TransportError):  # it ends by itself
                await self.client.close_point_in_time(id=snapshot)


def _lines(action: Document, source: bytes | None = None) -> bytes:
    return to_json(action) + b"\n" + (b"" if source is None else source + b"\n")


def _pieces(actions: Iterable[Action]) -> Iterator[list[Action]]:
    return grouped(actions, at_most(_PIECE_DOCUMENTS), (lambda action: len(action.body), _PIECE_BYTES))
