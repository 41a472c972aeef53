"""The connection to Elasticsearch: errors, bulk requests of a size that it takes, pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from ..._util.extras import needs
from ...errors import CollectionNotFoundError, StoreError, StoreUnavailableError, redact
from ..engine.records import closed_store
from ..versions.groups import at_most, grouped
from .schema import Document, as_json

Refresh = bool | str
# Most of what one request carries; the event loop stands still while it is copied and sent.
_PIECE_BYTES = 1_000_000
_PIECE_DOCUMENTS = 1_000
_PAGE = 1_000
_KEEP_ALIVE = "2m"
_UNAVAILABLE = frozenset({429, 502, 503, 504})
CONFLICT = 409


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


@dataclass(frozen=True)
class Action:
    """One line or two of a bulk request, as bytes."""

    body: bytes

    @classmethod
    def index(cls, doc_id: str, routing: str, source: bytes) -> Action:
        return cls(_lines({"index": {"_id": doc_id, "routing": routing}}, source))

    @classmethod
    def create(cls, doc_id: str, routing: str, source: Document) -> Action:
        return cls(_lines({"create": {"_id": doc_id, "routing": routing}}, source))

    @classmethod
    def index_over(cls, doc_id: str, routing: str, source: Document, seq_no: int, primary_term: int) -> Action:
        """Write only over what was read."""
        return cls(_lines({"index": {"_id": doc_id, "routing": routing, **_only_if(seq_no, primary_term)}}, source))

    @classmethod
    def delete(cls, doc_id: str, routing: str) -> Action:
        return cls(_lines({"delete": {"_id": doc_id, "routing": routing}}))

    @classmethod
    def delete_over(cls, doc_id: str, routing: str, seq_no: int, primary_term: int) -> Action:
        """Delete only what was read."""
        return cls(_lines({"delete": {"_id": doc_id, "routing": routing, **_only_if(seq_no, primary_term)}}))


class Connection:
    """An AsyncElasticsearch client that is open or closed."""

    def __init__(self, owner: object, options: ElasticsearchOptions) -> None:
        self._owner = owner
        self.options = options
        self._module = needs("elasticsearch", "elasticsearch", purpose="ElasticsearchStore")
        self._client: Any = None

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open(self) -> None:
        key = self.options.api_key
        arguments: dict[str, Any] = {
            "request_timeout": self.options.timeout_s,
            # aiohttp, the default, warns of every body above 1 MB.
            "node_class": "httpxasync",
            **({} if key is None else {"api_key": key.get_secret_value()}),
            **self.options.client_kwargs,
        }
        self._client = self._module.AsyncElasticsearch(list(self.options.hosts), **arguments)

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
        module = self._module
        try:
            yield
        except (module.ConnectionError, module.ConnectionTimeout) as error:
            raise self._unavailable(error) from error
        except module.ApiError as error:
            if error.status_code in _UNAVAILABLE:
                raise self._unavailable(error) from error
            if error.status_code == 404 and "index_not_found" in str(error):
                raise CollectionNotFoundError(
                    f"collection {collection!r} does not exist in Elasticsearch; create it with create_collection, "
                    "or check the name"
                ) from error
            detail = redact(str(error))[:500]
            raise StoreError(f"Elasticsearch at {self.options.where} refused a request: {detail}") from error
        except module.TransportError as error:  # no Elasticsearch, or an answer that cannot be read
            raise StoreError(f"Elasticsearch at {self.options.where}: {redact(str(error))[:500]}") from error

    def _unavailable(self, error: BaseException) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"Elasticsearch at {self.options.where} does not answer: {redact(str(error))[:300]}; "
            "check the address and that the server runs"
        )

    # --- writing ---

    async def bulk(self, index: str, actions: Sequence[Action], *, refresh: Refresh) -> list[int]:
        """Run `actions`, and make them visible as `refresh` says. Returns the status of each.

        Raises: StoreError: one failed otherwise than by a conflict, or by what it should delete being gone.
        """
        pieces = list(_pieces(actions))
        statuses: list[int] = []
        for piece in pieces:
            wait = refresh if len(pieces) == 1 else False
            answer = await self.client.bulk(
                index=index,
                operations=b"".join(one.body for one in piece),
                refresh=wait,
                filter_path=["items.*.status", "items.*.error"],
            )
            items = [result for item in answer["items"] for result in item.values()]
            statuses += [item["status"] for item in items]
            failed = [item for item in items if "error" in item and item["status"] != CONFLICT]
            if failed:
                raise StoreError(
                    f"Elasticsearch at {self.options.where} refused {len(failed)} of {len(items)} writes: "
                    f"{redact(json.dumps(failed[0]['error']))[:500]}"
                )
        if len(pieces) > 1 and refresh is not False:
            # A write that waits does so for the shards of its own request only.
            await self.client.indices.refresh(index=index)
        return statuses

    # --- reading ---

    async def get(
        self, index: str, routed: Mapping[str, str], *, source: Sequence[str] | bool = True
    ) -> list[Document]:
        """Documents as of now (a search shows what was refreshed); missing ones are left out.

        Args:
            routed: Id -> routing.
        """
        found: list[Document] = []
        items = [{"_id": doc_id, "routing": routing, "_source": source} for doc_id, routing in routed.items()]
        for start in range(0, len(items), _PAGE):
            answer = await self.client.mget(index=index, docs=items[start : start + _PAGE])
            for document in answer["docs"]:
                if document.get("found"):
                    found.append(document)
                elif "error" in document:
                    raise CollectionNotFoundError(f"index {index!r} is gone; its collection was dropped meanwhile")
        return found

    async def count(self, index: str, query: Document) -> int:
        answer = await self.client.count(index=index, query=query)
        return int(answer["count"])

    async def scan(
        self, index: str, query: Document, *, source: Sequence[str], sort: Sequence[str], page: int = _PAGE
    ) -> AsyncIterator[Document]:
        """All hits of one point in time, in the order of the fields `sort`."""
        async with self.snapshot(index) as rows:
            after: Document = {}
            while True:
                hits = await rows.search(
                    query=query, source=list(source), sort=[{name: "asc"} for name in sort], size=page, **after
                )
                for hit in hits:
                    yield hit
                if len(hits) < page:
                    return
                after = {"search_after": hits[-1]["sort"]}

    @contextlib.asynccontextmanager
    async def snapshot(self, index: str) -> AsyncIterator[Rows]:
        """The index as searches show it now, unchanged by what is written from here on."""
        opened = await self.client.open_point_in_time(index=index, keep_alive=_KEEP_ALIVE)
        rows = Rows(self, index, opened["id"])
        try:
            yield rows
        finally:
            with contextlib.suppress(self._module.ApiError, self._module.TransportError):  # it ends by itself
                await self.client.close_point_in_time(id=rows.point_in_time)


class Rows:
    """What reads see of one index: its latest state at each request, or one point in time."""

    def __init__(self, connection: Connection, index: str, point_in_time: str | None = None) -> None:
        self._connection = connection
        self._index = index
        self.point_in_time = point_in_time

    async def search(self, **body: Any) -> list[Document]:
        """Hits of one search, at most 10,000."""
        where: Document = {"index": self._index, "allow_partial_search_results": False}
        if self.point_in_time is not None:
            where = {"pit": {"id": self.point_in_time, "keep_alive": _KEEP_ALIVE}}
        answer = await self._connection.client.search(**where, track_total_hits=False, **body)
        if self.point_in_time is not None:
            self.point_in_time = answer.get("pit_id", self.point_in_time)
        return list(answer["hits"]["hits"])

    async def by_ids(self, ids: Sequence[str], *, page: int = _PAGE, **body: Any) -> list[Document]:
        """Hits by id, from a search, which can give vectors."""
        pages = [list(ids[start : start + page]) for start in range(0, len(ids), page)]
        found: list[Document] = []
        for start in range(0, len(pages), 4):
            calls = [
                self.search(query={"ids": {"values": part}}, size=len(part), **body)
                for part in pages[start : start + 4]
            ]
            for hits in await asyncio.gather(*calls):
                found += hits
        return found

    async def heads(self, ids: Sequence[str]) -> list[Document]:
        """Heads by id: with `_source`, `_seq_no` and `_primary_term`. Outside a point in time also those that no search
        shows yet."""
        if self.point_in_time is not None:
            return await self.by_ids(ids, seq_no_primary_term=True)
        return await self._connection.get(self._index, dict(zip(ids, ids, strict=True)))


def _only_if(seq_no: int, primary_term: int) -> Document:
    return {"if_seq_no": seq_no, "if_primary_term": primary_term}


def _lines(action: Document, source: Document | bytes | None = None) -> bytes:
    if source is None:
        return as_json(action) + b"\n"
    return as_json(action) + b"\n" + (source if isinstance(source, bytes) else as_json(source)) + b"\n"


def _pieces(actions: Iterable[Action]) -> Iterator[list[Action]]:
    return grouped(actions, at_most(_PIECE_DOCUMENTS), (lambda action: len(action.body), _PIECE_BYTES))
