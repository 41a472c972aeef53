"""Ask every question in every configuration, and measure what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..chunkers.lengths import LengthFunction
from ..documents import ChunkKey, VectorSearchResult
from ..errors import ConfigurationError, QuestionError
from ..ingestion.options import IngestOptions
from ..knowledge.knowledge_base import KnowledgeBase
from ..places import location_of, place_text
from ..retrieval import RerankerBase
from .bootstrap import paired_differences
from .configurations import Configuration, reranker_from
from .indexing import Corpus, Indexes
from .matching import DocumentNames, Target, plain
from .metrics import fitting, ndcg, percentile, recall, reciprocal_rank
from .questions import Question
from .report import ConfigurationResult, EvaluationReport, Hit, Outcome, QuestionResult
from .tokens import llama_tokens

DEPTH = 50
"""Hits that a search gives where a configuration does not say."""
CUTOFFS = (1, 3, 5, 10)
TOKEN_BUDGETS = (1_000, 2_000, 4_000)
SHOWN_HITS = 5
_SHOWN_CHARACTERS, _SHOWN_BEFORE = 300, 80

OnQuestion = Callable[[int, int], None]
"""Called with how many of how many questions are done."""


@dataclass
class _Searcher:
    """One configuration, ready to be asked."""

    configuration: Configuration
    base: KnowledgeBase
    reranker: RerankerBase | None
    count_tokens: LengthFunction
    degraded: int = 0
    _plain: dict[ChunkKey, str] = field(default_factory=dict)
    _tokens: dict[ChunkKey, int] = field(default_factory=dict)

    @property
    def note(self) -> str:
        name = self.configuration.name
        return f"{name}: the reranker failed {self.degraded} times, there the order of the search stayed"

    async def ask(self, question: str) -> tuple[list[VectorSearchResult], float]:
        """The hits, and the milliseconds that they took."""
        one = self.configuration
        started = time.perf_counter()
        # A reranker chooses from the depth, whatever is shown of it.
        limit = DEPTH if one.top_k is None or self.reranker else one.top_k
        hits = await self.base.search(question, limit, one.score_threshold, mode=one.mode)
        if self.reranker is not None:
            reranked = await self.reranker.rerank(question, hits, top_n=one.top_k)
            hits = reranked.results
            self.degraded += reranked.degraded
        return hits, 1_000 * (time.perf_counter() - started)

    def texts(self, hits: Sequence[VectorSearchResult]) -> list[str]:
        return [self._plain.setdefault(hit.key, "") or self._remember(hit) for hit in hits]

    def sizes(self, hits: Sequence[VectorSearchResult]) -> list[int]:
        """Tokens of each hit."""
        for hit in hits:
            if hit.key not in self._tokens:
                self._tokens[hit.key] = self.count_tokens(hit.chunk.text)
        return [self._tokens[hit.key] for hit in hits]

    def _remember(self, hit: VectorSearchResult) -> str:
        self._plain[hit.key] = plain(hit.chunk.text)
        return self._plain[hit.key]


async def evaluate(
    base: KnowledgeBase,
    questions: Sequence[Question],
    configurations: Sequence[Configuration] = (),
    *,
    corpus: Corpus | None = None,
    ingest_options: IngestOptions | None = None,
    count_tokens: LengthFunction | None = None,
    on_question: OnQuestion | None = None,
) -> EvaluationReport:
    """Measure retrieval: every question in every configuration, in turns, one search at a time.

    Metrics are means over the questions: ``recall@1`` to ``@10``, ``ndcg@10``, ``mrr@10``; where there are quotes
    ``quoted@5`` (share of the quoted characters in the first 5 hits) and ``quoted@2000t`` (in the first 2,000 tokens;
    the hit that reaches beyond is cut). Where whole documents are wanted, hits are ranked by document.

    Args:
        base: Filled, over an entered store.
        questions: At least one that says what should be found; those with an answer only are left out, and noted.
        configurations: The first is the baseline of the others; default: the knowledge base as it is.
        corpus: Where configurations with another index read the documents; default: the folders of the sources.
        ingest_options: For that, such as `parser_for`; its `chunker` counts where a configuration has no sizes.
        count_tokens: Default: tokens of Llama 2's vocabulary.

    Raises: QuestionError: a document is named that is several. ConfigurationError: no question can be measured, two
        configurations have one name, or one cannot be built. Otherwise as `KnowledgeBase.search`.
    """
    started = time.monotonic()
    chosen = list(configurations) or [Configuration(name="as it is")]
    asked = [question for question in questions if question.searchable]
    _check(asked, chosen)
    count = count_tokens or llama_tokens()
    async with Indexes(base, corpus, ingest_options) as indexes:
        searchers = [await _searcher(indexes, one, count) for one in chosen]
        targets, notes = await _targets(base, asked)
        results: list[QuestionResult] = []
        for position, question in enumerate(asked):
            target = targets[question.id]
            outcomes = {one.configuration.name: await _outcome(one, question, target) for one in searchers}
            wanted = [*question.quotes, *(_place_name(place.model_dump()) for place in question.places)]
            results.append(
                QuestionResult(
                    id=question.id,
                    question=question.question,
                    wanted=wanted or list(question.documents),
                    outcomes=outcomes,
                )
            )
            if on_question is not None:
                on_question(position + 1, len(asked))
        summaries = [await _summary(one, results, chosen[0].name) for one in searchers]
        notes += await _unfindable(base, asked, results)
        notes += [*indexes.notes, *(one.note for one in searchers if one.degraded)]
    if len(asked) < len(questions):
        notes.append(f"{len(questions) - len(asked)} questions have an answer only, nothing to find; left out")
    return EvaluationReport(
        knowledge_base=base.name,
        questions=len(asked),
        configurations=summaries,
        results=results,
        notes=notes,
        seconds=time.monotonic() - started,
    )


def _check(asked: Sequence[Question], chosen: Sequence[Configuration]) -> None:
    if not asked:
        raise ConfigurationError("no question says what should be found; give documents, quotes or places")
    names = [one.name for one in chosen]
    if double := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(f"two configurations are called {double[0]!r}; give them names")


async def _searcher(indexes: Indexes, one: Configuration, count: LengthFunction) -> _Searcher:
    base = await indexes.of(one.index)
    searcher = _Searcher(
        one, base.searching(fusion=one.fusion, keyword_weight=one.keyword_weight), reranker_from(one.reranker), count
    )
    await searcher.ask("warm up")  # what is loaded at the first search belongs to no question
    searcher.degraded = 0
    return searcher


async def _targets(base: KnowledgeBase, asked: Sequence[Question]) -> tuple[dict[str, Target], list[str]]:
    """What each question wants, by its id, and a note of documents that are not stored."""
    names = DocumentNames(await base.list_documents())
    missing: dict[str, str] = {}
    targets: dict[str, Target] = {}
    for question in asked:
        ids: dict[str, str | None] = {}
        for name in [*question.documents, *(place.document for place in question.places)]:
            try:
                ids[name] = names.id_of(name)
            except QuestionError as error:
                raise QuestionError(f"question {question.id} ({question.question[:60]!r}): {error}") from None
            if ids[name] is None:
                missing.setdefault(name, question.id)
        targets[question.id] = Target(question, ids)
    shown = ", ".join(f"{name!r} (question {asker})" for name, asker in list(missing.items())[:5])
    return targets, [f"{len(missing)} documents are not in the knowledge base: {shown}"] if missing else []


async def _outcome(searcher: _Searcher, question: Question, target: Target) -> Outcome:
    hits, latency_ms = await searcher.ask(question.question)
    texts = searcher.texts(hits)
    gains = target.gains(hits, texts)
    shown = [_shown(hit, bool(new), question) for hit, new in zip(hits[:SHOWN_HITS], gains, strict=False)]
    if target.by_document:
        first = {hit.document_id: position for position, hit in reversed(list(enumerate(hits)))}
        gains = [gains[position] for position in sorted(first.values())]
    wanted = target.wanted
    metrics = {f"recall@{k}": recall(gains, wanted, k) for k in CUTOFFS}
    metrics |= {"ndcg@10": ndcg(gains, wanted), "mrr@10": reciprocal_rank(gains)}
    if target.quotes:
        metrics["quoted@5"] = target.covered(hits[:5], texts[:5])
        sizes = searcher.sizes(hits)
        for budget in TOKEN_BUDGETS:
            whole, share = fitting(sizes, budget)
            cut = [plain(_part(hit.chunk.text, share)) for hit in hits[whole : whole + 1]]
            metrics[f"quoted@{budget}t"] = target.covered(hits[: whole + 1], [*texts[:whole], *cut])
    return Outcome(metrics=metrics, latency_ms=latency_ms, hits=shown)


async def _summary(searcher: _Searcher, results: Sequence[QuestionResult], baseline: str) -> ConfigurationResult:
    name = searcher.configuration.name
    outcomes = [result.outcomes[name] for result in results]
    latencies = [outcome.latency_ms for outcome in outcomes]
    columns = _columns(results, name)
    return ConfigurationResult(
        name=name,
        settings=searcher.configuration.settings,
        chunks=await searcher.base.count(),
        metrics={metric: sum(values) / len(values) for metric, values in columns.items()},
        differences=paired_differences(columns, _columns(results, baseline)) if name != baseline else {},
        latency_p50_ms=percentile(latencies, 0.5),
        latency_p95_ms=percentile(latencies, 0.95),
    )


def _columns(results: Sequence[QuestionResult], name: str) -> Mapping[str, list[float]]:
    """Metric -> its value for each question that has it."""
    columns: dict[str, list[float]] = {}
    for result in results:
        for metric, value in result.outcomes[name].metrics.items():
            columns.setdefault(metric, []).append(value)
    return columns


async def _unfindable(base: KnowledgeBase, asked: Sequence[Question], results: Sequence[QuestionResult]) -> list[str]:
    """A note of quotes that are nowhere: no configuration found them, and their own words do not, either."""
    lost: list[str] = []
    for question, result in zip(asked, results, strict=True):
        if not question.quotes or any(outcome.metrics["quoted@4000t"] for outcome in result.outcomes.values()):
            continue
        for quote in question.quotes:
            hits = await base.search(quote, 10)
            if not any(plain(quote) in plain(hit.chunk.text) for hit in hits):
                lost.append(question.id)
                break
    if not lost:
        return []
    return [f"questions with a quote that was found nowhere, check them: {', '.join(lost[:10])} ({len(lost)} in all)"]


def _part(text: str, share: float) -> str:
    return text[: int(len(text) * share)]


def _shown(hit: VectorSearchResult, relevant: bool, question: Question) -> Hit:
    chunk = hit.chunk
    text = " ".join(chunk.text.split())
    found = [at for quote in question.quotes if (at := text.find(" ".join(quote.split()))) > _SHOWN_BEFORE]
    start = min(found, default=_SHOWN_BEFORE) - _SHOWN_BEFORE  # a long chunk is shown where it answers
    place = ", ".join(f"{name} {place_text(value)}" for name, value in location_of(chunk.metadata).items())
    path = " > ".join(chunk.heading_path)
    return Hit(
        chunk_id=hit.chunk_id,
        document_id=hit.document_id,
        source=chunk.source,
        place=" · ".join(filter(None, (place, path))),
        score=hit.score,
        relevant=relevant,
        text=("… " if start else "") + text[start : start + _SHOWN_CHARACTERS],
    )


def _place_name(place: Mapping[str, object]) -> str:
    others = (f"{name} {place_text(value)}" for name, value in place.items() if name != "document")
    return ", ".join([str(place["document"]), *others])
