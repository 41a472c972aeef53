"""Commands about what is stored: find, show, status, drop."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from ..config.settings import KnowledgeBaseSettings, load_settings, open_store, store_uri
from ..errors import ConfigurationError
from ..knowledge.knowledge_base import KnowledgeBase
from . import output as console
from .inventory import BaseStatus, statuses_of
from .options import AsJSON, Base, Config, FilterJSON, StoreURI
from .reporting import show_status
from .running import FAILED, guarded, run, stop, tell_if_empty


def find(
    pattern: Annotated[str, typer.Argument(help="The exact words; with --regex a regular expression of Python's re.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    regex: Annotated[bool, typer.Option("--regex", "-e", help="PATTERN is a regular expression.")] = False,
    match_case: Annotated[bool, typer.Option("--match-case", help="Upper and lower case differ.")] = False,
    ignore_accents: Annotated[bool, typer.Option("--ignore-accents", help="Find Müller as Muller.")] = False,
    document: Annotated[str | None, typer.Option("--in", help="Only in the document of this id.")] = None,
    filter: FilterJSON = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Lines to show; all are counted.")] = 100,
    as_json: AsJSON = False,
) -> None:
    """Count and show every occurrence of a text in a knowledge base."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        from ..filters import parse_filter

        result = await base.find(
            pattern,
            regex=regex,
            ignore_case=not match_case,
            ignore_accents=ignore_accents,
            filter=parse_filter(filter) if filter else None,
            document_id=document,
            limit=limit,
        )
        console.show_found(result, as_json=as_json)
        await tell_if_empty(base, result.documents)

    run(work, kb, config, store, as_json)


def show(
    document_id: Annotated[str, typer.Argument(help="Id of a document; see agent-rag list.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    page: Annotated[int | None, typer.Option("--page", min=1, help="Only this page or slide.")] = None,
    heading: Annotated[str | None, typer.Option("--heading", help="Only below this heading, or on this sheet.")] = None,
    rows: Annotated[str | None, typer.Option("--rows", help="Only these rows or lines, such as 10-20.")] = None,
    outline: Annotated[bool, typer.Option("--outline", help="Headings, slides and sheets instead of text.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Print the chunks of a document with their places, all or a part, or its outline."""
    asked = _rows(rows, as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        if outline:
            made = await base.outline(document_id)
            if made is None:
                _no_document(document_id, as_json)
            console.show_outline(made, as_json=as_json)
            return
        chunks = await base.read(document_id, page=page, heading=heading, rows=asked)
        if not chunks and not await base.list_chunks(document_id, limit=1):
            _no_document(document_id, as_json)
        if not chunks:
            stop(f"{document_id!r} has no such part; --outline shows what it has", as_json, code=FAILED)
        console.show_chunks(chunks, as_json=as_json)

    run(work, kb, config, store, as_json)


def _no_document(document_id: str, as_json: bool) -> NoReturn:
    stop(f"there is no document {document_id!r} with text; agent-rag list names them", as_json, code=FAILED)


def _rows(text: str | None, as_json: bool) -> tuple[int, int] | None:
    if text is None:
        return None
    first, _, last = text.partition("-")
    if not first.strip().isdecimal() or not (last.strip() or first).strip().isdecimal():
        stop(f"--rows is {text!r}; write the first and the last, such as 10-20", as_json)
    return int(first), int(last or first)


def status(config: Config = None, store: StoreURI = None, as_json: AsJSON = False) -> None:
    """Say what each knowledge base holds, with which model, and which files failed."""

    async def work() -> None:
        settings = load_settings(config)
        named = dict(settings.knowledge_bases) if store is None else {}
        places: dict[str, KnowledgeBaseSettings] = {}
        for found in named.values() or [KnowledgeBaseSettings(store=store) if store else KnowledgeBaseSettings()]:
            places.setdefault(store_uri(found, None if store else settings.folder), found)
        bases: list[BaseStatus] = []
        for place, found in places.items():
            mine = {name: one for name, one in named.items() if store_uri(one, settings.folder) == place}
            bases += await statuses_of(place, open_store(found, folder=None if store else settings.folder), mine)
        show_status(bases, as_json=as_json)

    guarded(work, as_json)


def drop(
    kb: Annotated[str, typer.Argument(help="Name of the knowledge base to delete with all its documents.")],
    config: Config = None,
    store: StoreURI = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Delete a whole knowledge base. The files it was made of stay."""

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings) -> None:
        if not await base.vector_store.has_collection(base.collection):
            raise ConfigurationError(f"there is no knowledge base {kb!r} in this store; agent-rag status names them")
        if settings.metadata_filter:
            raise ConfigurationError(
                f"{kb!r} is a part of the collection {base.collection!r} ({settings.metadata_filter}), which dropping "
                "would delete for all; delete its documents or sources instead"
            )
        chunks = await base.count()
        if not yes and not typer.confirm(f"Delete {kb!r} with its {chunks:,} chunks?", err=True):
            stop("nothing was deleted", as_json)
        await base.vector_store.delete_collection(base.collection)
        await base.drop_tables()
        console.show_dropped(kb, chunks, as_json=as_json)

    run(work, kb, config, store, as_json)
