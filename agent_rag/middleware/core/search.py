"""One search over several knowledge bases: each may fail alone, ranks are merged, duplicates collapse."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ...content import Base64Source, ContentBlock, DataBlock, TextBlock, URLSource
from ...documents import Chunk, VectorSearchResult
from ...errors import AgentRAGError, ConfigurationError, StoreError, StoreUnavailableError, redact
from ...filters import FilterLike, matches
from ...retrieval.fusion import reciprocal_rank
from ...retrieval.rank import collapse_by
from .citation import PassageKey, Source, key_of

logger = logging.getLogger("agent_rag")
T = TypeVar("T")

_MARKS = re.compile(r"[*_`#>|•·]+")
_DOUBLE_QUOTES = re.compile("[“”„«»]")
_SINGLE_QUOTES = re.compile("[‘’]")
_DASHES = re.compile("[–—]")


@dataclass(frozen=True)
class Failure:
    """A knowledge base that did not answer."""

    knowledge_base: str
    error: BaseException

    @property
    def reason(self) -> str:
        return reason_of(self.error)


@dataclass
class Found:
    """What one search found."""

    hits: list[VectorSearchResult] = field(default_factory=list)
    """Best first; `knowledge_base` is set on each."""
    also_in: dict[PassageKey, list[Source]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    degraded: bool = False


class Deadline:
    """Time left for one hint or tool call."""

    def __init__(self, timeout_s: float | None) -> None:
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def left(self, share: float = 1.0) -> float | None:
        """Seconds left, times `share`; None for no limit."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0) * share


class KnowledgeBaseLike(Protocol):
    """What the middleware takes as a knowledge base: a `KnowledgeBase`, or a retriever of yours."""

    @property
    def name(self) -> str:
        """Short, unique among those on one middleware; models choose by it."""
        ...

    @property
    def description(self) -> str:
        """What it holds, in a sentence; models read it."""
        ...

    @property
    def search(self) -> Callable[..., Awaitable[Sequence[Any]]]:
        """``await search(queries, top_k=5, score_threshold=None)``, with ``filter=`` where filters and scopes are to be
        enforced. It gives `VectorSearchResult`, AgentScope's results, or mappings with ``text`` and perhaps ``source``,
        ``score``, ``document_id``, ``chunk_index`` and ``metadata``; best first."""
        ...


class Base:
    """A knowledge base as attached."""

    def __init__(self, knowledge_base: KnowledgeBaseLike) -> None:
        """Raises: ConfigurationError: one of the three is missing."""
        for attribute in ("name", "description", "search"):
            if getattr(knowledge_base, attribute, None) is None:
                raise ConfigurationError(
                    f"{type(knowledge_base).__name__} is no knowledge base: it has no {attribute!r}; "
                    "it needs name, description and async search(queries, top_k, score_threshold)"
                )
        self.knowledge_base: Any = knowledge_base
        """Any: it may have more, such as `list_chunks`."""
        self.name = str(knowledge_base.name)
        self.description = str(knowledge_base.description)
        accepted = _keywords(knowledge_base.search)
        self.takes_filter = accepted is None or "filter" in accepted
        self.takes_distinct = accepted is not None and "distinct" in accepted

    async def search(
        self, queries: Sequence[ContentBlock], top_k: int, score_threshold: float | None, filter: FilterLike | None
    ) -> list[VectorSearchResult]:
        """Raises: ConfigurationError: there is a filter, and this knowledge base takes none. And whatever it raises."""
        options: dict[str, Any] = {}
        if filter is not None:
            if not self.takes_filter:
                raise ConfigurationError(f"the knowledge base {self.name!r} takes no filter")
            options["filter"] = filter
        if self.takes_distinct:
            options["distinct"] = True
        asked = [query.text if isinstance(query, TextBlock) else query for query in queries]
        found = await self.knowledge_base.search(asked, top_k=top_k, score_threshold=score_threshold, **options)
        return [_adopted(result, self.name) for result in list(found)[:top_k]]


