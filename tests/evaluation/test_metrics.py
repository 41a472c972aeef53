"""The measures: by hand, and against ir-measures (trec_eval), which was written by others."""

from __future__ import annotations

import random

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, R, nDCG

from agent_rag.content import TextBlock
from agent_rag.documents import Chunk, VectorSearchResult
from agent_rag.evaluation import Question, ndcg, paired_differences, recall, reciprocal_rank
from agent_rag.evaluation.matching import Target, overlap, plain
from agent_rag.evaluation.metrics import covered_share, fitting, percentile


def hit(document: str, text: str = "", index: int = 0, **metadata: object) -> VectorSearchResult:
    chunk = Chunk(content=TextBlock(text=text), source=document, chunk_index=index, total_chunks=9, metadata=metadata)
    return VectorSearchResult(score=1.0, document_id=document, chunk=chunk)


def test_agrees_with_trec_eval_on_random_rankings() -> None:
    """Recall, reciprocal rank and nDCG with grades, for 300 random rankings of documents."""
    chance = random.Random(5)
    for case in range(300):
        names = [f"d{number}" for number in range(chance.randint(1, 30))]
        grades = {name: chance.randint(1, 3) for name in chance.sample(names, chance.randint(1, len(names)))}
        ranking = chance.sample(names, chance.randint(0, len(names)))
        question = Question(question="q", documents=grades)
        target = Target(question, {name: name for name in grades})

        gains = target.gains([hit(name) for name in ranking], [""] * len(ranking))

        expected = {"R@1": 0.0, "R@5": 0.0, "nDCG@10": 0.0, "RR@10": 0.0}
        if ranking:
            run = [ir_measures.ScoredDoc("q", name, -float(at)) for at, name in enumerate(ranking)]
            judged = [ir_measures.Qrel("q", name, grade) for name, grade in grades.items()]
            measured = ir_measures.calc_aggregate([R @ 1, R @ 5, nDCG @ 10, RR @ 10], judged, run)
            expected = {str(name): value for name, value in measured.items()}
        ours = {
            "R@1": recall(gains, target.wanted, 1),
            "R@5": recall(gains, target.wanted, 5),
            "nDCG@10": ndcg(gains, target.wanted),
            "RR@10": reciprocal_rank(gains),
        }
        assert ours == pytest.approx(expected), (case, ranking, grades)


def test_quotes_in_one_chunk_need_one_hit() -> None:
    """Both in the first hit is as good as it gets; one behind another hit is not."""
    # Ideal of the second: one hit each, 1 + 1/log2(3) = 1.6309; found: 1 + 1/log2(4) = 1.5.
    assert ndcg([[1, 1], []], [1, 1]) == 1.0
    assert ndcg([[1], [], [1]], [1, 1]) == pytest.approx(1.5 / 1.6309, abs=1e-4)
    assert ndcg([], [1]) == 0.0
    assert (recall([[1], [], [1]], [1, 1, 1], 2), reciprocal_rank([[], [1]])) == (1 / 3, 0.5)


def test_a_quote_cut_by_the_edge_of_chunks_counts_by_its_parts() -> None:
    """The end of one chunk, the beginning of the next, a chunk inside of the quote; chance overlaps do not count."""
    quote = plain("The gateway timeout is thirty seconds unless set.")

    assert overlap(quote, plain(f"Before. {quote} After.")) == (0, len(quote))
    assert overlap(quote, plain("Before. The gateway  timeout is")) == (0, 22)
    assert overlap(quote, plain("thirty seconds unless set. After.")) == (23, 49)
    assert overlap(quote, plain("timeout is thirty")) == (12, 29)
    assert overlap(quote, plain("Something else, the gate")) is None
    assert covered_share([49], [[(0, 22), (12, 29)]]) == pytest.approx(29 / 49)
    assert covered_share([10, 30], [[(0, 10)], []]) == 0.25


def test_compared_text_is_without_case_blanks_and_typography() -> None:
    """What a person copies out of a viewer is found in the file."""
    assert plain("It’s “thirty”\n  Seconds — ﬁne") == 'it\'s "thirty" seconds - fine'


def test_a_quote_counts_once_nine_tenths_of_it_are_there() -> None:
    """It is gained by the hit that completes it, only in the documents that the question names."""
    quote = "The gateway timeout is thirty seconds unless set."
    question = Question(question="q", documents={"a": 1}, quotes=[quote])
    hits = [hit("b", quote), hit("a", quote[:24]), hit("a", quote[22:], 1), hit("a", quote, 2)]
    texts = [plain(one.chunk.text) for one in hits]

    target = Target(question, {"a": "a"})

    assert target.gains(hits, texts) == [[], [], [1], []]
    assert target.covered(hits[:2], texts[:2]) == pytest.approx(24 / 49)


def test_places_are_equal_values_or_overlapping_ranges() -> None:
    """A page within pages, lines that overlap; another document or sheet is another place."""
    places = [{"document": "a", "page": 4}, {"document": "a", "lines": [10, 20]}, {"document": "b", "sheet": "Sums"}]
    question = Question.model_validate({"question": "q", "places": places})
    hits = [
        hit("a", page=5),
        hit("b", page=4),
        hit("a", pages=[3, 4]),
        hit("a", lines=[20, 30]),
        hit("b", sheet="Other"),
        hit("b", sheet="Sums"),
    ]

    target = Target(question, {"a": "a", "b": "b"})

    assert target.gains(hits, [""] * 6) == [[], [], [1], [1], [], [1]]


def test_a_budget_cuts_the_hit_that_reaches_beyond() -> None:
    """Two whole hits and a quarter of the third have 100 tokens."""
    assert fitting([50, 40, 40], 100) == (2, 0.25)
    assert fitting([200], 100) == (0, 0.5)
    assert fitting([50], 100) == (1, 0.0)
    assert (percentile([3, 1, 2], 0.5), percentile([3, 1, 2], 0.95)) == (2, 3)


def test_the_interval_of_a_difference_is_that_of_its_mean() -> None:
    """Of 400 differences with mean .1 and deviation 1 the interval is about .1 +- 1.96 / 20."""
    values = np.random.default_rng(3).normal(0, 1, 400)
    values += 0.1 - values.mean()

    found = paired_differences({"m": values.tolist()}, {"m": [0.0] * 400})["m"]

    spread = 1.96 * values.std() / 20
    assert found.mean == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((0.1 - spread, 0.1 + spread), abs=0.01)
    assert (found.better + found.worse, found.questions, found.significant) == (400, 400, found.low > 0)
    assert str(paired_differences({"m": [1.0, 1.0]}, {"m": [0.5, 0.5]})["m"]) == "+0.500 [+0.500, +0.500]*"


def test_equal_lists_differ_by_nothing() -> None:
    """And lists of different questions are refused."""
    same = paired_differences({"m": [0.2, 0.4]}, {"m": [0.2, 0.4]})["m"]

    assert (same.mean, same.low, same.high, same.significant) == (0.0, 0.0, 0.0, False)
    with pytest.raises(ValueError, match="2 values against 1"):
        paired_differences({"m": [0.2, 0.4]}, {"m": [0.2]})


def test_chance_is_found_significant_in_one_of_twenty() -> None:
    """Of 200 differences of pure noise about 5 % exclude 0: the interval is neither too narrow nor too wide."""
    noise = np.random.default_rng(7).normal(0, 1, (200, 150))

    found = paired_differences(
        {str(row): values.tolist() for row, values in enumerate(noise)}, {str(row): [0.0] * 150 for row in range(200)}
    )

    assert 3 <= sum(one.significant for one in found.values()) <= 18
