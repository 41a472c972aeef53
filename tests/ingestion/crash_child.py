"""Ingests numbered documents into a folder and says which are acknowledged; killed by test_crash.py."""

import asyncio
import os
import sys

from agent_rag import KnowledgeBase, QdrantStore, TextSource, sync
from agent_rag.events import DocumentsReplaced, Event
from agent_rag.testing import HashEmbedding


def text_of(number: int) -> str:
    """Three paragraphs that each make a chunk of their own."""
    return "\n\n".join(f"document {number} part {part} " + f"word{number}x{part} " * 60 for part in range(3))


def acknowledge(event: Event) -> None:
    if isinstance(event, DocumentsReplaced):
        os.write(1, "".join(f"{document_id}\n" for document_id in event.document_ids).encode())


async def main(folder: str, count: int) -> None:
    model = HashEmbedding()
    async with QdrantStore(path=folder) as store:
        kb = KnowledgeBase("kb", "crash test", model, store, "kb", on_event=acknowledge)
        os.write(1, b"start\n")
        await sync(kb, TextSource({f"d{number}.txt": text_of(number) for number in range(count)}))
    os.write(1, f"embedded {len(model.texts)}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
