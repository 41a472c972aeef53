"""Configurations compared on questions: figures by hand, changes that do harm, other indexes, what is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_rag import Chunk, Document, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock, TextSource, ingest
from agent_rag import sync as sync_source
from agent_rag.documents import VectorSearchResult
from agent_rag.errors import ConfigurationError, QuestionError
from agent_rag.evaluation import (
    Configuration,
    Difference,
    EvaluationReport,
    Question,
    configuration_from,
    evaluate,
    paired_differences,
)
from agent_rag.evaluation.page import page_of
from agent_rag.retrieval import RerankerBase
from agent_rag.retrieval.lexical import tokenize
from agent_rag.retrieval.rerank import Order
from agent_rag.testing import HashEmbedding
from tests.shared import needs_shared, retrieval_set

TEXTS = {
    "gateway.md": "# Gateway\n\nThe gateway timeout is thirty seconds.",
    "canteen.md": "# Canteen\n\nThe canteen opens at noon and closes at two.",
    "parking.md": "# Parking\n\nVisitors park behind the tower, not in front of the gateway.",
}


@pytest.fixture
async def base() -> AsyncIterator[KnowledgeBase]:
    """Three short documents."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("notes", "Notes.", HashEmbedding(), store, "notes")
        await sync_source(kb, TextSource(TEXTS))
        yield kb


async def test_figures_are_means_over_the_questions(base: KnowledgeBase) -> None:
    """One found first, one second, one that no document answers."""
    questions = [
        Question(question="gateway timeout", documents={"gateway.md": 1}),
        Question(question="gateway timeout seconds", documents={"parking.md": 1}),
        Question(question="canteen", documents={"nowhere.md": 1}),
    ]

    report = await evaluate(base, questions, [Configuration(name="words", mode="keyword")])

    # nDCG: 1, 1/log2(3) = .6309 and 0.
    figures = report.baseline.metrics
    assert figures["recall@1"] == pytest.approx(1 / 3)
    assert figures["recall@3"] == pytest.approx(2 / 3)
    assert figures["mrr@10"] == pytest.approx(0.5)
    assert figures["ndcg@10"] == pytest.approx((1 + 0.6309) / 3, abs=1e-4)
    assert "quoted@5" not in figures
    assert report.notes == [f"1 documents are not in the knowledge base: 'nowhere.md' (question {questions[2].id})"]
    assert [hit.relevant for hit in report.results[1].outcomes["words"].hits] == [False, True]


async def test_quotes_that_are_nowhere_and_answers_alone_are_told(base: KnowledgeBase) -> None:
    """A quote with a mistake is a mistake of the file, not of the search."""
    wrong = Question(question="canteen?", quotes=["The canteen never opens on a Sunday in May."])
    questions = [
        Question(question="when does the canteen open?", quotes=["opens at noon"]),
        wrong,
        Question(question="who?", answer="nobody"),
    ]

    report = await evaluate(base, questions)

    assert report.questions == 2
    assert report.baseline.metrics["quoted@5"] == 0.5
    assert report.notes == [
        f"questions with a quote that was found nowhere, check them: {wrong.id} (1 in all)",
        "1 questions have an answer only, nothing to find; left out",
    ]


