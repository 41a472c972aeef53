"""The commands ingest and sync."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config.parts import contexts_of
from ..config.settings import KnowledgeBaseSettings, Settings
from ..knowledge.knowledge_base import KnowledgeBase
from .options import Loading
from .parameters import spelled_out
from .reporting import show_report
from .running import run_with_settings, stop

AllowPrivate = Annotated[
    bool, typer.Option("--allow-private", help="Also fetch from this machine and private networks.")
]
_EMPTY = "a path is empty; an unset variable of a script looks like this"


@spelled_out
def ingest(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, directories, pages (https://...), repositories, s3://...; "
            "default: `sources` in agent-rag.toml."
        ),
    ] = None,
    *,
    given: Loading,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep a directory in step until interrupted; also deletes what is gone.")
    ] = False,
    allow_private: AllowPrivate = False,
) -> None:
    """Add files and pages of the web to a knowledge base; what has not changed is skipped."""
    if watch and paths is not None and not (len(paths) == 1 and os.path.isdir(paths[0])):
        stop("--watch takes one directory", given.as_json)
    _load(paths, given, {}, allow_private=allow_private, watching=watch)


@spelled_out
def sync(
    directory: Annotated[
        Path | None,
        typer.Argument(
            help="Directory that the knowledge base shall mirror; default: `sources` in agent-rag.toml.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    *,
    given: Loading,
    force: Annotated[bool, typer.Option("--force", help="Delete even if most files are gone.")] = False,
) -> None:
    """Make a knowledge base hold what a directory holds: add, replace, and delete what is gone."""
    options: dict[str, Any] = {"prune": True}
    if force:
        options["max_prune_share"] = 1.0
    _load(None if directory is None else [str(directory)], given, options)


def _load(
    paths: list[str] | None,
    given: Loading,
    more: dict[str, Any],
    *,
    allow_private: bool = False,
    watching: bool = False,
) -> None:
    if paths is not None and not all(paths):
        stop(_EMPTY, given.as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings, known: Settings) -> None:
        from . import ingesting

        options = {**ingesting.options_of(settings, given), **more}
        options["contexts"] = contexts_of(settings.ingest, known.chat)
        chosen = paths or [_place(known.folder, one) for one in settings.sources]
        if not chosen:
            stop("no path is given, and agent-rag.toml names no sources; try: agent-rag ingest FOLDER", given.as_json)
        if watching:
            if not (len(chosen) == 1 and ingesting.is_folder(chosen[0])):
                stop("--watch takes one directory", given.as_json)
            await ingesting.watch_folder(base, chosen[0], options, given)
            return
        report = await ingesting.load(
            base, chosen, options, settings, allow_private=allow_private, quiet=given.quiet, as_json=given.as_json
        )
        show_report(report, as_json=given.as_json, show_all=given.show_all, quiet=given.quiet)
        if (given.ocr or given.ocr_language) and not settings.ocr and not given.quiet:
            typer.echo(
                "agent-rag: a later run without --ocr reads scans without it; ocr = true in agent-rag.toml stays",
                err=True,
            )
        if not report.files:
            stop(f"no file found in {', '.join(chosen)}", given.as_json)
        if not report.ok:
            raise typer.Exit(1)

    run_with_settings(work, given.kb, given.config, given.store, given.as_json, writes=True)


def _place(folder: Path, source: str) -> str:
    """A source of agent-rag.toml; files are relative to that file."""
    return source if "://" in source or "@" in source else os.path.normpath(folder / source)
