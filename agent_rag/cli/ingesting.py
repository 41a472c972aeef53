"""What the commands ingest and sync do with a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..chunkers import AutoChunker
from ..ingestion import IngestReport, ingest, watch
from ..knowledge.knowledge_base import KnowledgeBase
from ..sources import DirectorySource, SourceBase, WebSource, open_source
from ..sources.base import is_address
from . import output as console


def chunker_of(chunk_size: int | None, overlap: int | None) -> AutoChunker | None:
    """A chunker with the sizes that were given; None for none, so that a source keeps its own."""
    if chunk_size is None and overlap is None:
        return None
    given = {"chunk_size": chunk_size, "overlap": overlap}
    if overlap is None and chunk_size is not None:
        given["overlap"] = min(100, chunk_size // 10)
    return AutoChunker({name: value for name, value in given.items() if value is not None})


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
    base: KnowledgeBase, paths: Sequence[str], options: dict[str, Any], *, allow_private: bool, quiet: bool
) -> IngestReport:
    """Ingest or sync `paths` with a progress bar."""
    sources = sources_of(paths, options, allow_private=allow_private)
    if any(isinstance(source, SourceBase) for source in sources) and all(
        isinstance(source, SourceBase) for source in sources
    ):
        options = {**options, "name": None}  # they have it
    with console.progress_of_load(quiet=quiet) as on_event:
        return await ingest(base, sources, on_event=on_event, **options)


async def watch_folder(base: KnowledgeBase, path: str, options: dict[str, Any], *, as_json: bool) -> None:
    """Sync a folder until interrupted, and show what each sync did."""
    of_source = {name: options.pop(name) for name in ("include", "exclude", "recursive", "include_generated", "name")}
    source = DirectorySource(path, **of_source)
    await watch(base, source, on_report=lambda report: console.show_report(report, as_json=as_json), **options)


def _is_tree(path: str) -> bool:
    """Whether it is an address that `open_source` makes more of than a page: a repository, a sitemap, s3://..."""
    address = path.partition("#")[0].partition("?")[0].lower()
    return (
        path.startswith(("git+", "git@", "ssh://"))
        or (is_address(path) and (address.endswith(".git") or "sitemap" in address.rpartition("/")[2]))
        or ("://" in path and not is_address(path))
    )
