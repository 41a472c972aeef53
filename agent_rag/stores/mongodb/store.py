"""`MongoDBStore`: MongoDB with MongoDB Search, on Atlas or self-managed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import SecretStr

from ...errors import ConfigurationError
from ..versions.engine import VersionsEngine, VersionsStore
from .client import MongoDBOptions
from .server import MongoDBServer

Similarity = Literal["cosine", "euclidean", "dotProduct"]


class MongoDBStore(VersionsStore):
    """MongoDB with `$vectorSearch` and `$search`: Atlas, or a self-managed replica set with mongot.

    Each collection is one collection of the database. A write returns when both search indexes have it, so it takes as
    long as these lag behind. See docs/stores/mongodb.md for what this store promises.

    Args:
        uri: Connection string, with user and password where there are some.
        database: Name of the database.
        distance: How vectors are compared in new collections; `"euclidean"` scores negated distances, `"cosine"` within
            [-1, 1].
        index_name: Name of the index for vectors.
        text_index_name: Name of the index for words.
        filter_fields: Accepted as AgentScope has it, such as ``["chunk.metadata.tenant_id"]``. Every field can be
            filtered by without being declared.
        num_candidates: Least number of vectors that a search compares, up to 10,000; at least 20 for each hit.
        index_timeout_s: Time limit for new search indexes to be built, and for a write to be found in them.
        timeout_s: Time limit of one call to the server.
        client_kwargs: Further arguments of `pymongo.AsyncMongoClient`.

    Raises: ConfigurationError: an option is out of range. MissingExtraError: pymongo is not installed.
    """

    def __init__(
        self,
        uri: str | SecretStr,
        database: str = "agent_rag",
        *,
        distance: Similarity = "cosine",
        index_name: str = "vector_index",
        text_index_name: str = "text_index",
        filter_fields: Sequence[str] | None = None,
        num_candidates: int = 200,
        index_timeout_s: float = 30.0,
        timeout_s: float = 30.0,
        client_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if distance not in get_args(Similarity):
            raise ConfigurationError(f"distance {distance!r} is unknown; use one of {', '.join(get_args(Similarity))}")
        if not 1 <= num_candidates <= 10_000:
            raise ConfigurationError(f"num_candidates is {num_candidates}; MongoDB takes 1 to 10,000")
        if index_timeout_s <= 0 or timeout_s <= 0:
            raise ConfigurationError(
                f"index_timeout_s={index_timeout_s} and timeout_s={timeout_s} must be above 0 seconds"
            )
        if index_name == text_index_name:
            raise ConfigurationError(f"index_name and text_index_name are both {index_name!r}; name two indexes")
        if isinstance(filter_fields, str) or not all(isinstance(path, str) for path in filter_fields or ()):
            raise ConfigurationError(f"filter_fields is {filter_fields!r}; pass a list of dotted paths")
        options = MongoDBOptions(
            uri=uri if isinstance(uri, SecretStr) else SecretStr(uri),
            database=database,
            similarity=distance,
            vector_index=index_name,
            text_index=text_index_name,
            num_candidates=num_candidates,
            index_timeout_s=index_timeout_s,
            timeout_s=timeout_s,
            client_kwargs=dict(client_kwargs or {}),
        )
        self._where = options.where
        self._database = database
        super().__init__(VersionsEngine(MongoDBServer(self, options)))

    def __repr__(self) -> str:
        return f"MongoDBStore({self._where!r}, database={self._database!r})"
