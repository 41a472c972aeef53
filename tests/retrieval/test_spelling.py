"""Words that are one typing error away."""

from agent_rag.retrieval.analysis import query_weights
from agent_rag.retrieval.spelling import correctable, corrections, spellings


def test_plain_words_of_five_letters_are_correctable() -> None:
    """No stop words, numbers, names in code, other scripts or short words."""
    assert correctable("Which pumqs would 2024 naïve max_v2 泵房 pump?") == {"pumqs": "pumq"}


def test_spellings_are_one_letter_away() -> None:
    """A letter left out, added, changed, or swapped with the next; by token, each with a word that has it."""
    near = spellings("pumqs")

    assert {near["pump"], near["pumq"]} == {"pumps", "pumq"}
    assert near["pum"] == "pums"
    assert "pumpki" not in near
    assert "valv" in spellings("vavle")


def test_the_most_frequent_neighbour_is_taken() -> None:
    """A word without any is left out."""
    frequency = {"valv": 3, "absent": 3}

    assert corrections(["vavle", "zzzzz"], frequency) == {"vavle": "valve"}
    assert corrections(["valus"], {"valu": 2, "vale": 9}) == {"valus": "vales"}


def test_a_correction_is_asked_for_beside_the_word() -> None:
    """With .7 of its weight, in title and words."""
    weights = query_weights("pumqs", grams=False, corrections={"pumqs": "pumps"})

    assert weights == {"pumq": 1.0, "pump": 0.7, "t:pumq": 0.2, "t:pump": 0.7 * 0.2}
