"""What is particular to the embedded engine: the files beside a shard, and how conditions are spelled."""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from ...errors import StoreDamagedError
from ..engine.payload import TOKENS, check_format
from ..versions.stored_info import StoredInfo

_FILE = "collection.json"


class CollectionFile(StoredInfo):
    """What lies beside the shard as collection.json: one line of JSON, and its CRC-32."""

    weight_average: float = 0.0
    """Average length that sparse weights are computed with; 0 until the first write."""
    chunk_count: int | None = None
    """As the collection was closed; None from the first write after it on."""
    has_idf: bool = False
    """Whether the engine tells how rare a word is; False in folders that versions before wrote."""

    def save(self, folder: Path) -> None:
        """Replace the file; a crash leaves the old one or the new one."""
        text = self.model_dump_json()
        new = folder / f"{_FILE}.new"
        with new.open("w", encoding="utf-8") as file:
            file.write(f"{text}\n{zlib.crc32(text.encode()):08x}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / _FILE)

    @classmethod
    def load(cls, folder: Path) -> CollectionFile | None:
        """None where there is no such folder.

        Raises: StoreDamagedError: the file is missing, torn or changed. StoreError: a later version wrote it.
        """
        try:
            text, _, checksum = (folder / _FILE).read_text(encoding="utf-8").partition("\n")
            info = cls.model_validate_json(text)
        except FileNotFoundError:
            if folder.is_dir():
                raise _damaged(folder, "is missing") from None
            return None
        except (ValidationError, UnicodeDecodeError) as error:
            raise _damaged(folder, "is torn or changed") from error
        check_format(info)
        if checksum and checksum.strip() != f"{zlib.crc32(text.encode()):08x}":
            raise _damaged(folder, "does not have its checksum")
        return info


def _damaged(folder: Path, what: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"{folder / _FILE} {what}, so this collection cannot be read; the others can. Nothing was changed: restore the "
        "file from a copy, or delete the collection and ingest it again"
    )


def folder_name(name: str) -> str:
    """A folder name for any collection name, equal for equal names only, also where case does not count."""
    safe = re.sub(r"[^a-z0-9_.-]", lambda found: f"%{ord(found[0]):x}.", name)
    if len(safe) > 150:
        safe = f"{safe[:100]}%{hashlib.sha256(name.encode()).hexdigest()}"
    return f"c-{safe}"


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
