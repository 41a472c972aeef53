"""Options that several commands have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

All = Annotated[bool, typer.Option("--all", help="Show a row for every file.")]
AsJSON = Annotated[
    bool, typer.Option("--json", help="Print JSON: one value a line, the result last; progress lines have an event.")
]
Base = Annotated[str | None, typer.Option("--kb", "-k", help="Knowledge base, by its name in agent-rag.toml.")]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file; default: agent-rag.toml in this folder.")
]
StoreURI = Annotated[
    str | None, typer.Option("--store", "-s", help="Store URI instead of the configured one, such as sqlite:FILE.db.")
]
Include = Annotated[list[str] | None, typer.Option("--include", help="Pattern as in .gitignore; may be repeated.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Pattern as in .gitignore; may be repeated.")]
Generated = Annotated[
    bool | None,
    typer.Option(
        "--include-generated/--leave-out-generated",
        help="Also dependencies, lock files, minified and generated code, search indexes of documentation.",
    ),
]
FilterJSON = Annotated[
    str | None, typer.Option("--filter", help="Metadata filter as JSON, such as '{\"year\": 2024}'.")
]
ChunkSize = Annotated[
    int | None, typer.Option("--chunk-size", min=50, help="Characters a chunk, at most; default: 1,000, or as before.")
]
SourceName = Annotated[
    str | None, typer.Option("--source", help="Name of the source; default: the one it is known by, else the folder's.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing; say what would be done and what it costs.")]
Reread = Annotated[
    bool, typer.Option("--reread", help="Read every file anew, also what is unchanged or failed before.")
]
Checksum = Annotated[
    bool | None, typer.Option("--checksum", help="Compare contents; default: size, times and inode first.")
]
Overlap = Annotated[int | None, typer.Option("--overlap", min=0, help="Characters that neighbouring chunks share.")]
OCR = Annotated[
    bool | None, typer.Option("--ocr/--no-ocr", help="Recognise the text of scanned pages and pictures (Tesseract).")
]
OCRLanguage = Annotated[
    str | None,
    typer.Option("--ocr-language", help="Languages of Tesseract, such as deu or eng+deu; switches --ocr on."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and of the report only what failed.")]
Recursive = Annotated[
    bool | None, typer.Option("--recursive/--no-recursive", help="Look into sub-directories; default: yes.")
]
Strict = Annotated[bool | None, typer.Option("--strict", help="Stop at the first failure.")]


@dataclass(frozen=True, kw_only=True)
class Loading:
    """What `ingest` and `sync` share: which knowledge base, which files, how they are read, what is shown."""

    kb: Base = None
    config: Config = None
    store: StoreURI = None
    include: Include = None
    exclude: Exclude = None
    include_generated: Generated = None
    recursive: Recursive = None
    chunk_size: ChunkSize = None
    overlap: Overlap = None
    ocr: OCR = None
    ocr_language: OCRLanguage = None
    source: SourceName = None
    dry_run: DryRun = False
    reread: Reread = False
    checksum: Checksum = None
    strict: Strict = None
    show_all: All = False
    quiet: Quiet = False
    as_json: AsJSON = False
