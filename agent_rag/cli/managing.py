"""Commands about sources: sources, reload, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from ..config.settings import KnowledgeBaseSettings, Settings
from ..knowledge.knowledge_base import KnowledgeBase
from . import output as console
from .options import All, AsJSON, Base, Config, Quiet, StoreURI
from .progress import progress_of_load
from .reporting import show_report
from .running import run, run_with_settings, tell_if_empty


def sources(kb: Base = None, config: Config = None, store: StoreURI = None, as_json: AsJSON = False) -> None:
    """List what was ingested from where."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from ..ingestion import list_sources

        listed = await list_sources(base)
        console.show_sources(listed, as_json=as_json)
        await tell_if_empty(base, listed)

    run(work, kb, config, store, as_json)


def reload(
    name: Annotated[str, typer.Argument(help="Name of a source that is a directory; see agent-rag sources.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    show_all: All = False,
    quiet: Quiet = False,
    as_json: AsJSON = False,
) -> None:
    """Read every file of a source anew, and delete what is gone."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings, known: Settings) -> None:
        from ..config.parts import contexts_of
        from ..ingestion import reload_source

        contexts = contexts_of(settings.ingest, known.chat)
        with progress_of_load(quiet=quiet, as_json=as_json) as on_event:
            report = await reload_source(base, name, contexts=contexts, on_event=on_event)
        show_report(report, as_json=as_json, show_all=show_all, quiet=quiet)
        if not report.ok:
            raise typer.Exit(1)

    run_with_settings(work, kb, config, store, as_json, writes=True)


def remove(
    name: Annotated[str, typer.Argument(help="Name of a source; see agent-rag sources.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    as_json: AsJSON = False,
) -> None:
    """Delete the documents of a source."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from ..ingestion import remove_source

        console.show_removed(name, await remove_source(base, name), as_json=as_json)

    run(work, kb, config, store, as_json)