async def search_all(
    bases: Sequence[Base],
    queries: Sequence[ContentBlock],
    *,
    top_k: int,
    per_base: int | None = None,
    score_threshold: float | None = None,
    filter: FilterLike | None = None,
    scope: FilterLike | None = None,
    collapse: bool = True,
    timeout_s: float | None = None,
) -> Found:
    """Ask all `bases` at once and merge what they answer, by rank when there are several.

    Args:
        top_k: Hits asked of each; the merged list may be longer.
        per_base: A smaller number asked of each.
        filter: What the search is for; the scope is in it.
        scope: Checked again on every hit; a hit outside it is dropped and logged as an error.
    """
    if not bases or not queries:
        return Found()
    asked = top_k if per_base is None else min(top_k, per_base)
    rankings, failures = await ask_all(
        bases, lambda base: base.search(queries, asked, score_threshold, filter), timeout_s
    )
    if scope is not None:
        rankings = [[hit for hit in ranking if in_scope(hit, scope)] for ranking in rankings]
    hits = rankings[0] if len(rankings) == 1 else _merged(rankings)
    found = Found(failures=failures, degraded=bool(failures))
    found.hits = _collapsed(hits, found.also_in) if collapse else hits
    return found


async def ask_all(
    bases: Sequence[Base],
    question: Callable[[Base], Coroutine[Any, Any, list[T]]],
    timeout_s: float | None,
) -> tuple[list[list[T]], list[Failure]]:
    """Put a question to all `bases` at once: their answers, empty for one that failed or was late, and the failures."""
    if not bases:
        return [], []
    tasks = [asyncio.create_task(question(base)) for base in bases]
    try:
        await asyncio.wait(tasks, timeout=timeout_s)
    finally:
        for task in tasks:
            # Not awaited: a knowledge base that ignores cancellation must not hold up the turn.
            task.add_done_callback(_retrieve_exception)
            task.cancel()
    rankings: list[list[T]] = []
    failures: list[Failure] = []
    for base, task in zip(bases, tasks, strict=True):
        error = _error_of(task, base, timeout_s)
        rankings.append([] if error else task.result())
        if error is not None:
            failures.append(Failure(base.name, error))
    return rankings, failures


def _error_of(task: asyncio.Task[Any], base: Base, timeout_s: float | None) -> BaseException | None:
    if not task.done():
        return StoreUnavailableError(
            f"the knowledge base {base.name!r} did not answer within {timeout_s or 0:.2g} s; "
            "raise timeout_s or check its store"
        )
    if task.cancelled():
        return StoreUnavailableError(f"the search in the knowledge base {base.name!r} was cancelled")
    return task.exception()


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def in_scope(hit: VectorSearchResult, scope: FilterLike) -> bool:
    if matches(scope, hit.chunk.metadata):
        return True
    logger.error("knowledge base %r answered %r from outside the scope; dropped", hit.knowledge_base, hit.chunk_id)
    return False


def _merged(rankings: Sequence[Sequence[VectorSearchResult]]) -> list[VectorSearchResult]:
    """Rank fusion over knowledge bases; equal ranks keep the order in which the bases were attached."""
    by_key: dict[tuple[int, int], VectorSearchResult] = {}
    lists = []
    for position, ranking in enumerate(rankings):
        keys = [(rank, position) for rank in range(len(ranking))]
        by_key.update(zip(keys, ranking, strict=True))
        lists.append([(key, hit.score) for key, hit in zip(keys, ranking, strict=True)])
    return [by_key[key].model_copy(update={"score": score}) for key, score in reciprocal_rank(lists)]


