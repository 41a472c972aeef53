"""Keep a knowledge base equal to a folder: run it again and again, from cron or CI."""

import asyncio
import sys
from pathlib import Path

from agent_rag import DirectorySource, KnowledgeBase, LocalEmbeddingModel, SQLiteStore, sync
from agent_rag.events import Event, LoadProgress


def show(event: Event) -> None:
    if isinstance(event, LoadProgress) and event.stage == "store":
        print(f"{event.done}/{event.total} {event.outcome} {event.document_id}")


async def main(folder: Path, store_path: Path) -> int:
    async with SQLiteStore(store_path) as store:
        kb = KnowledgeBase("docs", f"Files of {folder.name}.", LocalEmbeddingModel(), store, "docs")
        source = DirectorySource(folder, exclude=["drafts/**"], metadata={"origin": folder.name})
        report = await sync(kb, source, on_event=show)
    print(report)
    for file in report.of("failed"):
        print("failed:", file.document_id, file.reason)
    return 0 if report.ok else 1


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["examples/handbook", ".agent-rag/folder.db"]
    sys.exit(asyncio.run(main(Path(arguments[0]), Path(arguments[1]))))
