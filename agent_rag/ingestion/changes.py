"""Whether a file is as it was when it was read last: by what the file system says, then by its content."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import AgentRAGError
from ..parsers import ParserBase
from ..sources import SourceItem
from ..sources.base import stamp_of, with_content
from .identity import Task
from .options import ParserFor, RunOptions
from .state import FileState, Pipeline, metadata_digest

# Linux stamps files by a clock that moves every 4 to 10 ms, so a change right after the reading could keep the time.
_CLOCK_S = 0.02
# Measured: 20 MB of text, 29,846 chunks into a SQLiteStore, take 670 MB at the peak.
MAX_TEXT_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Look:
    """What reading a file's content said."""

    digest: str
    stamp: str
    parser: ParserBase
    pipeline: Pipeline
    item: SourceItem
    """With its content, or the path to it."""


class ChangeCheck:
    """Compares files with what is stored. Its methods read files: call them in a thread.

    Args:
        chunker_name, model, transforms: Fingerprints of what the run uses; the chunker's by task.
        tables: Version of what reads typed tables; empty where none are kept.
        in_parts: Whether a document of any size can be written.
    """

    def __init__(
        self,
        options: RunOptions,
        parser_for: ParserFor,
        chunker_name: Callable[[Task], str],
        model: str,
        transforms: str,
        tables: str = "",
        *,
        in_parts: bool = False,
    ) -> None:
        self._options = options
        self._parser_for = parser_for
        self._chunker_name = chunker_name
        self._model = model
        self._transforms = transforms
        self._tables = tables
        self.in_parts = in_parts
        self._pipelines: dict[str, Pipeline | None] = {}
        self._parsers: dict[str, bool] = {}
        self._same_settings: dict[tuple[str, str], bool] = {}

    def is_unchanged_by_stat(self, task: Task) -> bool:
        """Whether nothing says that the file or its settings changed; its content is not read."""
        state = None if task.known is None else task.known.state
        if state is None or self._options.force or self._options.checksum or not task.item.stamp:
            return False
        if state.stamp != task.item.stamp or state.refused:
            return False
        stored = self._pipeline_of(state)
        if stored is None or stored.metadata != metadata_digest(task.item, task.also):
            return False
        settings = (task.listed.name, state.pipeline)
        if settings not in self._same_settings:
            self._same_settings[settings] = stored.serves(self._pipeline(task, stored.parser))
        return self._same_settings[settings] and self._still_parsed_by(stored.parser, task.item)

    def over_size(self, task: Task) -> str | None:
        """Why a file is too large to be read, if it is."""
        item = task.item
        size = item.size if item.size is not None else len(item.data or b"")
        limit = self._options.max_file_bytes
        whole = limit is None and not self.in_parts
        if whole and size > MAX_TEXT_BYTES and item.read is None and is_text(self._parser_for(item)):
            return (
                f"{size:,} bytes of text are over the default of {MAX_TEXT_BYTES:,}: here a document is written whole, "
                "which takes about 26 bytes of memory for each; split it, use a SQLiteStore without lines of context, "
                "or pass max_file_bytes="
            )
        if limit is not None and size > limit:
            return f"{size:,} bytes are over max_file_bytes={limit:,}; split it, or raise that"
        return None

    def look(self, task: Task) -> Look:
        """Read the content. Raises: OSError; ParseError: no parser takes it."""
        item = with_content(task.item)
        digest, stamp = digest_and_stamp(item)
        parser = self._parser_for(item)
        return Look(digest, stamp, parser, self._pipeline(task, fingerprint_of(parser)), item)

    def is_unchanged(self, task: Task, look: Look) -> bool:
        """Whether content and settings are those of what is stored, or of what was refused."""
        state = None if task.known is None else task.known.state
        if state is None or self._options.force:
            return False
        stored = self._pipeline_of(state)
        if stored is None or not stored.serves(look.pipeline):
            return False
        return look.digest in (state.digest, state.refused)

    def cause(self, task: Task, look: Look) -> str | None:
        """What changed although the content did not, for the report."""
        state = None if task.known is None else task.known.state
        if state is None or state.digest != look.digest or task.is_new:
            return None
        before = self._pipeline_of(state)
        if before is None:
            return "settings changed: it was made by another version"
        return f"settings changed: {', '.join(changed)}" if (changed := before.differences(look.pipeline)) else None

    def _pipeline(self, task: Task, parser: str) -> Pipeline:
        return Pipeline(
            parser=parser,
            chunker=self._chunker_name(task),
            model=self._model,
            metadata=metadata_digest(task.item, task.also),
            transforms=self._transforms,
            tables=self._tables,
        )

    def _pipeline_of(self, state: FileState) -> Pipeline | None:
        if state.pipeline not in self._pipelines:
            self._pipelines[state.pipeline] = Pipeline.load(state.pipeline)
        return self._pipelines[state.pipeline]

    def _still_parsed_by(self, parser: str, item: SourceItem) -> bool:
        """Whether files that were read by `parser` still are; with the registry one file tells it for all."""
        if self._options.parser_for is not None:
            return self._names(parser, item)
        if parser not in self._parsers:
            self._parsers[parser] = self._names(parser, item)
        return self._parsers[parser]

    def _names(self, parser: str, item: SourceItem) -> bool:
        try:
            # What lies elsewhere is read only if its name and type do not say enough.
            return fingerprint_of(self._parser_for(item)) == parser or (
                item.read is not None and fingerprint_of(self._parser_for(with_content(item))) == parser
            )
        except (AgentRAGError, OSError):
            return False


def digest_of(item: SourceItem) -> str:
    """SHA-256 of the content. Raises: OSError."""
    return digest_and_stamp(with_content(item))[0]


def digest_and_stamp(item: SourceItem) -> tuple[str, str]:
    """SHA-256 of the content, and the stamp that goes with it; empty when the file may change under the same stamp."""
    if item.path is None:
        return hashlib.sha256(item.data or b"").hexdigest(), item.stamp or ""
    with open(item.path, "rb") as file:
        stat = os.fstat(file.fileno())
        if 0 <= time.time_ns() - stat.st_mtime_ns < _CLOCK_S * 1e9:
            time.sleep(_CLOCK_S)
            stat = os.fstat(file.fileno())
        age_ns = time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns)
        # Times in whole seconds: a file system that keeps no more (FAT, HFS+), where two seconds are one moment.
        needed_ns = (
            2.0 if stat.st_mtime_ns % 1_000_000_000 == 0 == stat.st_ctime_ns % 1_000_000_000 else _CLOCK_S
        ) * 1e9
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, stamp_of(stat) if age_ns >= needed_ns else ""


def is_text(parser: ParserBase) -> bool:
    """Whether a parser reads text: such a file may be empty, and all of it becomes chunks."""
    kinds = getattr(parser, "supported_media_types", ())
    return any(kind.startswith("text/") or kind.endswith(("json", "xml", "yaml")) for kind in kinds)


def fingerprint_of(thing: object) -> str:
    """Its `fingerprint`, else the name of its class."""
    return str(getattr(thing, "fingerprint", None) or type(thing).__name__)
