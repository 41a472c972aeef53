"""Fields of the keyword index."""

import pytest

from agent_rag import Chunk, TextBlock
from agent_rag.retrieval.analysis import FIELDS, GRAMS, index_tokens, query_weights
from agent_rag.retrieval.lexical import tokenize


def chunk(text: str, analysis: str | None = None, **fields: object) -> Chunk:
    given = {"source": "a", "chunk_index": 0, "total_chunks": 1, **fields}
    return Chunk(content=TextBlock(text=text), analysis=analysis, **given)  # type: ignore[arg-type]


def test_a_chunk_without_analysis_has_words_only() -> None:
    """As releases before indexed it."""
    old = chunk("Pumps run", title="Manual", heading_path=["Noise"])

    assert index_tokens(old) == tokenize(old.indexed_text) == ["manual", "nois", "pump", "run"]


def test_title_and_pairs_follow_the_words() -> None:
    """Title and headings count once more, each pair of neighbours is a token."""
    tokens = index_tokens(chunk("Pumps run loudly", FIELDS, title="Manual"))

    assert tokens == ["manual", "pump", "run", "loud", "t:manual", "p:manual_pump", "p:pump_run", "p:run_loud"]


def test_grams_are_parts_of_words_with_their_ends() -> None:
    """Of words as they are written; none of stop words, numbers, long keys and scripts without blanks."""
    tokens = index_tokens(chunk("the Pumpe 2024 in 泵房", GRAMS))

    assert [token for token in tokens if token.startswith("g:")] == ["g:_pum", "g:pump", "g:umpe", "g:mpe_"]
    assert not [token for token in index_tokens(chunk("x" * 50, GRAMS)) if token.startswith("g:")]
    assert "g:_v2_" in index_tokens(chunk("v2", GRAMS))


def test_scripts_without_blanks_have_no_pairs() -> None:
    """Their pieces overlap already; words of other scripts beside them have."""
    tokens = index_tokens(chunk("泵房 loud pump", FIELDS))

    assert tokens == ["泵", "房", "泵房", "loud", "pump", "p:loud_pump"]


def test_what_is_embedded_instead_has_no_title() -> None:
    """`embed_text` stands in for all."""
    assert index_tokens(chunk("shown", FIELDS, title="Manual", embed_text="hidden")) == ["hidden"]


def test_a_query_weighs_each_field() -> None:
    """Words 1, title .2, pairs .05, parts .2, times their counts."""
    assert query_weights("pumps pump", grams=False) == {"pump": 2.0, "t:pump": 0.4, "p:pump_pump": 0.05}
    assert query_weights("v2") == {"v2": 1.0, "t:v2": 0.2, "g:_v2_": 0.2}
    assert query_weights("?!") == {}


@pytest.mark.parametrize("text", ["Pumps run loudly", "Die Wasserpumpen laufen", "泵房 pump", "parseHttpHeader"])
def test_a_query_asks_for_what_is_indexed(text: str) -> None:
    """Every token of a text is asked for by the same text."""
    asked = query_weights(text)

    assert {token for token in index_tokens(chunk(text, GRAMS)) if token[:2] != "t:"} <= asked.keys()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Frau M\u00fcller", "muller"),
        ("Stra\u00dfe", "strasse"),
        ("\u0141\u00f3d\u017a", "lodz"),
        ("caf\u00e9", "cafe"),
        ("cafe", "caf\u00e9"),
        ("\u0391\u03b8\u03ae\u03bd\u03b1", "\u03b1\u03b8\u03b7\u03bd\u03b1"),
    ],
)
def test_accents_may_be_left_out(text: str, query: str) -> None:
    """A word is found without its accents, and one without them by a question that has some."""
    assert query_weights(query, grams=False).keys() & index_tokens(chunk(text, "words"))


def test_the_exact_word_weighs_more_than_the_one_without_accents() -> None:
    """A stemmer that takes accents away is not counted twice."""
    assert query_weights("caf\u00e9", grams=False) == {"caf\u00e9": 1.0, "cafe": 0.5, "t:caf\u00e9": 0.2, "t:cafe": 0.1}
    assert query_weights("M\u00fcller", grams=False, language="german") == {"mull": 1.0, "t:mull": 0.2}
    assert index_tokens(chunk("M\u00fcller")) == ["m\u00fcller"]


def test_a_correction_is_stemmed_as_the_collection_is() -> None:
    """What is asked for instead of a misspelt German word is what a German collection holds."""
    weights = query_weights(
        "h\u00e4uwern", grams=False, corrections={"h\u00e4uwern": "h\u00e4usern"}, language="german"
    )

    assert weights.keys() & index_tokens(chunk("H\u00e4usern", "words+german"))
