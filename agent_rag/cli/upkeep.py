"""Commands that look after stores: copy, check, backup, compact, cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import redact
from . import output as console
from .options import AsJSON, Base, Config, StoreURI
from .progress import progress
from .running import collections_of, guarded, stop, with_file

if TYPE_CHECKING:
    from ..stores.sqlite import SQLiteStore


def copy(
    source: Annotated[
        str, typer.Argument(help="Store URI, such as qdrant:FOLDER; with #COLLECTION for one of its collections.")
    ],
    target: Annotated[str, typer.Argument(help="Store URI, with #COLLECTION to rename it.")],
    as_json: AsJSON = False,
) -> None:
    """Copy collections to another store without embedding again. Documents in the target are replaced."""

    async def work() -> None:
        from ..stores.copy import CopyReport, copy_collection
        from ..stores.uri import store_from_uri

        from_uri, _, collection = source.partition("#")
        to_uri, _, renamed = target.partition("#")
        if renamed and not collection:
            stop(f"{redact(target)!r} names a collection, {redact(source)!r} none; add #COLLECTION there", as_json)
        old = store_from_uri(from_uri)
        # An embedded folder can be opened only once; blocks of one store may be nested.
        new = old if to_uri == from_uri else store_from_uri(to_uri)
        async with old, new:
            report = CopyReport()
            for name in [collection] if collection else await collections_of(old, as_json):
                with progress(f"copy {name}", quiet=as_json) as advance:
                    one = await copy_collection(old, name, new, renamed or name, on_progress=advance)
                report.documents += one.documents
                report.chunks += one.chunks
                report.seconds += one.seconds
                report.notes += one.notes
        console.show_copied(report, as_json=as_json)

    guarded(work, as_json)


def check(kb: Base = None, config: Config = None, store: StoreURI = None, as_json: AsJSON = False) -> None:
    """Read and test everything that a SQLite store holds. Exit code 1 when something is damaged."""

    async def work(file: SQLiteStore) -> None:
        report = await file.check()
        console.show_check(report, as_json=as_json)
        if not report.ok:
            raise typer.Exit(1)

    with_file(work, kb, config, store, as_json)


def backup(
    file: Annotated[Path, typer.Argument(help="New file for the copy.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    as_json: AsJSON = False,
) -> None:
    """Copy a SQLite store into one new file, also while others write to it."""

    async def work(opened: SQLiteStore) -> None:
        await opened.backup(file)
        console.show_backup(file, as_json=as_json)

    with_file(work, kb, config, store, as_json)


def compact(kb: Base = None, config: Config = None, store: StoreURI = None, as_json: AsJSON = False) -> None:
    """Give the room of what was deleted from a SQLite store back to the disk."""

    async def work(file: SQLiteStore) -> None:
        console.show_compacted(await file.compact(), as_json=as_json)

    with_file(work, kb, config, store, as_json)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete the vectors; they are paid for again.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Show what the cache of paid embeddings holds (AGENT_RAG_CACHE names another file)."""
    from ..embeddings import cache_stats, clear_cache

    async def work() -> None:
        stats = cache_stats()
        console.show_cache(stats, cleared=clear_cache() if clear else None, as_json=as_json)

    guarded(work, as_json)
