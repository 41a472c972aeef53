"""Uploads of many tenants beside searches: one `ingest()` for each upload, and one `Ingestor` for the service.

`scripts/bench uploads [UPLOADS]`, default 400, over 20 tenants in one SQLite file, eight uploads at a time, each
followed by a search of its tenant. `ingest()` is measured on a tenth of them, since each costs the same or more as the
collection grows.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from _common import write_result

from agent_rag import KnowledgeBase, LocalEmbeddingModel, SQLiteStore, ingest
from agent_rag.ingestion import Ingestor
from agent_rag.sources import SourceDocument

TENANTS, AT_ONCE = 20, 8
MODEL = LocalEmbeddingModel()
Put = Callable[[KnowledgeBase, SourceDocument], Awaitable[object]]


def document(number: int) -> SourceDocument:
    """A page of Markdown with a number of its own in it."""
    body = " ".join(f"Paragraph {part} of note {number} is about item {number * 7 + part}." for part in range(20))
    return SourceDocument(document_id=f"{number}.md", content=f"# Note {number}\n\n{body}\n".encode())


async def service(store: SQLiteStore, put: Put, uploads: int) -> tuple[float, float]:
    """Seconds for an upload, and for a search after it, on average."""
    gate, upload_s, search_s = asyncio.Semaphore(AT_ONCE), 0.0, 0.0

    async def one(number: int) -> None:
        nonlocal search_s
        tenant = f"tenant-{number % TENANTS}"
        kb = KnowledgeBase(tenant, "Documents.", MODEL, store, "shared", {"tenant": tenant})
        async with gate:
            await put(kb, document(number))
            started = time.perf_counter()
            hits = await kb.search(f"item {number * 7 + 3}", top_k=5)
            search_s += time.perf_counter() - started
        assert hits
        assert all(hit.chunk.metadata.get("tenant") in (None, tenant) for hit in hits)

    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(uploads)))
    upload_s = time.perf_counter() - started
    return upload_s / uploads, search_s / uploads


async def main(uploads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteStore(Path(folder) / "one.db") as store:
            each, search_each = await service(store, ingest, max(TENANTS, uploads // 10))
        async with SQLiteStore(Path(folder) / "two.db") as store, Ingestor() as ingestor:
            kept, search_kept = await service(store, ingestor.put, uploads)
    rows = {
        "uploads": uploads,
        "tenants": TENANTS,
        "ingest_s": round(each, 4),
        "ingestor_s": round(kept, 4),
        "ratio": round(each / kept, 1),
        "search_s": round(search_kept, 4),
        "search_beside_ingest_s": round(search_each, 4),
    }
    print(rows)
    write_result("uploads", rows)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
