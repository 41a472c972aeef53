"""What the commands ingest and sync do with a knowledge base."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from ..config.parts import chunker_of, parser_choice, pool_of, run_options
from ..config.settings import CONFIG_NAME, KnowledgeBaseSettings
from ..ingestion import IngestReport, ingest, watch
from ..knowledge.knowledge_base import KnowledgeBase
from ..sources import DirectorySource, SourceBase, WebSource, open_source
from ..sources.base import is_address
from .options import Loading
from .progress import progress_of_load
from .reporting import show_report

_OF_DIRECTORIES = (
    "include", "exclude", "recursive", "include_generated", "include_hidden", "links", "file_facts", "metadata", "name",
)  # fmt: skip


def options_of(settings: KnowledgeBaseSettings, given: Loading) -> dict[str, Any]:
    """Options of `ingest`: those of agent-rag.toml, and the flags over them."""
    options = run_options(settings.ingest)
    options |= {
        "include": [*settings.include, *(given.include or ())],
        "exclude": [*settings.exclude, *(given.exclude or ()), CONFIG_NAME],
        "include_generated": (
            settings.include_generated if given.include_generated is None else given.include_generated
        ),
        "name": given.source,
        "dry_run": given.dry_run,
        "force": given.reread,
        "chunker": chunker_of(settings, chunk_size=given.chunk_size, overlap=given.overlap),
        "parser_for": parser_choice(settings, ocr=given.ocr_language or given.ocr),
    }
    for name, flag in (("recursive", given.recursive), ("checksum", given.checksum), ("strict", given.strict)):
        if flag is not None:
            options[name] = flag
    return options


def sources_of(paths: Sequence[str], options: dict[str, Any], *, allow_private: bool) -> list[str | SourceBase]:
    """Paths as they are, a source for each address of another kind, and one for all pages of the web."""
    pages = [path for path in paths if is_address(path) and not _is_tree(path)]
    trees: dict[str, Any] = {
        "include": options.get("include", ()),
        "exclude": options.get("exclude", ()),
        "name": options.get("name"),
    }
    chosen: list[str | SourceBase] = []
    for path in paths:
        if _is_tree(path):
            fetched: dict[str, Any] = (
                {"allow_private": allow_private} if is_address(path) and ".git" not in path else {}
            )
            chosen.append(open_source(path, **trees, **fetched))
        elif path not in pages:
            chosen.append(path)
    if pages:
        named = {"name": options["name"]} if options.get("name") else {}
        chosen.append(WebSource(pages, allow_private=allow_private, **named))
    return chosen


async def load(
    base: KnowledgeBase,
    paths: Sequence[str],
    options: dict[str, Any],
    settings: KnowledgeBaseSettings,
    *,
    allow_private: bool,
    quiet: bool,
    as_json: bool,
) -> IngestReport:
    """Ingest or sync `paths`, and show how far it is."""
    sources = sources_of(paths, options, allow_private=allow_private or settings.ingest.allow_private)
    if any(isinstance(source, SourceBase) for source in sources) and all(
        isinstance(source, SourceBase) for source in sources
    ):
        options = {**options, "name": None}  # they have it
    async with pool_of(settings.ingest) as pool:
        with progress_of_load(quiet=quiet, as_json=as_json) as display:
            try:
                return await ingest(base, sources, pool=pool, on_event=display, **options)
            except asyncio.CancelledError as error:
                error.add_note(f"{display.kept()}; the same command goes on from there")
                raise


async def watch_folder(base: KnowledgeBase, path: str, options: dict[str, Any], given: Loading) -> None:
    """Sync a folder until interrupted, and show what each sync did."""
    of_source = {name: options.pop(name) for name in _OF_DIRECTORIES if name in options}
    source = DirectorySource(path, **of_source)

    def show(report: IngestReport) -> None:
        show_report(report, as_json=given.as_json, show_all=given.show_all, quiet=given.quiet)

    await watch(base, source, on_report=show, **options)


def is_folder(path: str) -> bool:
    """Whether it is one, and no address."""
    return os.path.isdir(path)


def _is_tree(path: str) -> bool:
    """Whether it is an address that `open_source` makes more of than a page: a repository, a sitemap, s3://..."""
    address = path.partition("#")[0].partition("?")[0].lower()
    return (
        path.startswith(("git+", "git@", "ssh://"))
        or (is_address(path) and (address.endswith(".git") or "sitemap" in address.rpartition("/")[2]))
        or ("://" in path and not is_address(path))
    )
