"""What ingestion keeps with each document, in the store, to see what changed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

from ..sources import SourceItem

PIPELINE_VERSION = 3
"""Raised when the same file, parser and chunker would give other documents."""

Status = Literal["stored", "skipped", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """One file of a source as it was when it was last read.

    A file that was skipped or failed is kept as a document without chunks, so that it is not read again.
    """

    source: str
    """Name of its source."""
    path: str = ""
    """Its path within the source; empty in collections of before there were paths."""
    location: str = ""
    """Where the source lay, as a URI."""
    chosen: str = ""
    """"yes" when somebody chose the name of the source."""
    digest: str = ""
    """SHA-256 of the content."""
    stamp: str = ""
    """What the file system said of it; see `SourceItem.stamp`. Empty: not to be trusted."""
    pipeline: str = ""
    """A `Pipeline` as JSON."""
    status: str = "stored"
    reason: str = ""
    """Why it was skipped or failed."""
    chunker_chosen: str = ""
    """"yes" when somebody chose the chunker; later runs keep to it."""
    refused: str = ""
    """Digest of a newer content that failed, while what is stored is an older one."""

    @classmethod
    def of(cls, state: Mapping[str, str]) -> Self | None:
        """None for a document that did not come from a source."""
        if not state.get("source"):
            return None
        return cls(**{name: state[name] for name in cls.__slots__ if name in state})

    def dump(self) -> dict[str, str]:
        """For `Document.state`, without what is empty."""
        return {name: value for name, value in asdict(self).items() if value and (name, value) != ("status", "stored")}


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """What a document was made with; another one makes it anew."""

    parser: str
    chunker: str
    model: str
    metadata: str
    """Hash of the metadata that its source gives it; empty for none."""
    transforms: str = ""
    tables: str = ""
    """Version of what reads typed tables; empty where none are kept."""
    version: int = PIPELINE_VERSION

    def dump(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> Self | None:
        """None when it was written by another version."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def serves(self, wanted: Pipeline) -> bool:
        """Whether a document that was made with this need not be made anew; tables that nobody asks for do no harm."""
        return self == (wanted if wanted.tables else replace(wanted, tables=self.tables))

    def differences(self, newer: Pipeline) -> list[str]:
        """What is not as it was, for a report."""
        names = [field.name for field in fields(self) if getattr(self, field.name) != getattr(newer, field.name)]
        shown = {
            name: name
            if name == "metadata"
            else f"{name} {_change(str(getattr(self, name)), str(getattr(newer, name)))}"
            for name in names
        }
        return list(shown.values())


def _change(before: str, now: str) -> str:
    """Two fingerprints as ``old -> new``; of two of one kind, such as ``PDFParser:3:{'ocr': None, ...}``, only the
    options that differ."""
    kind, old = before.partition(":{")[::2]
    same, new = now.partition(":{")[::2]
    if not old or kind != same:
        return f"{before} -> {now}"
    was, now_is = (re.split(r", ?(?=['\"])", text.removesuffix("}")) for text in (old, new))
    gone = ", ".join(option for option in was if option not in now_is)
    come = ", ".join(option for option in now_is if option not in was)
    return f"{kind.partition(':')[0]} {gone} -> {come}"


def metadata_digest(item: SourceItem, also: Sequence[str]) -> str:
    """Equal for equal metadata, title and further names; empty for none."""
    given: dict[str, Any] = dict(item.metadata)
    if item.title:
        given["\x00title"] = item.title
    if also:
        given["\x00also"] = list(also)
    if not given:
        return ""
    return hashlib.sha256(repr(sorted(given.items())).encode("utf-8", "surrogatepass")).hexdigest()[:16]
