"""Ingests a folder and kills itself while part N of a document is written; run by test_large.py."""

import asyncio
import os
import signal
import sys
from typing import Any

from agent_rag import DirectorySource, KnowledgeBase, SQLiteStore, sync
from agent_rag.stores.sqlite.writer import Transaction
from agent_rag.testing import HashEmbedding

write_chunks = Transaction._write_chunks


def kill_at(part: int) -> None:
    left = [part]

    def write(self: Transaction, *arguments: Any) -> None:
        write_chunks(self, *arguments)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    Transaction._write_chunks = write  # type: ignore[method-assign]


async def main(path: str, folder: str, part: int) -> None:
    async with SQLiteStore(path) as store:
        kill_at(part)
        await sync(KnowledgeBase("kb", "files", HashEmbedding(), store, "kb"), DirectorySource(folder))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
