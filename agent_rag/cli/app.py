"""The command ``agent-rag``: ingest, sync, search, find, ask, list, sources, reload, remove, delete, copy, check,
backup, compact, cache, reindex, show, tables, query, status, drop, init, eval, config, mcp and doctor.

Exit codes are in `running`.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer

from .._util.extras import DISTRIBUTION
from ..config.settings import (
    KnowledgeBaseSettings,
    Settings,
    former_store_note,
    knowledge_base_from,
    load_settings,
    open_store,
    store_uri,
    with_stored_model,
)
from ..knowledge.knowledge_base import KnowledgeBase
from . import output as console
from .configuring import config_app, init
from .evaluating import evaluate
from .loading import ingest, sync
from .managing import reload, remove, sources
from .options import AsJSON, Base, Config, FilterJSON, StoreURI
from .overview import drop, find, show, status
from .querying import query, tables
from .reindexing import reindex
from .reporting import show_findings
from .running import INTERRUPTED, first_given, guarded, run, run_with_settings, stop, tell_if_empty
from .upkeep import backup, cache, check, compact, copy

app = typer.Typer(
    name="agent-rag",
    help="Give any agent a knowledge base: ingest files, search them, ask questions with citations.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agent-rag {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what happens on standard error.")] = False,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR, format="%(levelname)s %(message)s")


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    top_k: Annotated[int | None, typer.Option("--top-k", "-n", min=1, help="Hits at most; default: 5.")] = None,
    mode: Annotated[str | None, typer.Option(help="hybrid, semantic or keyword; default: the best there is.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Least score of a hit.")] = None,
    filter: FilterJSON = None,
    as_json: AsJSON = False,
) -> None:
    """Search and show the passages with their file, place and scores."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from ..filters import parse_filter

        results = await base.search(
            query,
            top_k or settings.search.top_k,
            first_given(threshold, settings.score_threshold),
            mode=mode or settings.search.mode,  # type: ignore[arg-type]
            filter=parse_filter(filter) if filter else None,
            distinct=settings.search.distinct,
        )
        console.show_results(results, as_json=as_json)
        await tell_if_empty(base, results)

    run(work, kb, config, store, as_json)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="A question about the documents.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-n", min=1, max=50, help="Passages of one search; default: 5.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Quote sentences; use no language model.")] = False,
    mode: Annotated[
        str | None,
        typer.Option(help="agentic: the model calls the search; static: it is shown passages; default: what works."),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Answer from the documents, with citations.

    Uses the model of OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL, or of [chat] in agent-rag.toml. Without one it
    quotes the sentences that fit.
    """
    if mode not in (None, "agentic", "static"):
        stop(f"--mode is {mode!r}; use agentic or static", as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings, known: Settings) -> None:
        from .ask import answer

        on_text = console.TextStream(as_json=as_json)
        result = await answer(
            base,
            question,
            top_k=top_k or known.middleware.top_k,
            threshold=first_given(settings.score_threshold, known.middleware.score_threshold),
            offline=offline,
            mode=mode,  # type: ignore[arg-type]
            settings=known,
            on_text=on_text,
        )
        console.show_answer(result, as_json=as_json, streamed=on_text.text)
        if result.error:
            raise typer.Exit(1)
        await tell_if_empty(base, result.citations)

    run_with_settings(work, kb, config, store, as_json)


@app.command("list")
def list_documents(
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    filter: FilterJSON = None,
    source: Annotated[str | None, typer.Option("--source", help="Only documents of this source.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="stored, skipped or failed.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="So many at most.")] = None,
    after: Annotated[str | None, typer.Option("--after", help="Only those behind this id.")] = None,
    as_json: AsJSON = False,
) -> None:
    """List the documents of a knowledge base, and with --status the files that gave none."""
    if status not in (None, "stored", "skipped", "failed"):
        stop(f"--status is {status!r}; use stored, skipped or failed", as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from ..filters import parse_filter

        listed = await base.list_documents(
            filter=parse_filter(filter) if filter else None,
            source=source,
            status=status,  # type: ignore[arg-type]
            limit=limit,
            after=after,
        )
        console.show_documents(listed, as_json=as_json)
        await tell_if_empty(base, listed)

    run(work, kb, config, store, as_json)


@app.command()
def delete(
    document_ids: Annotated[list[str], typer.Argument(help="Document ids, or paths of their files.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    as_json: AsJSON = False,
) -> None:
    """Delete documents. Exit code 1 when one was not there."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        removed = {}
        for given in dict.fromkeys(document_ids):
            path = await asyncio.to_thread(os.path.realpath, given)
            removed[given] = await base.delete_document(given) or await base.delete_document(path)
        console.show_deleted(removed, as_json=as_json)
        if not all(removed.values()):
            raise typer.Exit(1)

    run(work, kb, config, store, as_json)


@app.command()
def mcp(
    kb: Annotated[
        list[str] | None, typer.Option("--kb", "-k", help="Knowledge base to offer; may be repeated; default: all.")
    ] = None,
    config: Config = None,
    http: Annotated[
        bool | None, typer.Option("--http/--stdio", help="Serve streamable HTTP, or stdio (default).")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind; others than loopback need a token.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the HTTP server; default: 8765.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="AGENT_RAG_MCP_TOKEN", help="Bearer token that HTTP clients must send.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option("--allow-origin", help="Origin header to accept; may be repeated.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="Name by which clients reach the HTTP server; may be repeated."),
    ] = None,
) -> None:
    """Offer knowledge bases to MCP clients, read-only: over stdio, or HTTP."""

    async def work() -> None:
        from .. import mcp as server_of
        from ..config.parts import reranker_of

        settings = load_settings(config)
        offered = settings.mcp
        names = kb or offered.knowledge_bases or list(settings.knowledge_bases) or [settings.choose(None)[0]]
        async with contextlib.AsyncExitStack() as stack:
            stores: dict[str, Any] = {}
            bases = []
            for name in names:
                chosen, found = settings.choose(name)
                if note := former_store_note(found):
                    typer.echo(f"agent-rag: {note}", err=True)
                place = store_uri(found, settings.folder)
                if place not in stores:  # an embedded folder can be opened only once
                    stores[place] = await stack.enter_async_context(open_store(found, folder=settings.folder))
                found = await with_stored_model(chosen, found, stores[place])
                bases.append(knowledge_base_from(chosen, found, stores[place]))
            parameters = settings.middleware.model_copy(update={"mode": "agentic"})
            if settings.middleware.model_fields_set.isdisjoint({"tools", "read_document"}):
                parameters = parameters.model_copy(update={"tools": "all"})
            server = server_of.build_server(bases, parameters, name=offered.name, reranker=reranker_of(settings))
            if offered.http if http is None else http:
                address, number = host or offered.host, port or offered.port
                typer.echo(f"serving http://{address}:{number}/mcp", err=True)
                await server_of.serve_http(
                    server,
                    host=address,
                    port=number,
                    token=token,
                    allowed_origins=allow_origin or offered.allowed_origins,
                    allowed_hosts=allow_host or offered.allowed_hosts,
                )
            else:
                await server_of.serve_stdio(server)

    guarded(work, as_json=False)


@app.command()
def doctor(
    config: Config = None,
    show_all: Annotated[bool, typer.Option("--all", help="Each package and extra with its version.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Show which engines, parsers and extras are here, and whether the configured stores answer."""

    async def work() -> None:
        from .doctor import diagnose

        findings = await diagnose(load_settings(config))
        show_findings(findings, as_json=as_json, show_all=show_all)
        if not all(finding.ok for finding in findings if finding.required):
            raise typer.Exit(1)

    guarded(work, as_json)


for command in (
    ingest,
    sync,
    find,
    sources,
    reload,
    remove,
    copy,
    check,
    backup,
    compact,
    cache,
    reindex,
    show,
    tables,
    query,
    status,
    drop,
    init,
):
    app.command()(command)
app.command("eval")(evaluate)
app.add_typer(config_app)


def main() -> None:
    """Entry point of ``agent-rag``."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character gets a substitute
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        print("agent-rag: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