async def test_a_name_that_several_documents_end_with_is_refused() -> None:
    """The question is named; a longer end of the path is enough."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("notes", "Notes.", None, store, "notes")
        await sync_source(kb, TextSource({"a/x.md": "one", "b/x.md": "two"}))

        with pytest.raises(QuestionError, match=r"question .* \('one'\): the document 'x.md' is one of 2"):
            await evaluate(kb, [Question(question="one", documents={"x.md": 1})])
        report = await evaluate(kb, [Question(question="one", documents={"a/x.md": 1})])

    assert report.baseline.metrics["recall@1"] == 1.0


class Backwards(RerankerBase):
    """Turns the order around."""

    async def order(self, query: str, candidates: Sequence[VectorSearchResult], *, top_n: int) -> Order:
        return range(len(candidates) - 1, -1, -1)


async def test_modes_sizes_models_and_rerankers_stand_in_one_run(base: KnowledgeBase, tmp_path: Path) -> None:
    """What changes the index is read anew from the corpus; each configuration says what it changes."""
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text + "\n\n" + "More of the same follows here. " * 20, "utf-8")
    questions = [Question(question="when does the canteen open?", quotes=["The canteen opens at noon"])]

    report = await evaluate(
        base,
        questions,
        [
            Configuration(name="now"),
            Configuration(name="one hit", top_k=1, mode="keyword"),
            Configuration(name="backwards", reranker=Backwards()),
            Configuration(name="small", chunk_size=100, overlap=10),
            Configuration(name="model", embedding=HashEmbedding(32)),
        ],
        corpus=[tmp_path],
    )

    chunks = {one.name: one.chunks for one in report.configurations}
    assert chunks["now"] == chunks["one hit"] == chunks["backwards"] == 3
    assert chunks["small"] > chunks["model"] >= 3
    assert report.configurations[2].metrics["mrr@10"] < 1 == report.baseline.metrics["mrr@10"]
    assert report.configurations[3].settings == {"chunk_size": 100, "overlap": 10}
    assert report.configurations[2].settings == {"reranker": "Backwards"}
    assert len(report.results[0].outcomes["one hit"].hits) == 1


async def test_an_index_is_made_anew_from_what_is_stored(tmp_path: Path) -> None:
    """From the folder that it came from, without files that were left out or came later."""
    for name, text in {**TEXTS, "draft.md": "The canteen opens at noon, said the draft."}.items():
        (tmp_path / name).write_text(text, "utf-8")
    async with MemoryStore() as store:
        kb = KnowledgeBase("notes", "Notes.", HashEmbedding(), store, "notes")
        await ingest(kb, tmp_path, exclude=["draft.md"])
        (tmp_path / "later.md").write_text("The canteen moved.", "utf-8")

        report = await evaluate(
            kb,
            [Question(question="canteen", documents={"canteen.md": 1})],
            [Configuration(name="now"), Configuration(name="600", chunk_size=600)],
        )

    assert [one.chunks for one in report.configurations] == [3, 3]


async def test_an_index_cannot_be_made_from_nothing(base: KnowledgeBase) -> None:
    """Texts in memory cannot be read again; the message says what to pass."""
    ways = [Configuration(name="now"), Configuration(name="600", chunk_size=600)]

    with pytest.raises(ConfigurationError, match="--corpus PATH"):
        await evaluate(base, [Question(question="canteen", documents={"canteen.md": 1})], ways)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a configuration is empty"),
        ("mode", "'mode' is no setting"),
        ("colour=red", "'colour=red' is no setting"),
        ("top_k=many", "'many' is no int"),
        ("top_k=0", "top_k is 0"),
        ("mode=best", "mode 'best' is unknown"),
        ("fusion=best", "fusion 'best' is unknown"),
        ("keyword_weight=2", "keyword_weight is 2.0"),
    ],
)
def test_a_wrong_configuration_says_what_is_possible(text: str, told: str) -> None:
    """One setting after the other."""
    with pytest.raises(ConfigurationError, match=told):
        configuration_from(text)


def test_a_configuration_is_written_in_one_line() -> None:
    """Numbers are numbers; it is called by its settings, or as it says."""
    assert configuration_from("mode=keyword, top_k=5") == Configuration(
        name="mode=keyword,top_k=5", mode="keyword", top_k=5
    )
    assert configuration_from("name=small,chunk_size=600").name == "small"


@pytest.mark.parametrize(
    ("ways", "told"),
    [
        ([Configuration(name="a"), Configuration(name="a")], "two configurations are called 'a'"),
        ([Configuration(name="a", reranker="best")], "reranker 'best' is unknown"),
        ([Configuration(name="a", chunk_size=100, overlap=100)], "overlap 100 is not smaller"),
    ],
)
async def test_configurations_that_cannot_be_built(
    base: KnowledgeBase, tmp_path: Path, ways: list[Configuration], told: str
) -> None:
    """They are refused before a question is asked."""
    with pytest.raises(ConfigurationError, match=told):
        await evaluate(base, [Question(question="canteen", documents={"canteen.md": 1})], ways, corpus=[tmp_path])


async def test_a_failing_reranker_is_told(base: KnowledgeBase) -> None:
    """The search's order stays, and the report says how often."""

    class Broken(RerankerBase):
        async def order(self, query: str, candidates: Sequence[VectorSearchResult], *, top_n: int) -> Order:
            raise RuntimeError("out of order")

    report = await evaluate(
        base,
        [Question(question="canteen", documents={"canteen.md": 1})],
        [Configuration(name="broken", reranker=Broken())],
    )

    assert report.baseline.metrics["recall@1"] == 1.0
    assert report.notes == ["broken: the reranker failed 1 times, there the order of the search stayed"]


