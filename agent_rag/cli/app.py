"""The command ``agent-rag``: ingest, sync, search, ask, list, sources, reload, remove, delete, copy, check, backup,
compact, cache, show, status, drop, init, config, mcp and doctor.

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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._util.extras import DISTRIBUTION
from ..config.settings import (
    CONFIG_NAME,
    KnowledgeBaseSettings,
    former_store_note,
    knowledge_base_from,
    load_settings,
    open_store,
    store_uri,
)
from ..knowledge.knowledge_base import KnowledgeBase
from . import output as console
from .configuring import config_app, init
from .managing import reload, remove, sources
from .options import (
    OCR,
    All,
    AsJSON,
    Base,
    Checksum,
    ChunkSize,
    Config,
    DryRun,
    Exclude,
    FilterJSON,
    Generated,
    Include,
    OCRLanguage,
    Overlap,
    Reread,
    SourceName,
    StoreURI,
)
from .overview import drop, show, status
from .running import guarded, run, stop, tell_if_empty
from .upkeep import backup, cache, check, compact, copy

if TYPE_CHECKING:
    pass

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
def ingest(
    paths: Annotated[list[str], typer.Argument(help="Files, directories, pages (https://...), repositories, s3://...")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    include: Include = None,
    exclude: Exclude = None,
    include_generated: Generated = None,
    recursive: Annotated[bool, typer.Option(help="Look into sub-directories.")] = True,
    chunk_size: ChunkSize = None,
    overlap: Overlap = None,
    ocr: OCR = None,
    ocr_language: OCRLanguage = None,
    source: SourceName = None,
    dry_run: DryRun = False,
    reread: Reread = False,
    checksum: Checksum = False,
    show_all: All = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first failure.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep a directory in step until interrupted; also deletes what is gone.")
    ] = False,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Also fetch from this machine and private networks.")
    ] = False,
    as_json: AsJSON = False,
) -> None:
    """Add files and pages of the web to a knowledge base; what has not changed is skipped."""
    options = {
        "include": include or (),
        "exclude": exclude or (),
        "include_generated": include_generated,
        "recursive": recursive,
        "name": source,
        "dry_run": dry_run,
        "force": reread,
        "checksum": checksum,
        "strict": strict,
    }
    _load(
        paths,
        options,
        kb,
        config,
        store,
        chunk_size,
        overlap,
        as_json,
        ocr=ocr_language or ocr,
        show_all=show_all,
        allow_private=allow_private,
        watching=watch,
    )


@app.command()
def sync(
    directory: Annotated[
        Path, typer.Argument(help="Directory that the knowledge base shall mirror.", exists=True, file_okay=False)
    ],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    include: Include = None,
    exclude: Exclude = None,
    include_generated: Generated = None,
    recursive: Annotated[bool, typer.Option(help="Look into sub-directories.")] = True,
    chunk_size: ChunkSize = None,
    overlap: Overlap = None,
    ocr: OCR = None,
    ocr_language: OCRLanguage = None,
    source: SourceName = None,
    dry_run: DryRun = False,
    reread: Reread = False,
    checksum: Checksum = False,
    show_all: All = False,
    force: Annotated[bool, typer.Option("--force", help="Delete even if most files are gone.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Make a knowledge base hold what a directory holds: add, replace, and delete what is gone."""
    options = {
        "include": include or (),
        "exclude": exclude or (),
        "include_generated": include_generated,
        "recursive": recursive,
        "name": source,
        "dry_run": dry_run,
        "force": reread,
        "checksum": checksum,
        "prune": True,
        "max_prune_share": 1.0 if force else 0.5,
    }
    _load(
        [str(directory)],
        options,
        kb,
        config,
        store,
        chunk_size,
        overlap,
        as_json,
        ocr=ocr_language or ocr,
        show_all=show_all,
    )


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    top_k: Annotated[int, typer.Option("--top-k", "-n", min=1, help="Hits at most.")] = 5,
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
            top_k,
            threshold if threshold is not None else settings.score_threshold,
            mode=mode,  # type: ignore[arg-type]
            filter=parse_filter(filter) if filter else None,
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
    top_k: Annotated[int, typer.Option("--top-k", "-n", min=1, max=50, help="Passages the model sees.")] = 5,
    offline: Annotated[bool, typer.Option("--offline", help="Quote sentences; use no language model.")] = False,
    mode: Annotated[
        str | None,
        typer.Option(help="agentic: the model calls the search; static: it is shown passages; default: what works."),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Answer from the documents, with citations.

    Uses the model of OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL. Without one it quotes the sentences that fit.
    """

    if mode not in (None, "agentic", "static"):
        stop(f"--mode is {mode!r}; use agentic or static", as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from .ask import answer

        result = await answer(
            base,
            question,
            top_k=top_k,
            threshold=settings.score_threshold,
            offline=offline,
            mode=mode,  # type: ignore[arg-type]
        )
        console.show_answer(result, as_json=as_json)
        if result.error:
            raise typer.Exit(1)

    run(work, kb, config, store, as_json)


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
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="Address to bind; others than loopback need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the HTTP server.")] = 8765,
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

        settings = load_settings(config)
        names = kb or list(settings.knowledge_bases) or [settings.choose(None)[0]]
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
                bases.append(knowledge_base_from(chosen, found, stores[place]))
            server = server_of.build_server(bases)
            if http:
                typer.echo(f"serving http://{host}:{port}/mcp", err=True)
                await server_of.serve_http(
                    server,
                    host=host,
                    port=port,
                    token=token,
                    allowed_origins=allow_origin or (),
                    allowed_hosts=allow_host or (),
                )
            else:
                await server_of.serve_stdio(server)

    guarded(work, as_json=False)


@app.command()
def doctor(config: Config = None, as_json: AsJSON = False) -> None:
    """Show which engines, parsers and extras are here, and whether the configured stores answer."""

    async def work() -> None:
        from .doctor import diagnose

        findings = await diagnose(load_settings(config))
        console.show_findings(findings, as_json=as_json)
        if not all(finding.ok for finding in findings if finding.required):
            raise typer.Exit(1)

    guarded(work, as_json)


for command in (sources, reload, remove, copy, check, backup, compact, cache, show, status, drop, init):
    app.command()(command)
app.add_typer(config_app)


def main() -> None:
    """Entry point of ``agent-rag``."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character gets a substitute
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        print("interrupted; what was stored is kept, run it again to go on", file=sys.stderr)  # noqa: T201
        sys.exit(130)


def _load(
    paths: list[str],
    options: dict[str, Any],
    kb: str | None,
    config: Path | None,
    store: str | None,
    chunk_size: int | None,
    overlap: int | None,
    as_json: bool,
    *,
    ocr: bool | str | None = None,
    show_all: bool = False,
    allow_private: bool = False,
    watching: bool = False,
) -> None:
    if not all(paths):
        stop("a path is empty; an unset variable of a script looks like this", as_json)
    if watching and not (len(paths) == 1 and os.path.isdir(paths[0])):
        stop("--watch takes one directory", as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from . import ingesting

        if options["include_generated"] is None:
            options["include_generated"] = settings.include_generated
        sizes = (chunk_size or settings.chunk_size, settings.overlap if overlap is None else overlap)
        options["chunker"] = ingesting.chunker_of(*sizes)
        given = ingesting.parser_options(settings.ocr if ocr is None else ocr, settings.parser_options)
        options["parser_for"] = ingesting.parser_with(given)
        for name in ("include", "exclude"):
            options[name] = [*getattr(settings, name), *options[name]]
        options["exclude"].append(CONFIG_NAME)
        if watching:
            await ingesting.watch_folder(base, paths[0], options, as_json=as_json)
            return
        report = await ingesting.load(base, paths, options, allow_private=allow_private, quiet=as_json)
        console.show_report(report, as_json=as_json, show_all=show_all)
        if not report.files:
            stop(f"no file found in {', '.join(paths)}", as_json)
        if not report.ok:
            raise typer.Exit(1)

    run(work, kb, config, store, as_json, writes=True)
