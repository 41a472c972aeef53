"""What the commands ingest and sync do with a knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..chunkers import AutoChunker
from ..errors import ConfigurationError
from ..ingestion import IngestReport, ingest, watch
from ..knowledge.knowledge_base import KnowledgeBase
from ..parsers import ParserBase, parser_for
from ..sources import DirectorySource, SourceBase, SourceItem, WebSource, open_source
from ..sources.base import is_address
from . import output as console


def chunker_of(chunk_size: int | None, overlap: int | None) -> AutoChunker | None:
    """A chunker with the sizes that were given; None for none, so that a source keeps its own.

    Raises: ConfigurationError: the overlap is not smaller than the chunk.
    """
    if chunk_size is None and overlap is None:
        return None
    largest = chunk_size if chunk_size is not None else AutoChunker.Parameters().chunk_size
    if overlap is not None and overlap >= largest:
        raise ConfigurationError(
            f"--overlap {overlap} is not smaller than --chunk-size {largest}; chunks would never end"
        )
    given = {"chunk_size": chunk_size, "overlap": overlap}
    if overlap is None and chunk_size is not None:
        given["overlap"] = min(100, chunk_size // 10)
    return AutoChunker({name: value for name, value in given.items() if value is not None})


def parser_options(ocr: bool | str, more: Mapping[str, Any]) -> dict[str, Any]:
    """What each parser is given that takes it."""
    if not ocr:
        return dict(more)
    from ..parsers import TesseractOCR

    return {"ocr": TesseractOCR(ocr) if isinstance(ocr, str) else TesseractOCR(), **more}


def parser_with(options: Mapping[str, Any]) -> Callable[[SourceItem], ParserBase] | None:
    """How a run chooses parsers; None where nothing is asked of them."""
    if not options:
        return None

    def choose(item: SourceItem) -> ParserBase:
        content = item.path if item.path is not None else item.data
        return parser_for(item.filename, item.media_type, content, options=options)

    return choose


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
