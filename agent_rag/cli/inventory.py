"""What the knowledge bases of a store hold."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, Field

from ..config.settings import KnowledgeBaseSettings
from ..errors import AgentRAGError, redact
from ..knowledge.knowledge_base import KnowledgeBase
from ..stores.base import VectorStoreBase
from ..stores.native import NativeStoreBase
from .running import missing_file


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
    written: datetime | None = None
    """When the store's file was last written, in local time."""
    sources: dict[str, int] = Field(default_factory=dict)
    """Documents by source."""
    keywords: str | None = None
    """Fields of the keyword index, such as "words+title+pairs"; None where nothing is indexed by keyword."""
    note: str = ""


async def statuses_of(place: str, store: VectorStoreBase, named: dict[str, KnowledgeBaseSettings]) -> list[BaseStatus]:
    """The knowledge bases of one store: those of the configuration, and its other collections."""
    shown = redact(place)
    if (missing := missing_file(store)) is not None:
        names = list(named) or ["default"]
        return [BaseStatus(name=name, store=shown, note=f"{missing} does not exist yet") for name in names]
    found: list[BaseStatus] = []
    try:
        async with store as opened:
            path = getattr(opened, "path", None)
            size, written = _file_facts(path) if isinstance(path, Path) and path.is_file() else (None, None)
            collections = await opened.list_collections() if isinstance(opened, NativeStoreBase) else []
            taken = {one.collection or name for name, one in named.items()}
            bases = {name: (one.collection or name, one) for name, one in named.items()}
            bases |= {name: (name, KnowledgeBaseSettings()) for name in collections if name not in taken}
            for name, (collection, one) in bases.items():
                base = KnowledgeBase(name, name, None, opened, collection, one.metadata_filter)
                found.append((await _of_base(base, shown)).model_copy(update={"bytes": size, "written": written}))
    except (AgentRAGError, OSError) as error:
        return [BaseStatus(name=name, store=shown, note=redact(str(error))) for name in named or [""]]
    return found


async def _of_base(base: KnowledgeBase, store: str) -> BaseStatus:
    opened = base.vector_store
    info = await opened.collection_info(base.collection) if isinstance(opened, NativeStoreBase) else None
    if not await opened.has_collection(base.collection):
        return BaseStatus(name=base.name, store=store, note="nothing is in it yet")
    documents = await base.list_documents(remembered=True)
    sources = Counter(one.state["source"] for one in documents if one.chunk_count and one.state.get("source"))
    fields = await base.keyword_fields()
    former = "" if fields != "words" else "keyword index of an earlier release; renew it: agent-rag reindex --keywords"
    return BaseStatus(
        name=base.name,
        store=store,
        documents=sum(bool(one.chunk_count) for one in documents),
        chunks=sum(one.chunk_count for one in documents),
        skipped=sum(one.state.get("status") == "skipped" for one in documents),
        failed=sum(one.state.get("status") == "failed" for one in documents),
        sources=dict(sorted(sources.items())),
        model=info.fingerprint if info is not None else None,
        keywords=fields,
        note=former,
    )


def _file_facts(path: Path) -> tuple[int, datetime]:
    """Size of a store's file with what lies beside it, and when any of them was written last."""
    found = [part.stat() for part in (path, path.with_name(f"{path.name}-wal")) if part.is_file()]
    return sum(one.st_size for one in found), datetime.fromtimestamp(max(one.st_mtime for one in found))
