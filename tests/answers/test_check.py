"""An answer is compared with the passages that it cites, sentence by sentence."""

from __future__ import annotations

import pytest

from agent_rag import check_answer
from agent_rag.answers import Support
from agent_rag.documents import VectorSearchResult
from agent_rag.middleware import Citation
from agent_rag.middleware.core.citation import Passage, cite
from agent_rag.testing.knowledge import hit

PUMP = (
    "The heat pump Aurelis 9 was launched in March 2019. It weighs 85 kg. The warranty of seven years does not cover "
    "the filter. About 12,500 units are sold each year by Thermowerk."
)
GERMAN = "Die Garantie beträgt sieben Jahre. Verschleißteile sind nicht versichert. Graf Ottmar gründete 1184 Marbusch."
CHINESE = "该保修期为七年。过滤器不在保修范围内。公司由张伟于1998年在上海成立。"


def shown(number: int, text: str, *, heading: str = "") -> Citation:
    found: VectorSearchResult = hit(text, heading_path=[heading] if heading else [])
    return cite(Passage(best=found, text=text, hits=[found]), number)


def outcomes(answer: str, *texts: str) -> list[str]:
    return [
        one.outcome for one in check_answer(answer, [shown(at, text) for at, text in enumerate(texts, 1)]).sentences
    ]


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("It weighs 85 kg [1].", PUMP),
        ("According to the document, the warranty of 7 years does not cover the filter [1].", PUMP),
        ("- **About 12500 units** are sold each year by Thermowerk. [1]", PUMP),
        ("In March 2019 the heat pump Aurelis 9 was launched [1].", PUMP),
        ("The Aurelis 9 weighs 85 kg [1].", PUMP),
        ("It weighs 85 kg, and the warranty of seven years doesn't cover the filter [1].", PUMP),
        ("Laut Dokument beträgt die Garantie 7 Jahre [1].", GERMAN),
        ("Verschleissteile sind nicht versichert [1].", GERMAN),
        ("根据资料，该保修期为7年[1]。", CHINESE),
        ("过滤器不在保修范围内【1】。", CHINESE),
    ],
)
def test_quotes_and_light_edits_are_supported(sentence: str, text: str) -> None:
    """Numbers in words or digits, another order, a pronoun's name, two sentences in one, markup."""
    assert outcomes(sentence, text) == ["supported"]


@pytest.mark.parametrize(
    ("sentence", "text", "outcome"),
    [
        ("It weighs 58 kg [1].", PUMP, "number"),
        ("The warranty of nine years does not cover the filter [1].", PUMP, "number"),
        ("About 12,500 units are sold each year by Brandl [1].", PUMP, "name"),
        ("The warranty of seven years does cover the filter [1].", PUMP, "negation"),
        ("It never weighs 85 kg [1].", PUMP, "negation"),
        ("The garden opens at nine [1].", PUMP, "not_found"),
        ("Verschleißteile sind versichert [1].", GERMAN, "negation"),
        ("Graf Albert gründete 1184 Marbusch [1].", GERMAN, "name"),
        ("Die Garantie beträgt acht Jahre [1].", GERMAN, "number"),
        ("该保修期为九年[1]。", CHINESE, "number"),
        ("过滤器在保修范围内[1]。", CHINESE, "negation"),
        ("公司由李强于1998年在上海成立[1]。", CHINESE, "not_found"),
    ],
)
def test_what_differs_is_named(sentence: str, text: str, outcome: str) -> None:
    """A number, a name or a denial is enough; nothing of this kind passes."""
    assert outcomes(sentence, text) == [outcome]


def test_the_support_is_the_exact_span() -> None:
    """The characters of the passage, under its number."""
    (sentence,) = check_answer("It weighs 85 kg [2].", [shown(1, "Nothing."), shown(2, PUMP)]).sentences

    assert sentence.support == (Support(number=2, start=52, end=68, quote="It weighs 85 kg."),)
    assert PUMP[52:68] == "It weighs 85 kg."
    assert (sentence.verdict, sentence.numbers) == ("supported", (2,))


