"""Commands about the tables of documents: tables, query."""

from __future__ import annotations

from typing import Annotated

import typer

from ..config.settings import KnowledgeBaseSettings
from ..errors import ConfigurationError, redact
from ..knowledge.knowledge_base import KnowledgeBase
from ..tables.query import QueryLimits
from . import output as console
from .options import AsJSON, Base, Config, FilterJSON, StoreURI
from .running import run


def tables(
    question: Annotated[str | None, typer.Argument(help="Tables that fit it stand first.")] = None,
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    filter: FilterJSON = None,
    characters: Annotated[int, typer.Option("--characters", min=200, help="Length of the list, about.")] = 20_000,
    as_json: AsJSON = False,
) -> None:
    """Show the tables in the documents: their columns, types and places, for `agent-rag query`."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from ..filters import parse_filter

        check_tables(base)
        chosen = parse_filter(filter) if filter else None
        if as_json:
            console.show_json([one.facts() for one in await base.list_tables(question, filter=chosen)])
        else:
            typer.echo(await base.describe_tables(question, filter=chosen, characters=characters))

    run(work, kb, config, store, as_json)


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT, as SQLite has it; agent-rag tables shows the names.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    filter: FilterJSON = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Rows at most.")] = 200,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, max=60, help="Seconds at most.")] = 10.0,
    as_json: AsJSON = False,
) -> None:
    """Ask the tables in the documents with SQL. Nothing can be changed; the answer says where it comes from."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from ..filters import parse_filter

        check_tables(base)
        limits = QueryLimits(rows=limit, timeout_s=timeout, characters=1_000_000)
        found = await base.query_tables(sql, filter=parse_filter(filter) if filter else None, limits=limits)
        if as_json:
            console.show_json(found.model_dump(mode="json"))
        else:
            console.show_query(found)

    run(work, kb, config, store, as_json)


def check_tables(base: KnowledgeBase) -> None:
    """Raises: ConfigurationError: no tables are kept."""
    if not base.keeps_tables:
        raise ConfigurationError(
            f'{redact(base.name)!r} keeps no tables: set tables = "FOLDER" in its table of agent-rag.toml, where the '
            "store is on a server or tables = false, and ingest again"
        )
