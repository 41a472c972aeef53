"""The command reindex: index anew what is stored."""

from __future__ import annotations

from typing import Annotated

import typer

from ..config.settings import KnowledgeBaseSettings, embedding_model_from
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
    model: Annotated[
        str | None,
        typer.Option("--model", help="The vectors: an embedding as in agent-rag.toml, such as openai or local:NAME."),
    ] = None,
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    as_json: AsJSON = False,
) -> None:
    """Index what is stored anew, without its files: the words, or the vectors with another model. Searches go on; what
    is done is skipped when it is run again."""
    if keywords == (model is not None):
        stop("say what: agent-rag reindex --keywords, or agent-rag reindex --model NAME", as_json)

    async def words(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        wanted = settings.search.keyword_grams if grams is None else grams
        with progress("index", quiet=as_json) as advance:
            report = await base.reindex_keywords(grams=wanted, on_progress=advance)
        console.show_reindexed(report, as_json=as_json)

    async def vectors(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        assert model is not None
        chosen = embedding_model_from(settings.model_copy(update={"embedding": model, "dimensions": None}))
        if chosen is None:
            stop("--model none: a collection without vectors is made by ingest", as_json)
        with progress("embed", quiet=as_json) as advance:
            report = await base.reindex_model(chosen, on_progress=advance)
        configured = "embedding" in settings.model_fields_set
        console.show_reembedded(report, model, configured=configured, as_json=as_json)

    run(words if keywords else vectors, kb, config, store, as_json)
