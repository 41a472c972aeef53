"""From a query of a turn to ranked hits: scope, rewriting, search, reranking, the caller's last word."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from ...content import ContentBlock, DataBlock, TextBlock
from ...documents import VectorSearchResult
from ...errors import ConfigurationError
from ...events import EventCallback, emit
from ...filters import FilterLike, all_of, as_filter
from ...retrieval.rerank import RerankerBase
from ...retrieval.rewrite import QueryRewriter
from .conversation.gate import asks_for_search
from .events import SearchFailed
from .parameters import MAX_TOP_K, Parameters
from .render import Layout, approximate_tokens
from .search import Base, Deadline, Found, reason_of, search_all
from .turn import Turn

logger = logging.getLogger("agent_rag")

Scope = FilterLike | Callable[..., FilterLike | Awaitable[FilterLike | None] | None]
"""A filter, or a function of the turn's context (or of nothing) that gives one; sync or async."""
Gate = Callable[[str], bool | Awaitable[bool]] | Literal["auto"]
"""A function of the user's words that says whether to search, sync or async; or `asks_for_search`."""

_REWRITE_SHARE = 0.4
_SEARCH_SHARE = 0.7
# Of what the search has left: a hint or an answer is still to be written from the order of the search.
_RERANK_SHARE = 0.9


class StageError(Exception):
    """A step that must not be skipped failed: the scope, or the caller's `on_results`."""

    def __init__(self, stage: Any, error: Exception) -> None:
        super().__init__(f"{stage} failed: {reason_of(error)}")
        self.stage = stage
        self.error = error


