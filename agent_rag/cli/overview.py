"""Commands about what is stored: show, status, drop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from ..config.settings import KnowledgeBaseSettings, load_settings, open_store, store_uri
from ..documents import Chunk
from ..errors import AgentRAGError, ConfigurationError, redact
from ..knowledge.knowledge_base import KnowledgeBase
from ..stores.base import VectorStoreBase
from ..stores.native import NativeStoreBase
from . import output as console
from .options import AsJSON, Base, Config, StoreURI
from .running import FAILED, guarded, missing_file, run, stop

_PAGE = 500


class BaseStatus(BaseModel):
    """What one knowledge base holds."""

    name: str
    store: str
    documents: int = 0
    chunks: int = 0
    skipped: int = 0
    """Files that gave no text."""
    failed: int = 0
    """Files that could not be read at their last ingestion."""
    model: str | None = None
    """Fingerprint of the embedding model that built it."""
    bytes: int | None = None
    """Of the store's file, which other knowledge bases may share."""
    note: str = ""


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
            bases += await _of_store(place, open_store(found, folder=None if store else settings.folder), mine)
        console.show_status(bases, as_json=as_json)

    guarded(work, as_json)


async def _of_store(place: str, store: VectorStoreBase, named: dict[str, KnowledgeBaseSettings]) -> list[BaseStatus]:
    """The knowledge bases of one store: those of the configuration, and its other collections."""
    shown = redact(place)
    if (missing := missing_file(store)) is not None:
        names = list(named) or ["default"]
        return [BaseStatus(name=name, store=shown, note=f"{missing} does not exist yet") for name in names]
    found: list[BaseStatus] = []
    try:
        async with store as opened:
            path = getattr(opened, "path", None)
            size = path.stat().st_size if isinstance(path, Path) and path.is_file() else None
            collections = await opened.list_collections() if isinstance(opened, NativeStoreBase) else []
            taken = {one.collection or name for name, one in named.items()}
            bases = {name: (one.collection or name, one) for name, one in named.items()}
            bases |= {name: (name, KnowledgeBaseSettings()) for name in collections if name not in taken}
            for name, (collection, one) in bases.items():
                base = KnowledgeBase(name, name, None, opened, collection, one.metadata_filter)
                found.append((await _of_base(base, shown)).model_copy(update={"bytes": size}))
    except (AgentRAGError, OSError) as error:
        return [BaseStatus(name=name, store=shown, note=redact(str(error))) for name in named or [""]]
    return found


async def _of_base(base: KnowledgeBase, store: str) -> BaseStatus:
    opened = base.vector_store
    info = await opened.collection_info(base.collection) if isinstance(opened, NativeStoreBase) else None
    if not await opened.has_collection(base.collection):
        return BaseStatus(name=base.name, store=store, note="nothing is in it yet")
    documents = await base.list_documents(remembered=True)
    return BaseStatus(
        name=base.name,
        store=store,
        documents=sum(bool(one.chunk_count) for one in documents),
        chunks=sum(one.chunk_count for one in documents),
        skipped=sum(one.state.get("status") == "skipped" for one in documents),
        failed=sum(one.state.get("status") == "failed" for one in documents),
        model=info.fingerprint if info is not None else None,
    )


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
        console.show_dropped(kb, chunks, as_json=as_json)

    run(work, kb, config, store, as_json)
