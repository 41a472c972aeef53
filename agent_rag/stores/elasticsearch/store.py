"""`ElasticsearchStore`: kNN over dense vectors and BM25 in an Elasticsearch index per collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from ...errors import ConfigurationError
from ..versions.engine import ExchangingEngine, VersionsStore
from .client import ElasticsearchOptions
from .server import ElasticsearchServer

_MAX_CANDIDATES = 10_000


class ElasticsearchStore(VersionsStore):
    """Elasticsearch 8.15 or later; each collection is one index.

    Any number of processes may read and write. See docs/stores/elasticsearch.md for what is promised, and what has met
    a real server.

    Args:
        hosts: Address of the server, or several of one cluster.
        num_candidates: Chunks that kNN looks at in each shard, 1 to 10,000; more find more of the true neighbours.
        refresh: True: a write asks for two refreshes of the index and returns when all reads show it. False: it leaves
            them to the server, waits for one where a reader would otherwise find no version of a document (up to a
            second), and listings and counts follow with the next one.
        client_kwargs: Further arguments of `elasticsearch.AsyncElasticsearch`, such as ``basic_auth`` or ``ca_certs``.
        api_key: Key of the server.
        index_prefix: What the names of the indexes begin with; lower case.
        index_settings: Settings of new indexes, such as ``number_of_shards``.
        timeout_s: Time limit of one request.

    Raises: ConfigurationError: an option is out of range. MissingExtraError: elasticsearch is not installed.
    """

    can_exchange = True
    _engine: ExchangingEngine

    def __init__(
        self,
        hosts: str | Sequence[str],
        *,
        num_candidates: int = 100,
        refresh: bool = True,
        client_kwargs: Mapping[str, Any] | None = None,
        api_key: str | SecretStr | None = None,
        index_prefix: str = "agent_rag-",
        index_settings: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        if not 1 <= num_candidates <= _MAX_CANDIDATES:
            raise ConfigurationError(f"num_candidates is {num_candidates}; Elasticsearch takes 1 to 10,000")
        if not isinstance(refresh, bool):
            raise ConfigurationError(f"refresh is {refresh!r}; use True or False")
        if index_prefix != index_prefix.lower() or index_prefix.startswith(("-", "_", "+", ".")):
            raise ConfigurationError(
                f"index_prefix {index_prefix!r}: index names are lower case and do not begin with '-', '_', '+' or '.'"
            )
        options = ElasticsearchOptions(
            hosts=[hosts] if isinstance(hosts, str) else list(hosts),
            num_candidates=num_candidates,
            refresh=refresh,
            api_key=SecretStr(api_key) if isinstance(api_key, str) else api_key,
            timeout_s=timeout_s,
            index_prefix=index_prefix,
            index_settings=dict(index_settings or {}),
            client_kwargs=dict(client_kwargs or {}),
        )
        self._where = options.where
        super().__init__(ExchangingEngine(ElasticsearchServer(self, options)))

    def __repr__(self) -> str:
        return f"ElasticsearchStore({self._where!r})"

    async def exchange_collections(self, first: str, second: str) -> None:
        await self._engine.exchange(first, second)
