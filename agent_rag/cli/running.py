"""What commands have in common: open what was chosen, do the work, and say in one line what went wrong.

Exit codes: 0 done; 1 some files failed, or something was not there; 2 wrong usage or configuration; 3 a service that is
needed is down or refuses (embedding provider, chat model, store); 4 refused, so that nothing is damaged (another
process holds the store, it cannot be written, another model built the collection); 130 interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from ..config.settings import (
    KnowledgeBaseSettings,
    Settings,
    former_store_note,
    knowledge_base_from,
    load_settings,
    open_store,
    with_stored_model,
)
from ..errors import (
    AgentRAGError,
    ChatError,
    ConfigurationError,
    DimensionMismatchError,
    EmbeddingError,
    FilterError,
    LimitExceededError,
    MissingExtraError,
    ModelMismatchError,
    QuestionError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreUnavailableError,
    redact,
)
from ..knowledge.knowledge_base import KnowledgeBase
from ..stores.native import NativeStoreBase
from .advice import with_keys

if TYPE_CHECKING:
    from ..stores.base import VectorStoreBase
    from ..stores.sqlite import SQLiteStore

T = TypeVar("T")

FAILED, USAGE, DOWN, REFUSED, INTERRUPTED = 1, 2, 3, 4, 130
_CODES: list[tuple[tuple[type[BaseException], ...], int]] = [
    ((ConfigurationError, FilterError, LimitExceededError, MissingExtraError, QuestionError), USAGE),
    ((StoreUnavailableError, EmbeddingError, ChatError), DOWN),
    ((StoreLockedError, StoreReadOnlyError, ModelMismatchError, DimensionMismatchError), REFUSED),
]


def run(
    work: Callable[[KnowledgeBase, KnowledgeBaseSettings], Awaitable[None]],
    name: str | None,
    config: Path | None,
    store: str | None,
    as_json: bool,
    *,
    writes: bool = False,
) -> None:
    """Open the chosen knowledge base and do `work` with it. What only reads makes nothing, and is told of a name that
    nothing has."""

    async def working(base: KnowledgeBase, settings: KnowledgeBaseSettings, known: Settings) -> None:
        await work(base, settings)

    run_with_settings(working, name, config, store, as_json, writes=writes)


def run_with_settings(
    work: Callable[[KnowledgeBase, KnowledgeBaseSettings, Settings], Awaitable[None]],
    name: str | None,
    config: Path | None,
    store: str | None,
    as_json: bool,
    *,
    writes: bool = False,
) -> None:
    """As `run`; `work` is given the whole configuration too."""

    async def opened() -> None:
        known = load_settings(config)
        chosen, settings, folder = _chosen(known, name, store)
        async with _entered(chosen, settings, folder, writes=writes) as base:
            if name is not None and name not in known.knowledge_bases:
                await _check_name(base, writes=writes)
            await work(base, settings, known)

    guarded(opened, as_json)


def with_file(
    work: Callable[[SQLiteStore], Awaitable[None]],
    name: str | None,
    config: Path | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Open the chosen store, one that is there, and do `work` with it."""

    async def opened() -> None:
        from ..stores.sqlite import SQLiteStore

        _, settings, folder = _chosen(load_settings(config), name, store)
        file = open_store(settings, folder=folder)
        if not isinstance(file, SQLiteStore):
            stop(f"the store is a {type(file).__name__}; its engine has tools of its own for this", as_json)
        if not file.path.exists():
            stop(f"{file.path} does not exist", as_json, code=1)
        async with file:
            await work(file)

    guarded(opened, as_json)


async def collections_of(store: VectorStoreBase, as_json: bool) -> list[str]:
    if not isinstance(store, NativeStoreBase):
        stop(f"{type(store).__name__} cannot list its collections; name one with #COLLECTION", as_json)
    return await store.list_collections()


def _chosen(settings: Settings, name: str | None, store: str | None) -> tuple[str, KnowledgeBaseSettings, Path | None]:
    if store is not None and name is not None and name not in settings.knowledge_bases:
        return name, KnowledgeBaseSettings(store=store), None
    chosen, found = settings.choose(name)
    if store is not None:
        return chosen, found.model_copy(update={"store": store}), None
    return chosen, found, settings.folder


@contextlib.asynccontextmanager
async def _entered(
    name: str, settings: KnowledgeBaseSettings, folder: Path | None, *, writes: bool
) -> AsyncIterator[KnowledgeBase]:
    if note := former_store_note(settings):
        typer.echo(f"agent-rag: {note}", err=True)
    store = open_store(settings, folder=folder)
    if not writes and (missing := missing_file(store)) is not None:
        raise ConfigurationError(f"there is no store yet: {missing} does not exist; agent-rag ingest PATH makes it")
    async with store as opened:
        yield knowledge_base_from(name, await with_stored_model(name, settings, opened), opened)


def missing_file(store: VectorStoreBase) -> Path | None:
    """The file of a SQLite store that is not there."""
    path = getattr(store, "path", None)
    return path if isinstance(path, Path) and not path.exists() else None


async def _check_name(base: KnowledgeBase, *, writes: bool) -> None:
    """Raises: ConfigurationError: nothing has this name, and nothing is about to be written under it."""
    store = base.vector_store
    if await store.has_collection(base.collection):
        return
    if writes:
        typer.echo(f"agent-rag: {base.name!r} is a new knowledge base of this store", err=True)
        return
    names = await store.list_collections() if isinstance(store, NativeStoreBase) else []
    has = f"it has {', '.join(names)}" if names else "it has none"
    raise ConfigurationError(f"there is no knowledge base {base.name!r} in this store; {has} (-k NAME)")


async def tell_if_empty(base: KnowledgeBase, found: Sequence[Any]) -> None:
    """A misspelt name is an empty knowledge base, so say that it is one."""
    if not found and not await base.count():
        typer.echo(f"agent-rag: the knowledge base {base.name!r} is empty; agent-rag ingest PATH fills it", err=True)


def guarded(work: Callable[[], Awaitable[None]], as_json: bool) -> None:
    """Run `work`; an error of ours becomes one line and its exit code."""

    notes: list[str] = []

    async def awaited() -> None:
        try:
            await work()
        except asyncio.CancelledError as error:
            notes.extend(getattr(error, "__notes__", ()))
            raise

    try:
        asyncio.run(awaited())
    except KeyboardInterrupt:
        stop("; ".join(["interrupted", *notes]), as_json, code=INTERRUPTED)
    except (AgentRAGError, FileNotFoundError) as error:
        told = "; ".join([str(error), *getattr(error, "__notes__", [])])
        code = next((code for kinds, code in _CODES if isinstance(error, kinds)), FAILED)
        about = {"kind": type(error).__name__, "page": error.page} if isinstance(error, AgentRAGError) else {}
        stop(with_keys(redact(told)), as_json, code=code, about=about)


def first_given(*values: T | None) -> T | None:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)


def stop(message: str, as_json: bool, *, code: int = USAGE, about: Mapping[str, str] | None = None) -> NoReturn:
    """Say what went wrong and end with `code`; `about` is added to what programs get."""
    if as_json:
        typer.echo(json.dumps({"error": message, **(about or {})}, ensure_ascii=False))
    typer.echo(f"agent-rag: {message}", err=True)
    raise typer.Exit(code)
