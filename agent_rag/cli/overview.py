"""Commands about what is stored: show, status, drop."""

from __future__ import annotations

from typing import Annotated

import typer

from ..config.settings import KnowledgeBaseSettings, load_settings, open_store, store_uri
from ..documents import Chunk
from ..errors import ConfigurationError
from ..knowledge.knowledge_base import KnowledgeBase
from . import output as console
from .inventory import BaseStatus, statuses_of
from .options import AsJSON, Base, Config, StoreURI
from .reporting import show_status
from .running import FAILED, guarded, run, stop

_PAGE = 500


def show(
    document_id: Annotated[str, typer.Argument(help="Id of a document; see agent-rag list.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    as_json: AsJSON = False,
) -> None:
    """Print the chunks of a document with their places."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        chunks: list[Chunk] = []
        while page := await base.list_chunks(document_id, offset=len(chunks), limit=_PAGE):
            chunks += page
        if not chunks:
            stop(f"there is no document {document_id!r} with text; agent-rag list names them", as_json, code=FAILED)
        console.show_chunks(chunks, as_json=as_json)

    run(work, kb, config, store, as_json)


def status(config: Config = None, store: StoreURI = None, as_json: AsJSON = False) -> None:
    """Say what each knowledge base holds, with which model, and which files failed."""

    async def work() -> None:
        settings = load_settings(config)
        named = dict(settings.knowledge_bases) if store is None else {}
        places: dict[str, KnowledgeBaseSettings] = {}
        for found in named.values() or [KnowledgeBaseSettings(store=store) if store else KnowledgeBaseSettings()]:
            places.setdefault(store_uri(found, None if store else settings.folder), found)
        bases: list[BaseStatus] = []
        for place, found in places.items():
            mine = {name: one for name, one in named.items() if store_uri(one, settings.folder) == place}
            bases += await statuses_of(place, open_store(found, folder=None if store else settings.folder), mine)
        show_status(bases, as_json=as_json)

    guarded(work, as_json)


def drop(
    kb: Annotated[str, typer.Argument(help="Name of the knowledge base to delete with all its documents.")],
    config: Config = None,
    store: StoreURI = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Delete a whole knowledge base. The files it was made of stay."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        if not await base.vector_store.has_collection(base.collection):
            raise ConfigurationError(f"there is no knowledge base {kb!r} in this store; agent-rag status names them")
        if settings.metadata_filter:
            raise ConfigurationError(
                f"{kb!r} is a part of the collection {base.collection!r} ({settings.metadata_filter}), which dropping "
                "would delete for all; delete its documents or sources instead"
            )
        chunks = await base.count()
        if not yes and not typer.confirm(f"Delete {kb!r} with its {chunks:,} chunks?", err=True):
            stop("nothing was deleted", as_json)
        await base.vector_store.delete_collection(base.collection)
        await base.drop_tables()
        console.show_dropped(kb, chunks, as_json=as_json)

    run(work, kb, config, store, as_json)
