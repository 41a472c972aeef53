"""A process that writes, reads or maintains a store until it is killed or done: ``ROLE PATH SEED COUNT``.

A document says in each chunk which version it is and how many chunks that version has. A writer prints a line for
what was acknowledged; readers end with code 1 when they see a mixture, or miss a document.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

from agent_rag.errors import ConfigurationError
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.testing.records import document, record

NAMES = [f"d{number}" for number in range(12)]


def version(name: str, number: int, size: int) -> list:
    return [
        record(name, place, f"{name} version{number} part {place}", metadata={"v": number, "size": size}, total=size)
        for place in range(size)
    ]


def check(name: str, found: list, *, where: str) -> None:
    """`found`: chunks of one document as (version, size)."""
    if not found:
        raise SystemExit(f"{where}: {name} is absent")
    if len(set(found)) != 1 or len(found) != found[0][1]:
        raise SystemExit(f"{where}: {name} is a mixture: {sorted(set(found))}, {len(found)} chunks")


async def write(store: SQLiteStore, rng: random.Random, count: int) -> None:
    for number in range(count):
        name = rng.choice(NAMES)
        size = rng.choice([1, 2, 5, 20, 60]) if rng.random() < 0.98 else 3_000
        stamp = rng.randrange(1 << 40)
        started = time.perf_counter()
        await store.replace("c", [document(name, state={"v": str(stamp)})], version(name, stamp, size))
        print("wrote", name, stamp, size, f"{time.perf_counter() - started:.4f}", flush=True)
        if rng.random() < 0.1:
            extra = f"extra{rng.randrange(1 << 30)}"
            await store.replace("c", [document(extra)], version(extra, number, 3))
            await store.delete_documents("c", [extra])


async def read(store: SQLiteStore, rng: random.Random, count: int) -> None:
    while count:
        count -= 1
        name = rng.choice(NAMES)
        chunks = await store.list_chunks("c", name, limit=5_000)
        check(name, [(r.chunk.metadata["v"], r.chunk.metadata["size"]) for r in chunks], where="list_chunks")
        hits = await store.retrieve("c", RetrieveRequest(texts=[name], limit=10_000))
        check(name, [(h.chunk.metadata["v"], h.chunk.metadata["size"]) for h in hits], where="keyword")
        every = await store.retrieve("c", RetrieveRequest(vectors=[(1.0, 0.0, 0.0, 0.0)], limit=30_000))
        by_name: dict[str, list] = {name: [] for name in NAMES}
        for hit in every:
            if hit.document_id in by_name:
                by_name[hit.document_id].append((hit.chunk.metadata["v"], hit.chunk.metadata["size"]))
        for one, found in by_name.items():
            check(one, found, where="semantic")
    print("read", flush=True)


async def maintain(path: Path, rng: random.Random, count: int) -> None:
    for number in range(count):
        async with SQLiteStore(path) as store:
            match rng.randrange(4):
                case 0:
                    await store.compact()
                case 1:
                    try:
                        await store.backup(path.with_name(f"backup{rng.randrange(10**9)}.db"))
                    except ConfigurationError:
                        pass
                case 2:
                    await store.count("c", {"size": 5})
                case 3:
                    name = f"gone{number}{rng.random()}"
                    await store.replace("c", [document(name)], version(name, 1, 2))
                    await store.delete("c", name)
        print("maintained", flush=True)


async def prepare(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        for name in NAMES:
            await store.replace("c", [document(name)], version(name, 0, 3))


async def main(role: str, path: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    print("ready", flush=True)
    if role == "prepare":
        await prepare(path)
    elif role == "maintain":
        await maintain(path, rng, count)
    else:
        async with SQLiteStore(path) as store:
            await (write if role == "write" else read)(store, rng, count)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