class Pipeline:
    """The steps of one middleware instance; holds no state of a turn."""

    def __init__(
        self,
        name: str,
        key: str,
        bases: Sequence[Base],
        parameters: Parameters,
        *,
        reranker: RerankerBase | None,
        rewriter: QueryRewriter | None,
        scope: Scope | None,
        gate: Gate | None,
        on_event: EventCallback | None,
    ) -> None:
        self.name = name
        self.key = key
        self.bases = bases
        self.parameters = parameters
        self._reranker = reranker
        self._rewriter = rewriter
        self._scope = scope if callable(scope) else _constant_scope(scope)
        self._scope_takes_context = callable(scope) and takes_argument(scope)
        self._gate = gate
        self._on_event = on_event

    @property
    def scoped(self) -> bool:
        return self._scope is not None

    async def find(
        self,
        turn: Turn,
        text: str,
        images: Sequence[DataBlock],
        bases: Sequence[Base],
        *,
        top_k: int,
        deadline: Deadline,
        filter: FilterLike | None = None,
        extra: int = 0,
        more: Sequence[str] = (),
    ) -> tuple[Found, list[str]]:
        """Hits, at most `top_k` + `extra`, best first, and the queries that were searched for.

        Args:
            more: Further texts, each searched for beside `text`, and the hits merged.

        Raises: StageError: the scope or `on_results` failed; there are no hits then.
        """
        parameters = self.parameters
        scope = await self.scope_of(turn)
        written = await asyncio.gather(*(self._queries(turn, one, deadline) for one in (text, *more)))
        queries = list(dict.fromkeys(query for some in written for query in some))
        wanted = min(top_k + extra, MAX_TOP_K)
        asked = min(max(parameters.candidate_k, wanted), MAX_TOP_K) if self._reranker else wanted
        blocks: list[ContentBlock] = [*(TextBlock(text=query) for query in queries), *images]
        found = await search_all(
            bases,
            blocks,
            top_k=asked,
            per_base=parameters.top_k_per_knowledge_base,
            score_threshold=parameters.score_threshold,
            filter=all_of(scope, parameters.filter, filter),
            scope=scope,
            collapse=parameters.collapse_duplicates,
            timeout_s=deadline.left(_SEARCH_SHARE if self._reranker else 1.0),
        )
        for failure in found.failures:
            await self.report("search", failure.reason, knowledge_base=failure.knowledge_base)
        found.hits = found.hits[:asked]
        if self._reranker is not None and found.hits:
            found.hits = await self._reranked(self._reranker, _asked(queries, more), found, wanted, deadline)
        found.hits = (await self.vetted(found.hits))[:wanted]
        return found, queries

    def layout(self, turn: Turn, *, before: str = "", after: str = "") -> Layout:
        """How passages are shown in this turn, with the hint template's text around them."""
        parameters = self.parameters
        return Layout(
            max_tokens=parameters.max_context_tokens,
            count=parameters.token_counter or approximate_tokens,
            images=parameters.images == "always" or (parameters.images == "auto" and turn.supports_images),
            before=before,
            after=after,
            show_base=len(self.bases) > 1,
            show_document="read_document" in parameters.chosen_tools,
            hidden=self.hidden_fields,
            disarm_images=parameters.disarm_images,
            recall=parameters.mode == "agentic",
        )

    @property
    def hidden_fields(self) -> frozenset[str]:
        """Metadata fields that are not shown: the excluded ones and those of the knowledge bases' scopes."""
        scopes = [getattr(base.knowledge_base, "metadata_filter", None) or {} for base in self.bases]
        return frozenset(self.parameters.exclude_metadata).union(*scopes)

    async def scope_of(self, turn: Turn) -> FilterLike | None:
        """The caller's scope, resolved once per turn.

        Raises: StageError: it could not be resolved; nothing may be searched then.
        """
        if not callable(self._scope):
            return self._scope
        slot = turn.slot(self.key)
        if not slot.scope_done:
            try:
                answer = self._scope(turn.context) if self._scope_takes_context else self._scope()
                slot.scope = as_filter(await answer if inspect.isawaitable(answer) else answer)
                if slot.scope is None:  # a forgotten return must not open everything
                    raise ConfigurationError("the scope function gave nothing; And(()) says that everything is allowed")
            except Exception as error:
                raise StageError("scope", error) from error
            slot.scope_done = True
        scope: FilterLike | None = slot.scope
        return scope

    async def passes_gate(self, turn: Turn) -> bool:
        """Whether to search for this turn at all. A gate that fails is open, and reported."""
        if self._gate is None:
            return True
        if self._gate == "auto":
            answered = any(message.role == "assistant" for message in turn.history)
            return bool(turn.images) or asks_for_search(turn.text, answered=answered)
        try:
            answer = self._gate(turn.text)
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except Exception as error:
            await self.report("gate", reason_of(error))
            return True

    async def report(self, stage: Any, reason: str, *, knowledge_base: str | None = None) -> None:
        """Tell the callback and the log of a part that failed, while the turn goes on."""
        where = f" in {knowledge_base!r}" if knowledge_base else ""
        logger.warning("%s: %s failed%s: %s", self.name, stage, where, reason)
        await emit(
            self._on_event,
            SearchFailed(middleware=self.name, stage=stage, knowledge_base=knowledge_base, reason=reason),
        )

    async def _queries(self, turn: Turn, text: str, deadline: Deadline) -> list[str]:
        """What to search for; the text itself when rewriting is off, fails, or writes nothing."""
        if self._rewriter is None or not text:
            return [text] if text else []
        try:
            async with asyncio.timeout(deadline.left(_REWRITE_SHARE)):
                answer = self._rewriter(text, turn.history)
                written = await answer if inspect.isawaitable(answer) else answer
            queries = [written] if isinstance(written, str) else list(written)
            return [query for query in queries if query.strip()] or [text]
        except Exception as error:
            await self.report("rewrite", reason_of(error))
            return [text]

    async def _reranked(
        self, reranker: RerankerBase, query: str, found: Found, wanted: int, deadline: Deadline
    ) -> list[VectorSearchResult]:
        try:
            async with asyncio.timeout(deadline.left(_RERANK_SHARE)):
                answer = await reranker.rerank(query, found.hits, top_n=wanted)
            reason = answer.reason or "failed" if answer.degraded else None
            hits = answer.results
        except Exception as error:
            reason, hits = reason_of(error), found.hits
        if reason is not None:
            found.degraded = True
            await self.report("rerank", reason)
        return hits

    async def vetted(self, hits: list[VectorSearchResult]) -> list[VectorSearchResult]:
        """The caller's `on_results`; it may remove hits for good reasons, so its failure is no answer at all."""
        if self.parameters.on_results is None:
            return hits
        try:
            answer = self.parameters.on_results(list(hits))
            kept = await answer if inspect.isawaitable(answer) else answer
            return hits if kept is None else list(kept)
        except Exception as error:
            raise StageError("on_results", error) from error


def _asked(queries: Sequence[str], more: Sequence[str]) -> str:
    """What a reranker judges by: the first query, or all where the model wrote several."""
    return "\n".join(queries) if more else next(iter(queries), "")


def _constant_scope(scope: FilterLike | None) -> FilterLike | None:
    """Raises: ConfigurationError: an empty mapping, which would allow everything: a scope that was forgotten."""
    if isinstance(scope, Mapping) and not scope:
        raise ConfigurationError("scope is {}, which would open everything; scope=None says that there is none")
    return as_filter(scope)


def check_filterable(bases: Sequence[Base], *, needed: bool) -> None:
    """Raises: ConfigurationError: a filter is `needed` and a knowledge base takes none, so it could not be enforced."""
    for base in bases:
        if needed and not base.takes_filter:
            raise ConfigurationError(
                f"the search of {base.name!r} ({type(base.knowledge_base).__name__}) takes no filter, "
                "so a scope or filter could not be enforced; give its search a 'filter' argument, or attach it without"
            )


def takes_argument(function: Callable[..., Any]) -> bool:
    """Whether a function of the caller's takes what it could be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in positional or p.kind is p.VAR_POSITIONAL for p in parameters)
