"""A process that replaces one document with its tables until it is killed."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from agent_rag.stores.sqlite.store import SQLiteStore

from .test_documents import base, version


async def main(folder: Path) -> None:
    async with SQLiteStore(folder / "kb.db") as store:
        kb = base(store, folder / "t")
        for amount in itertools.count():
            await kb.replace_documents([version(amount)])
            if not amount:
                print("start", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
