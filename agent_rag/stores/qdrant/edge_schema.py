"""What is particular to the embedded engine: the file beside a shard, and how conditions are spelled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..engine.payload import TOKENS, check_format
from ..versions.stored_info import StoredInfo


class CollectionFile(StoredInfo):
    """What lies beside the shard as collection.json."""

    weight_average: float = 0.0
    """Average length that sparse weights are computed with; 0 until the first write."""

    def save(self, folder: Path) -> None:
        """Replace the file; a crash leaves the old one or the new one."""
        new = folder / "collection.json.new"
        with new.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / "collection.json")

    @classmethod
    def load(cls, folder: Path) -> CollectionFile | None:
        try:
            info = cls.model_validate_json((folder / "collection.json").read_bytes())
        except FileNotFoundError:
            return None
        check_format(info)
        return info


class EdgeDialect:
    """Conditions of qdrant-edge."""

    def __init__(self, edge: ModuleType) -> None:
        self.edge = edge

    def any_token(self, tokens: Sequence[str]) -> Any:
        match = self.edge.MatchValue(tokens[0]) if len(tokens) == 1 else self.edge.MatchAny(list(tokens))
        return self.edge.FieldCondition(TOKENS, match=match)

    def in_range(self, field: str, bounds: Mapping[str, float]) -> Any:
        return self.edge.FieldCondition(field, range=self.edge.RangeFloat(**bounds))

    def combine(self, must: Sequence[Any] = (), should: Sequence[Any] = (), must_not: Sequence[Any] = ()) -> Any:
        return self.edge.Filter(must=list(must) or None, should=list(should) or None, must_not=list(must_not) or None)
