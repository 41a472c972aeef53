"""What texts are, as far as the keyword index has to know."""

import pytest

from agent_rag.retrieval.analysis import FIELDS, GRAMS, language_of
from agent_rag.retrieval.languages import FUNCTION_WORDS
from agent_rag.retrieval.lexical import tokenize
from agent_rag.retrieval.prose import Composition

TEXTS = {
    "dutch": "De pompen zijn sinds gisteren erg luid, dus kijk naar de kleppen van het apparaat.",
    "french": "Les pompes sont très bruyantes depuis hier, et il faut vérifier les vannes de l'appareil.",
    "german": "Die Pumpen sind seit gestern sehr laut, also bitte die Ventile der Anlage prüfen.",
    "italian": "Le pompe sono molto rumorose da ieri, quindi controllare le valvole della macchina.",
    "portuguese": "As bombas estão muito barulhentas desde ontem, por isso verifique as válvulas da máquina.",
    "romanian": "Pompele sunt foarte zgomotoase de ieri, așa că verificați supapele de la mașină.",
    "spanish": "Las bombas están muy ruidosas desde ayer, por lo que hay que revisar las válvulas del equipo.",
    "swedish": "Pumparna har varit mycket höga sedan i går, så kontrollera ventilerna på maskinen.",
    "turkish": "Pompalar dünden beri çok gürültülü ve bu nedenle vanaları kontrol etmek için bir kişi gerek.",
}


@pytest.mark.parametrize("language", sorted(FUNCTION_WORDS))
def test_languages_are_told_by_their_function_words(language: str) -> None:
    """Each gets parts of words and its own stemmer."""
    fields = Composition([TEXTS[language]]).fields()

    assert fields == f"{GRAMS}+{language}"
    assert language_of(fields) == language


def test_everything_else_counts_as_english() -> None:
    """Prose without parts of words, code with them; a mixture of two languages keeps English stems."""
    english = "The pumps are loud, so please check the valves and the seals of the unit."

    assert Composition([english]).fields() == FIELDS
    assert Composition(["x = parse(header); return x"]).fields() == GRAMS
    assert Composition([english, TEXTS["german"]]).language == "english"
    assert Composition([TEXTS["german"]]).fields(grams=False) == f"{FIELDS}+german"


def test_words_are_stemmed_in_a_language() -> None:
    """Endings and function words are those of the language; other scripts have their own."""
    assert tokenize("Die Häuser und Häusern", "german") == ["haus", "haus"]
    assert tokenize("las válvulas", "spanish") == ["valvul"]
    assert tokenize("die die", "german") == ["die", "die"]
    assert tokenize("насосы", "german") == tokenize("насосы")
