"""`TcVectorStore`: Tencent Cloud VectorDB."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import SecretStr

from ...errors import ConfigurationError
from ..versions.engine import VersionsEngine, VersionsStore
from .client import TcVectorOptions
from .server import TcVectorServer

Metric = Literal["COSINE", "IP", "L2"]
IndexType = Literal["HNSW", "FLAT"]


class TcVectorStore(VersionsStore):
    """Tencent Cloud VectorDB over HTTP, with strongly consistent reads.

    See docs/stores/tcvector.md for what this store promises, and for remote embedding.

    Args:
        url: Address of the instance, such as ``http://10.0.0.1:80``.
        username: Account.
        api_key: Its key.
        database: Made when it does not exist.
        distance: How vectors are compared in new collections; ``"L2"`` scores negated distances.
        index_type: ``"HNSW"``, or ``"FLAT"``, which is exact and reads all vectors.
        ef: Least number of vectors that a search in an HNSW index looks at.
        embedding: Model of the database that embeds texts and queries, such as ``"bge-base-zh"``; collections are then
            made without vectors of ours (0 dimensions), and texts are searched by meaning instead of by BM25.
        shards: Number of shards of new collections.
        replicas: Number of replicas of new collections; None: the fewest that the instance takes (0 in one zone, 1 in
            two, 2 in three).
        timeout_s: Time limit of one request.

    Raises: ConfigurationError: an option is out of range. MissingExtraError: tcvectordb is not installed.
    """

    def __init__(
        self,
        url: str,
        username: str = "root",
        api_key: str | SecretStr | None = None,
        *,
        database: str = "agent_rag",
        distance: Metric = "COSINE",
        index_type: IndexType = "HNSW",
        ef: int = 200,
        embedding: str | None = None,
        shards: int = 1,
        replicas: int | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        if distance not in get_args(Metric):
            raise ConfigurationError(f"distance {distance!r} is unknown; use one of {', '.join(get_args(Metric))}")
        if index_type not in get_args(IndexType):
            raise ConfigurationError(
                f"index_type {index_type!r} is unknown; use one of {', '.join(get_args(IndexType))}"
            )
        if not 1 <= ef <= 32_768:
            raise ConfigurationError(f"ef is {ef}; VectorDB takes 1 to 32,768")
        if timeout_s <= 0 or shards < 1 or (replicas or 0) < 0:
            raise ConfigurationError(f"timeout_s={timeout_s}, shards={shards} and replicas={replicas} are out of range")
        options = TcVectorOptions(
            url=url.rstrip("/"),
            username=username,
            api_key=SecretStr(api_key) if isinstance(api_key, str) else api_key,
            database=database,
            metric=distance,
            index_type=index_type,
            ef=ef,
            embedding=embedding,
            shards=shards,
            replicas=replicas,
            timeout_s=timeout_s,
        )
        self._where = options.where
        self._database = database
        super().__init__(VersionsEngine(TcVectorServer(self, options)))

    def __repr__(self) -> str:
        return f"TcVectorStore({self._where!r}, database={self._database!r})"
