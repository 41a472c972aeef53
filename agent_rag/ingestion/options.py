"""The options of ingest and sync: what a caller may pass, and what a run goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from ..chunkers import ChunkerBase
from ..errors import ConfigurationError
from ..events import EventCallback, Trigger
from ..parsers import ParserBase, ParserPool
from ..sources import SourceItem
from ..sources.base import MetadataFor
from .contextual import ContextWriter
from .transforms import TransformBase

ParserFor = Callable[[SourceItem], ParserBase]


class SyncOptions(TypedDict, total=False):
    """Options of `sync`, and of `ingest` where `prune` is False by default."""

    chunker: ChunkerBase | None
    """Default: the one that was given the last time this source was ingested, else `AutoChunker`, by kind of text."""
    parser_for: ParserFor | None
    """Default: the registry, by content."""
    pool: ParserPool | None
    """Worker processes to parse in; default: some for this call."""
    transforms: Sequence[TransformBase] | None
    """Steps between parsing and chunking, in order; default: `CleanText`, () for none."""
    contexts: ContextWriter | None
    """Has a chat model write a line of context for each chunk, which is indexed and never shown; default: none."""
    strict: bool
    """Raise at the first failure."""
    prune: bool
    """Delete documents of this source that it no longer has. Only after a listing without errors."""
    max_prune_share: float
    """Refuse to prune more than this share of a source's documents; default .5."""
    force: bool
    """Read every file anew, also unchanged ones and those that failed before."""
    checksum: bool
    """Look at the content of every file; default: of those whose size, times or inode changed."""
    dry_run: bool
    """Write nothing, embed nothing, delete nothing: read what changed and say what it would cost."""
    source_concurrency: int
    """Sources that are listed at the same time; default 4."""
    document_concurrency: int | None
    """Files that are read at the same time; default: one more than the pool has workers."""
    embedding_batch_size: int | None
    """Texts a request to the embedding model; default: the model's `batch_size`, else 64."""
    max_concurrency: int | None
    """Such requests in flight; default: the model's `max_concurrency`, else 4."""
    max_file_bytes: int | None
    """A larger file is skipped with a reason; None: the parser's own bound (512 MiB for most), and 32 MiB for kinds of
    text where the store takes documents whole (all but `SQLiteStore`) or `contexts` are written."""
    max_chunks: int | None
    """A file that gives more chunks is skipped with a reason; None: 1,000,000, and 100,000 where the store takes
    documents whole."""
    trigger: Trigger
    """Who asked for it, for the audit events."""
    on_event: EventCallback | None
    """Called with `LoadProgress`."""


class IngestOptions(SyncOptions, total=False):
    """Options of `ingest`: those of `sync`, and how directories are listed."""

    include: Sequence[str]
    """Patterns as in .gitignore, for directories."""
    exclude: Sequence[str]
    """As `include`."""
    recursive: bool
    """Also look into sub-directories; default True."""
    include_generated: bool
    """Also what no person wrote, in directories; see `DirectorySource`. Default False."""
    include_hidden: bool
    """Also names that start with a dot. Default False."""
    links: Literal["inside", "all", "none"]
    """Which links of directories are followed; see `DirectorySource`. Default "inside"."""
    file_facts: bool
    """Size, time of change and media type of files of directories as metadata. Default False."""
    metadata: MetadataFor | None
    """Of the documents of directories; see `DirectorySource`."""
    name: str | None
    """Name of the source, where there is one; see `DirectorySource`."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """`SyncOptions` with their defaults."""

    chunker: ChunkerBase | None = None
    parser_for: ParserFor | None = None
    pool: ParserPool | None = None
    transforms: Sequence[TransformBase] | None = None
    contexts: ContextWriter | None = None
    strict: bool = False
    prune: bool = True
    max_prune_share: float = 0.5
    force: bool = False
    checksum: bool = False
    dry_run: bool = False
    source_concurrency: int = 4
    document_concurrency: int | None = None
    embedding_batch_size: int | None = None
    max_concurrency: int | None = None
    max_file_bytes: int | None = None
    max_chunks: int | None = None
    trigger: Trigger = "user"
    on_event: EventCallback | None = None

    def __post_init__(self) -> None:
        """Raises: ConfigurationError: a number is out of range."""
        numbers = ("source_concurrency", "document_concurrency", "embedding_batch_size", "max_concurrency",
                   "max_file_bytes", "max_chunks")  # fmt: skip
        for name in numbers:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; it is at least 1")
        if not 0 <= self.max_prune_share <= 1:
            raise ConfigurationError(f"max_prune_share is {self.max_prune_share}; it is a share, from 0 to 1")
