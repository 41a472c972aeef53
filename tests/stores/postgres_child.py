"""Replaces documents over and over and says which versions are acknowledged; killed by test_postgres.py."""

import asyncio
import os
import sys

from agent_rag.stores import PostgresStore
from agent_rag.stores.postgres.vectors import VectorChoice
from agent_rag.testing import record
from agent_rag.testing.records import document


async def main(dsn: str, table: str, vector: VectorChoice) -> None:
    named = {"server_settings": {"application_name": table}}
    async with PostgresStore(dsn, table=table, vector=vector, pool_options=named) as store:
        await store.create_collection("c", 4)
        for version in range(10_000):
            name = f"d{version % 7}"
            records = [record(name, n, f"pear {version} {n}", total=5 + version % 30) for n in range(5 + version % 30)]
            await store.replace("c", [document(name, state={"version": str(version)})], records)
            os.write(1, f"{name} {version}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], "array" if "array" in sys.argv[3:] else "pgvector"))
