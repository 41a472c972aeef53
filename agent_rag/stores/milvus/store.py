"""`MilvusLiteStore`: a local Milvus Lite file, or a Milvus server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import SecretStr

from ...errors import ConfigurationError, redact
from ..versions.engine import VersionsEngine, VersionsStore
from .options import MilvusOptions
from .server import MilvusServer

MetricType = Literal["COSINE", "IP", "L2"]


class MilvusLiteStore(VersionsStore):
    """Milvus, in this process (Milvus Lite) or on a server.

    A local file belongs to one store object at a time, shared by any number of tasks; its searches are exact. See
    docs/stores/milvus.md for what each deployment promises.

    Args:
        uri: File of Milvus Lite, ending in ``.db``, made when it does not exist; or ``http://host:19530``.
        metric_type: How vectors are compared; L2 scores negated distances, COSINE within [-1, 1].
        index_type: Index of the vectors in new collections on a server.
        client_kwargs: Further arguments of `pymilvus.MilvusClient` for a server; a local file uses ``db_name`` alone.
        batch_size: Most rows in one message to a server.
        token: ``"user:password"`` or API key of a server.
        timeout_s: Time limit of one call to a server.
        keyword: Index words in collections that this store creates. False: the store has no keyword search.

    Raises: ConfigurationError: a local path does not end in ``.db``, or an option is out of range.
        MissingExtraError: pymilvus or milvus-lite is not installed.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] = "./agent_rag_milvus_lite.db",
        *,
        metric_type: MetricType = "COSINE",
        index_type: str = "AUTOINDEX",
        client_kwargs: Mapping[str, Any] | None = None,
        batch_size: int = 256,
        token: str | SecretStr | None = None,
        timeout_s: float = 60.0,
        keyword: bool = True,
    ) -> None:
        place = os.fspath(uri)
        if "://" not in place and not place.endswith(".db"):
            raise ConfigurationError(
                f"MilvusLiteStore(uri={place!r}): a Milvus Lite file ends in '.db', a server's address is like "
                "'http://host:19530'"
            )
        if metric_type not in get_args(MetricType):
            raise ConfigurationError(f"metric_type {metric_type!r} is none of {', '.join(get_args(MetricType))}")
        if batch_size < 1 or timeout_s <= 0:
            raise ConfigurationError(f"batch_size={batch_size} and timeout_s={timeout_s} must be above 0")
        options = MilvusOptions(
            uri=place,
            metric_type=metric_type,
            index_type=index_type,
            batch_size=batch_size,
            timeout_s=timeout_s,
            token=SecretStr(token) if isinstance(token, str) else token,
            keyword=keyword,
            client_kwargs=dict(client_kwargs or {}),
        )
        self._where = redact(place)
        super().__init__(VersionsEngine(MilvusServer(self, options)))
        if not keyword:
            self.keyword_search = False

    def __repr__(self) -> str:
        return f"MilvusLiteStore({self._where!r})"
