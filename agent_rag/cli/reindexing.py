"""The command reindex: index anew what is stored."""

from __future__ import annotations

from typing import Annotated

import typer

from ..config.settings import KnowledgeBaseSettings
from ..knowledge.knowledge_base import KnowledgeBase
from . import output as console
from .options import AsJSON, Base, Config, StoreURI
from .progress import progress
from .running import run, stop


def reindex(
    keywords: Annotated[
        bool, typer.Option("--keywords", help="The keyword index: after an upgrade, or to change its fields.")
    ] = False,
    grams: Annotated[
        bool | None,
        typer.Option(
            "--grams/--no-grams",
            help="With or without four-character parts of words; default: as configured, else by what is stored.",
        ),
    ] = None,
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    as_json: AsJSON = False,
) -> None:
    """Index what is stored anew, without its files and without embedding. Searches go on; what is done is skipped when
    it is run again."""
    if not keywords:
        stop("say what: agent-rag reindex --keywords", as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        wanted = settings.search.keyword_grams if grams is None else grams
        with progress("index", quiet=as_json) as advance:
            report = await base.reindex_keywords(grams=wanted, on_progress=advance)
        console.show_reindexed(report, as_json=as_json)

    run(work, kb, config, store, as_json)
