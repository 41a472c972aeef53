"""What is indexed is what a reader sees; what is shown is what the author wrote."""

from __future__ import annotations

import pytest

from agent_rag.chunkers import AutoChunker
from agent_rag.documents import readable
from agent_rag.parsers import parser_for
from agent_rag.retrieval.lexical import tokenize


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Caf&eacute; &amp; bar &unknown; a&b", "Café & bar &unknown; a&b"),
        ('"sch\\u00f6n" C:\\users \\ud800', '"schön" C:\\users \\ud800'),
        ("Ver\u00adsi\u200bche\u2060rung \u0e01\u200b\u0e02", "Versicherung \u0e01\u200b\u0e02"),
        ("a long exam-\n  ple of it", "a long example exam-ple of it"),
        ("Berlin-\nMitte, 1-\n2 and -\nx", "Berlin-\nMitte, 1-\n2 and -\nx"),
    ],
)
def test_references_escapes_and_divided_words_are_words(written: str, read: str) -> None:
    """Entities, escapes, soft hyphens, line ends; what only looks like one stays."""
    assert readable(written) == read


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("a.md", "The Caf&eacute; opens", "Café"),
        ("a.yaml", 'word: "sch\\u00f6n"\n', "schön"),
        ("a.txt", "an in\u00adsur\u00adance", "insurance"),
        ("a.txt", "the whole insur-\nance covers", "insurance"),
    ],
)
async def test_a_word_is_found_however_it_is_written(name: str, text: str, word: str) -> None:
    """And shown as it was."""
    (chunk,) = await AutoChunker().chunk(await parser_for(name).parse(text.encode(), name))

    assert set(tokenize(word)) <= set(tokenize(chunk.indexed_text))
    assert chunk.text.strip() == text.strip()