async def test_the_page_is_whole_and_harmless(base: KnowledgeBase) -> None:
    """It shows both sides of a change, and runs or loads nothing of what documents and questions say."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("<b>", "Notes.", HashEmbedding(), store, "notes")
        await sync_source(kb, TextSource({**TEXTS, "x.md": "canteen <script>alert(1)</script> <img src=x>"}))
        questions = [
            Question(question="<script>canteen opens noon", quotes=["opens at noon"]),
            Question(question="parking", quotes=["never there"]),
        ]
        ways = [Configuration(name="now", mode="keyword"), Configuration(name="turned", reranker=Backwards())]
        report = await evaluate(kb, questions, ways)

    page = page_of(report, metric="recall@1")

    assert "<h1>Evaluation of &lt;b&gt;</h1>" in page
    assert "turned: 0 better, 1 worse, 1 the same by recall@1" in page
    assert page.count("<script>") == page.count("<img") == page.count("http:") == page.count("https:") == 0
    assert "1 questions found nothing among the first ten hits" in page


# --- two changes that do harm ---


async def difference(kb: KnowledgeBase, other: KnowledgeBase, questions: list[Question]) -> Difference:
    """What `other` gains in nDCG@10 on the same questions."""
    before, after = await evaluate(kb, questions), await evaluate(other, questions)
    ours, theirs = after.values("as it is", "ndcg@10"), before.values("as it is", "ndcg@10")
    return paired_differences({"ndcg@10": list(ours.values())}, {"ndcg@10": list(theirs.values())})["ndcg@10"]


class WrongStopList(KnowledgeBase):
    """Leaves words out of questions, as a stop list does that was made of a collection's frequent words."""

    words: frozenset[str] = frozenset()

    async def search(self, queries: Any, *arguments: Any, **options: Any) -> list[VectorSearchResult]:
        left = [word for word in str(queries).split() if not set(tokenize(word)) & self.words]
        return await super().search(" ".join(left), *arguments, **options)


@pytest.fixture(scope="module")
def squad() -> tuple[dict[str, str], list[Question]]:
    """The documents of xquad_en and 400 of its questions."""
    corpus, queries, relevant = retrieval_set("xquad_en")
    asked = [Question(question=text, id=key, documents=relevant[key]) for key, text in queries.items()]
    return corpus, asked[:400]


@needs_shared
async def test_two_wrong_changes_are_significant_losses(squad: tuple[dict[str, str], list[Question]]) -> None:
    """A keyword weight of .1, and a stop list with words that mean something; the same twice is no difference."""
    corpus, questions = squad
    async with MemoryStore() as store:
        kb = KnowledgeBase("x", "x", LocalEmbeddingModel(), store, "x")
        await kb.replace_documents([
            Document(document_id=name, chunks=[
                Chunk(content=TextBlock(text=text), source=name, chunk_index=0, total_chunks=1)
            ]) for name, text in corpus.items()
        ])  # fmt: skip
        wrong_words = WrongStopList("x", "x", kb.embedding_model, store, "x")
        found_in = Counter(token for text in corpus.values() for token in set(tokenize(text)))
        wrong_words.words = frozenset(token for token, count in found_in.items() if count > 10)

        report: EvaluationReport = await evaluate(
            kb, questions, [Configuration(name="now"), Configuration(name="wrong weight", keyword_weight=0.1)]
        )
        stop_list = await difference(kb, wrong_words, questions)
        same = await difference(kb, kb, questions)

    weight = report.configurations[1].differences["ndcg@10"]
    assert (weight.significant, weight.mean < 0) == (True, True)
    assert (stop_list.significant, stop_list.mean < 0) == (True, True)
    assert (same.significant, same.mean) == (False, 0.0)
