"""RAGMiddleware: retrieval for any agent, as a hint before the first step or as a tool. Knows no framework."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from ..._util.tracing import span
from ...answers import CheckedAnswer, Quotable, check_answer, judge_rest
from ...chat import ChatModel
from ...errors import ConfigurationError
from ...events import EventCallback, emit
from ...retrieval.fence import is_fenced
from ...retrieval.rerank import RerankerBase
from ...retrieval.rerank_llm import LLMReranker
from ...retrieval.rewrite import QueryRewriter
from .answering import Answer
from .arguments import ArgumentError
from .events import AnswerChecked, ToolCallEvent
from .fields import FilterFields
from .hint import Hint
from .hinting import make_hint
from .instruments.table import answer, specs
from .parameters import Parameters as RAGParameters
from .pipeline import Gate, Pipeline, Scope, check_filterable
from .result import ToolResult, said
from .search import Base, KnowledgeBaseLike, reason_of
from .tool import KnowledgeTool
from .turn import Ask, History, Turn

logger = logging.getLogger("agent_rag")

_instances = itertools.count(1)
# What stands before the passages, by the hint templates of all instances.
_templates: set[str] = set()


class RAGMiddleware:
    """Puts what knowledge bases hold in front of an agent's model.

    One object serves any number of agents and concurrent turns: it is not changed by them. What belongs to a turn is in
    a `Turn`, which an adapter starts, keeps in its framework's per-run slot, and passes in::

        turn = rag.start_turn(ask, history=earlier, context=identity, supports_images=True)
        hint = await rag.hint(turn)                         # static mode; None: nothing to show
        messages = with_hints(messages, [(hint, made)], is_ask=...)   # before each model call
        result = await rag.call_tool(arguments, turn, name=tool_name)  # agentic mode; never raises
        await rag.check_turn(text, turn)                    # once the model has answered
        turn.citations                                      # everything shown, by number

    `hint` searches once per turn however often it is called. Instances on one agent share the turn: start it once.
    """

    Parameters = RAGParameters

    def __init__(
        self,
        knowledge_bases: Sequence[KnowledgeBaseLike] | KnowledgeBaseLike,
        parameters: RAGParameters | Mapping[str, Any] | None = None,
        rerank_model: Any = None,
        *,
        reranker: RerankerBase | None = None,
        query_rewriter: QueryRewriter | None = None,
        scope: Scope | None = None,
        gate: Gate | None = None,
        on_event: EventCallback | None = None,
        name: str | None = None,
    ) -> None:
        """
        Args:
            knowledge_bases: `KnowledgeBase` handles, or anything with `name`, `description` and async
                ``search(queries, top_k, score_threshold)``. Their names differ.
            parameters: Options; default ``Parameters()``.
            rerank_model: A chat model that reranks (see `LLMReranker`, which this makes with ``rerank_prompt``).
            reranker: Another reranker instead.
            query_rewriter: Turns the user's words (and the model's query) into queries, seeing the conversation; see
                `retrieval.rewrite`. When it fails, the words are used as they are.
            scope: What the caller may read: a filter, or a function of the turn's `context` (or of nothing) that gives
                one (never nothing), sync or async, asked once per turn. ANDed with every search and read; the model
                cannot widen it. When it fails, nothing is searched.
            gate: ``gate(text) -> bool``: False skips the search of a static turn. ``"auto"`` skips it for greetings,
                thanks and requests about the last answer ("shorter, please") in English, German, French and Chinese.
            on_event: Called with `HintEvent`, `ToolCallEvent` and `SearchFailed`.
            name: Of this instance, in events and where a framework wants a unique name; default ``agent_rag_<mode>``.

        Raises: ConfigurationError: two knowledge bases share a name, both rerankers are given, or a scope or filter
            could not be enforced on one of them.
        """
        listed = list(knowledge_bases) if isinstance(knowledge_bases, Iterable) else [knowledge_bases]
        self.parameters = RAGParameters.model_validate(parameters or {})
        self._bases = [Base(knowledge_base) for knowledge_base in listed]
        _check_names([base.name for base in self._bases])
        if reranker is not None and rerank_model is not None:
            raise ConfigurationError("pass rerank_model or reranker, not both")
        if rerank_model is not None:
            reranker = LLMReranker(rerank_model, prompt=self.parameters.rerank_prompt)
        check_filterable(self._bases, needed=scope is not None or self.parameters.filter is not None)
        self.name = name or f"agent_rag_{self.parameters.mode}"
        _templates.add(self.parameters.around_hint[0])
        self.key = f"{self.name}#{next(_instances)}"
        """Unique to this instance in this process."""
        self._on_event = on_event
        self._pipeline = Pipeline(
            self.name,
            self.key,
            self._bases,
            self.parameters,
            reranker=reranker,
            rewriter=query_rewriter,
            scope=scope,
            gate=gate,
            on_event=on_event,
        )
        self._fields = FilterFields(self._pipeline)

    def __repr__(self) -> str:
        names = [base.name for base in self._bases]
        return f"RAGMiddleware({names}, mode={self.parameters.mode!r}, name={self.name!r})"

    @property
    def mode(self) -> str:
        return self.parameters.mode

    @property
    def knowledge_bases(self) -> list[Any]:
        """As attached."""
        return [base.knowledge_base for base in self._bases]

    # --- for adapters and loops ---

    def start_turn(
        self,
        ask: Ask | None = None,
        *,
        history: History = (),
        context: Any = None,
        supports_images: bool = False,
    ) -> Turn:
        """A new turn; arguments as for `Turn`. Where another instance has started this turn already, use that one."""
        return Turn(ask, history=history, context=context, supports_images=supports_images)

    async def hint(self, turn: Turn) -> Hint | None:
        """The hint of this turn. Searches on the first call and remembers; concurrent callers wait for it.

        Returns: None in agentic mode, when the ask is blank or gated, when nothing was found, or when the search failed
            (which `on_event` and the log report).
        Raises: with ``on_error="raise"``: the error of a knowledge base, or ConfigurationError for a failed `scope` or
            `on_results`.
        """
        if self.parameters.mode != "static":
            return None
        slot = turn.slot(self.key)
        async with slot.lock:
            if not slot.hint_done:
                slot.hint = await make_hint(self._pipeline, turn)
                slot.hint_done = True
                if slot.hint is not None and slot.hint.event is not None:
                    await emit(self._on_event, slot.hint.event)
        return slot.hint

    def is_hint(self, text: str) -> bool:
        """Whether a stored message is a hint that an instance with this template made; for frameworks whose messages
        carry no name."""
        return _begins_with(text, self.parameters.around_hint[0])

    @property
    def tools(self) -> list[KnowledgeTool]:
        """The tools of agentic mode; none in static mode. With ``filter_fields="auto"``, call `list_tools` instead."""
        if self.parameters.mode != "agentic":
            return []
        return [KnowledgeTool(spec, self._caller(spec.name)) for spec in specs(self._pipeline, self._fields)]

    async def list_tools(self, *, refresh: bool = True) -> list[KnowledgeTool]:
        """`tools`, after reading what ``filter_fields="auto"`` needs from the stores, if it was not read before or with
        `refresh`."""
        if self.parameters.mode == "agentic":
            await self._fields.load(refresh=refresh)
        return self.tools

    async def call_tool(self, arguments: Any, turn: Turn | None = None, *, name: str | None = None) -> ToolResult:
        """Answer a tool call. Never raises, except CancelledError: what goes wrong is a short text for the model.

        Args:
            arguments: As the model sent them; see `KnowledgeTool`.
            turn: Default: the active turn, else one of this call alone (then numbers start from 1).
            name: Which tool; default the search.
        """
        turn = turn or Turn.current() or self.start_turn()
        name = name or self.parameters.tool_name
        started = time.perf_counter()
        try:
            with span("tool_call", tool=name):
                answered = await answer(self._pipeline, self._fields, name, arguments, turn)
        except ArgumentError as error:
            answered = Answer(said(str(error), is_error=True))
        except Exception as error:
            logger.exception("tool %s failed", name)
            answered = Answer(said(f"The search failed: {reason_of(error)}.", is_error=True))
        as_blocks = self.parameters.search_results == "blocks"
        result = answered.result.model_copy(update={"as_search_results": as_blocks})
        event = ToolCallEvent(
            middleware=self.name,
            tool=name,
            query=answered.query,
            knowledge_bases=answered.knowledge_bases,
            hits=len(result.citations),
            dropped=result.dropped,
            repeated=result.repeated,
            is_error=result.is_error,
            degraded=result.degraded,
            duration_s=time.perf_counter() - started,
        )
        await emit(self._on_event, event)
        return result

    async def check(
        self, answer: str, citations: Iterable[Quotable], *, judge: ChatModel | Any | None = None
    ) -> CheckedAnswer:
        """Compare an answer with what it cites, and tell `on_event` with an `AnswerChecked`.

        Args:
            answer: Its text, with markers such as ``[1]``.
            citations: What was shown: ``turn.citations``, or `citations` of the framework's result.
            judge: A chat model for the sentences that are ``not_found``; see `judge_rest`.

        Raises: ChatError: the judge answered for none of them.
        """
        shown = list(citations)
        checked = await asyncio.to_thread(check_answer, answer, shown)
        if judge is not None:
            checked = await judge_rest(checked, shown, judge)
        event = AnswerChecked(
            middleware=self.name,
            counts=checked.counts,
            never_shown=tuple(checked.never_shown),
            judged=sum(sentence.judged for sentence in checked.sentences),
            unjudged=checked.unjudged,
        )
        await emit(self._on_event, event)
        return checked

    async def check_turn(self, answer: str, turn: Turn) -> CheckedAnswer | None:
        """At the end of a turn, with ``check_answer=True``: `check` its answer and keep that as ``turn.checked``. Once
        for all instances on an agent.

        Returns: None without the option, and for a blank answer.
        """
        if not self.parameters.check_answer or not answer.strip():
            return None
        if turn.checked_answer != answer:
            turn.checked_answer = answer
            turn.checked = await self.check(answer, turn.numbers.quotable)
        return turn.checked

    def _caller(self, name: str) -> Callable[[Any, Turn | None], Awaitable[ToolResult]]:
        async def call(arguments: Any, turn: Turn | None) -> ToolResult:
            return await self.call_tool(arguments, turn, name=name)

        return call


def is_known_hint(text: str) -> bool:
    """Whether a stored message is a hint of any instance of this process, for frameworks whose instances do not know of
    each other."""
    return any(_begins_with(text, before) for before in _templates)


def _begins_with(text: str, before: str) -> bool:
    return text.startswith(before) and is_fenced(text[len(before) :])


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two knowledge bases are called {name!r}; give each a name of its own")
