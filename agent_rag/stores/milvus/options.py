"""What the constructor of `MilvusLiteStore` got, for both engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

DISTANCES = {"COSINE": "Cosine", "IP": "Dot", "L2": "Euclid"}
METRICS = {distance: metric for metric, distance in DISTANCES.items()}


@dataclass(frozen=True)
class MilvusOptions:
    """A local file uses `uri`, `metric_type`, `keyword` and the ``db_name`` of `client_kwargs`."""

    uri: str
    metric_type: str
    index_type: str
    batch_size: int
    timeout_s: float
    token: SecretStr | None
    keyword: bool = True
    client_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether `uri` is a file of Milvus Lite."""
        return "://" not in self.uri

    @property
    def vector_index(self) -> str:
        """Kind of the index of vectors."""
        return "FLAT" if self.is_local else self.index_type
