"""A process that replaces documents over and over until it is killed: ``python server_writer.py KIND URL COLLECTION``.

Each acknowledged write is a line ``<document> <version> <chunks>``.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from agent_rag.documents import VectorRecord
from agent_rag.stores.native import NativeStoreBase
from agent_rag.testing.records import document, record

DOCUMENTS = 6


def open_store(kind: str, url: str) -> NativeStoreBase:
    if kind == "qdrant":
        from agent_rag.stores.qdrant import QdrantStore

        return QdrantStore(url=url, timeout_s=10)
    from agent_rag.stores.elasticsearch import ElasticsearchStore

    return ElasticsearchStore(url, timeout_s=10)


def chunks_of(name: str, version: str, count: int) -> list[VectorRecord]:
    metadata = {"version": version, "kind": "pear"}
    return [record(name, at, f"pear {version} {at}", metadata=metadata, total=count) for at in range(count)]


async def main(kind: str, url: str, collection: str) -> None:
    async with open_store(kind, url) as store:
        await store.create_collection(collection, 4)
        number = 0
        while True:
            names = random.sample(range(DOCUMENTS), 2)
            number += 1
            version, count = f"{os.getpid()}-{number}", 3 + number % 9
            documents = [f"d{name}" for name in names]
            records = [one for name in documents for one in chunks_of(name, version, count)]
            await store.replace(collection, [document(name) for name in documents], records)
            for name in documents:
                print(name, version, count, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