def test_numbers_that_nobody_showed_are_named() -> None:
    """Also beside one that was shown, and in a range; a year in brackets is no number of ours."""
    checked = check_answer("It weighs 85 kg [1][9]. So it is [3-4]. In [2024] it weighed 85 kg [1].", [shown(1, PUMP)])

    assert checked.never_shown == [3, 4, 9]
    assert [one.outcome for one in checked.sentences] == ["never_shown", "never_shown", "number"]
    assert checked.unsupported[0].remark == "[9] stands for nothing"


def test_a_sentence_without_a_number_is_uncited() -> None:
    """Unless the next marker of its line is its own too; what says it is named."""
    answer = "It weighs 85 kg. The warranty of seven years does not cover the filter [1].\nIt weighs 85 kg."

    checked = check_answer(answer, [shown(1, PUMP)])

    assert [one.outcome for one in checked.sentences] == ["supported", "supported", "uncited"]
    assert checked.sentences[2].support[0].quote == "It weighs 85 kg."
    assert checked.sentences[2].remark == "names no source; [1] says it"
    assert outcomes("The garden opens at nine.", PUMP) == ["uncited"]


def test_what_states_nothing_is_no_claim() -> None:
    """Headings, questions, announcements, courtesy, and what says that it was not found."""
    answer = (
        "## The heat pump\nHere is what I found:\nThanks!\nWhat else would you like to know about the pump?\n"
        "The price is not mentioned in the documents.\n```\ncode is 7\n```"
    )

    checked = check_answer(answer, [shown(1, PUMP)])

    assert {one.outcome for one in checked.sentences} == {"no_claim"}
    assert checked.unsupported == []


def test_a_citation_without_its_text_says_nothing() -> None:
    """Stored citations hold a place only, or the beginning of the text: what is not in it may be in the rest."""
    whole = shown(1, PUMP)
    stored = Citation.model_validate(whole.place())
    preview = Citation.model_validate_json(whole.model_dump_json())

    bare, begun = (check_answer("It weighs 58 kg [1].", [one]).sentences[0] for one in (stored, preview))
    found = check_answer("It weighs 85 kg [1].", [preview]).sentences[0]

    assert (bare.outcome, bare.verdict) == ("no_text", "open")
    assert begun.outcome == "no_text"
    assert found.outcome == "supported"


def test_names_of_the_heading_stand_for_pronouns_only() -> None:
    """ "It" is what the heading names; where the sentence has a name of its own, another one is another."""
    it = [shown(1, "It weighs 85 kg.", heading="Aurelis 9")]
    other = [shown(1, "The Brandl 3 weighs 85 kg.", heading="Aurelis 9")]

    assert check_answer("The Aurelis 9 weighs 85 kg [1].", it).sentences[0].outcome == "supported"
    assert check_answer("The Aurelis 9 weighs 85 kg [1].", other).sentences[0].outcome != "supported"


def test_places_are_those_of_the_answer() -> None:
    """Every sentence is found at its place, abbreviations and dates in one piece."""
    answer = "Dr. Melchers came on 4. Mai. It weighs 85 kg [1], e.g. here. 该保修期为七年。完。"

    sentences = check_answer(answer, [shown(1, PUMP)]).sentences

    assert [one.text for one in sentences] == [
        "Dr. Melchers came on 4. Mai.",
        "It weighs 85 kg [1], e.g. here.",
        "该保修期为七年。",
        "完。",
    ]
    assert all(answer[one.start : one.end].strip() == one.text for one in sentences)


def test_hostile_answers_end_soon() -> None:
    """Long runs of what patterns look for are linear work."""
    for text in ("[1" * 20_000, "a, " * 3_000 + "[1]", "1." * 20_000, "(" * 20_000, "和" * 3_000 + "[1]"):
        assert check_answer(text, [shown(1, PUMP)]).sentences