def _collapsed(hits: Iterable[VectorSearchResult], also_in: dict[PassageKey, list[Source]]) -> list[VectorSearchResult]:
    """One hit per text; `also_in` collects where else each text stands."""

    def merge(first: VectorSearchResult, other: VectorSearchResult) -> VectorSearchResult:
        also_in.setdefault(key_of(first), []).extend([_place(other), *also_in.pop(key_of(other), [])])
        return first

    for hit in hits:
        if hit.also_in:
            also_in[key_of(hit)] = [
                Source(document_id=key.document_id, chunk_id=key.chunk_id, source=key.document_id,
                       knowledge_base=hit.knowledge_base)
                for key in hit.also_in
            ]  # fmt: skip
    return collapse_by(hits, _comparable, merge)


def _place(hit: VectorSearchResult) -> Source:
    return Source(
        document_id=hit.document_id,
        chunk_id=hit.chunk_id,
        source=hit.chunk.source,
        knowledge_base=hit.knowledge_base,
    )


def _comparable(hit: VectorSearchResult) -> str:
    """The text without mark-up and with plain quotes; images are compared by their data."""
    content = hit.chunk.content
    if isinstance(content, DataBlock):
        return content.source.data if isinstance(content.source, Base64Source) else str(content.source.url)
    text = _MARKS.sub(" ", content.text)
    if text.isascii():
        return text
    return _DASHES.sub("-", _SINGLE_QUOTES.sub("'", _DOUBLE_QUOTES.sub('"', text)))


def reason_of(error: BaseException) -> str:
    """Class and first line of an error, without secrets, at most 200 characters."""
    first = next(iter(str(error).strip().splitlines()), "")
    return redact(f"{type(error).__name__}: {first}" if first else type(error).__name__)[:200]


def as_own_error(failure: Failure) -> AgentRAGError:
    """The failure as an error of this package, to raise ``from`` the original."""
    if isinstance(failure.error, AgentRAGError):
        return failure.error
    return StoreError(f"the knowledge base {failure.knowledge_base!r} failed: {failure.reason}")


def _keywords(function: Any) -> set[str] | None:
    """Names of the arguments that `function` takes; None when it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}


def _adopted(result: Any, name: str) -> VectorSearchResult:
    """A hit of any knowledge base as ours.

    Accepted: a VectorSearchResult; an object with `score`, `document_id` and `chunk` (AgentScope's); or a mapping with
    `text` and perhaps `source`, `score`, `document_id`, `chunk_index` and `metadata`.
    """
    if isinstance(result, VectorSearchResult):
        return result if result.knowledge_base == name else result.model_copy(update={"knowledge_base": name})
    if isinstance(result, Mapping):
        source = str(result.get("source") or result.get("document_id") or name)
        document_id = str(result.get("document_id") or source)
        index = int(result.get("chunk_index") or 0)
        content: ContentBlock = TextBlock(text=str(result["text"]))
        metadata, score, total = dict(result.get("metadata") or {}), float(result.get("score") or 0.0), index + 1
    else:
        chunk = result.chunk
        source, document_id, index = str(chunk.source), str(result.document_id), int(chunk.chunk_index)
        content, metadata, score = _content(chunk.content), dict(chunk.metadata or {}), float(result.score)
        total = int(getattr(chunk, "total_chunks", index + 1))
    own = Chunk(
        content=content,
        source=source,
        chunk_index=index,
        total_chunks=total,
        metadata=metadata,
        document_id=document_id,
    )
    return VectorSearchResult(score=score, document_id=document_id, chunk=own, knowledge_base=name)


def _content(content: Any) -> ContentBlock:
    text = content if isinstance(content, str) else getattr(content, "text", None)
    if isinstance(text, str):
        return TextBlock(text=text)
    source, name = content.source, getattr(content, "name", None)
    if (data := getattr(source, "data", None)) is not None:
        return DataBlock(source=Base64Source(data=data, media_type=source.media_type), name=name)
    return DataBlock(source=URLSource(url=source.url, media_type=source.media_type), name=name)
