"""How much of a query a collection has, worked by hand."""

import math

import pytest

from agent_rag.documents import ChunkKey, Signals
from agent_rag.retrieval.coverage import seen_share
from agent_rag.retrieval.rank import hybrid


def test_a_share_is_one_of_idf_mass() -> None:
    """N = 10: idf of df 1 is ln(1 + 9.5 / 1.5) = 1.9924, of df 5 ln 2 = .6931; the unseen counts as df 1."""
    share = seen_share(["rare", "common", "unseen", "rare"], {"rare": 1, "common": 5}, 10)

    assert share == pytest.approx((1.9924 + math.log(2)) / (2 * 1.9924 + math.log(2)), abs=1e-4)


@pytest.mark.parametrize(
    ("terms", "frequencies", "documents", "share"),
    [([], {}, 5, 1.0), (["a"], {}, 0, 0.0), (["a"], {"a": 0}, 5, 0.0), (["a"], {"a": 9}, 5, 1.0)],
)
def test_the_ends_of_the_range(terms: list[str], frequencies: dict[str, int], documents: int, share: float) -> None:
    """No terms are all seen; none of them is none; a count above the number of chunks does no harm."""
    assert seen_share(terms, frequencies, documents) == share


def test_the_share_scales_the_keyword_weight_of_its_query() -> None:
    """Weight .8 with a share of .25 is .2: the first of the vectors wins over the first of the words."""
    words, vectors = ChunkKey("", "words", 0), ChunkKey("", "vectors", 0)
    semantic, keyword = [[(vectors, 0.9), (words, 0.1)]], [[(words, 5.0), (vectors, 1.0)]]
    signals = {key: Signals(semantic=0.5) for key in (words, vectors)}

    plain = hybrid(semantic, keyword, signals, keyword_weight=0.8)
    scaled = hybrid(semantic, keyword, signals, keyword_weight=0.8, seen=[0.25])

    assert plain == [(words, pytest.approx(0.8)), (vectors, pytest.approx(0.2))]
    assert scaled == [(vectors, pytest.approx(0.8)), (words, pytest.approx(0.2))]
