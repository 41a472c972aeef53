"""Which stored chunks may hold a part of a text: no document with an occurrence is passed over, and few others stay."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_rag.content import DataBlock, TextBlock, URLSource
from agent_rag.documents import Chunk
from agent_rag.errors import PatternError
from agent_rag.retrieval.pattern import TextPattern
from agent_rag.stores.engine.candidates import Candidates
from agent_rag.stores.sqlite.scanning import TEXT_BEGINS

LETTERS = st.sampled_from(
    [*list('aAbiIsſİıßKKµé-. \n"}\\,\x01'), "é", "́", "Σ", "ς", "σ", "ſt", "한", "我", "🙂", "abcabc", "\ud800"]
)
STORED = LETTERS.filter(lambda letter: letter != "\ud800")


def bodies_of(texts: list[str]) -> list[bytes]:
    """As the store writes them."""
    return [body(TextBlock(text=text)) for text in texts]


def body(content: TextBlock | DataBlock) -> bytes:
    return Chunk(content=content, source="a.txt", chunk_index=0, total_chunks=1).model_dump_json().encode()


def promising(pattern: TextPattern, texts: list[str]) -> set[int]:
    return set(Candidates(pattern, TEXT_BEGINS)(bodies_of(texts)))


@given(
    st.lists(st.lists(STORED, max_size=30).map("".join), min_size=1, max_size=5),
    st.lists(LETTERS, min_size=1, max_size=6).map("".join),
    st.booleans(),
    st.booleans(),
    st.data(),
)
@settings(max_examples=600)
def test_no_document_with_an_occurrence_is_passed_over(
    documents: list[str], pattern: str, ignore_case: bool, ignore_accents: bool, data: st.DataObject
) -> None:
    """Also where it stands across several chunks."""
    try:
        wanted = TextPattern(pattern, ignore_case=ignore_case, ignore_accents=ignore_accents)
    except PatternError:
        return
    chunks: list[tuple[int, str]] = []
    for number, text in enumerate(documents):
        start = 0
        while start < len(text):
            end = min(len(text), start + data.draw(st.integers(1, 7)))
            chunks.append((number, text[start:end]))
            start = max(start + 1, end - data.draw(st.integers(0, 4))) if end < len(text) else end

    found = {chunks[place][0] for place in promising(wanted, [text for _, text in chunks])}

    assert {number for number, text in enumerate(documents) if wanted.spans(text)} <= found


EXPRESSIONS = st.recursive(
    st.sampled_from(
        ["a", "k", "ab", "\u212a", "é", "ß", ".", r"\w", "[ab]", r"\b", "^", "$", " ", r"\\", '"', "(?=a)", "(?!b)"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(
            inner, st.sampled_from(["({})", "(?:{})*", "(?:{})+", "(?:{})?", "(?:{}){{2}}", "(?i:{})", "(?:{}|b)"])
        ).map(lambda pair: pair[1].format(pair[0])),
    ),
    max_leaves=5,
)


@given(st.lists(STORED, min_size=1, max_size=20).map("".join), EXPRESSIONS, st.booleans(), st.integers(1, 7))
@settings(max_examples=600)
def test_no_occurrence_of_an_expression_is_passed_over(
    text: str, expression: str, ignore_case: bool, size: int
) -> None:
    """Whatever of it must stand in each, it is looked for as it is matched."""
    wanted = TextPattern(expression, regex=True, ignore_case=ignore_case) if expression.strip() else TextPattern("x")
    chunks = [text[start : start + size] for start in range(0, len(text), size)]

    assert bool(wanted.spans(text)) <= bool(promising(wanted, chunks))


def test_what_an_expression_must_hold_is_looked_for() -> None:
    """Also behind repetitions and in groups; not what may be left out, nor what has rules of its own."""

    def words(expression: str) -> list[str]:
        return TextPattern(expression, regex=True).words

    assert words(r"\b(ERR)-\d{3,}x+ (?:end|stop)$") == ["ERR-", "x"]
    assert words(r"(?:ab)+c?d{2}e*(?>fg)") == ["ab", "d", "fg"]
    assert words(r"one|two") == words("(?i:ab)") == words("(") == words("a*") == []
    assert TextPattern("(?i)ab", regex=True, ignore_case=False).words == []


@pytest.mark.parametrize(
    ("front", "back"), [("ERR-", "4711"), ("Prüfu", "ng"), ("规", "则"), ("ÄÖ", "Ü"), ('say "num', 'ber"')]
)
def test_chunks_that_hold_no_part_are_left_out(front: str, back: str) -> None:
    """In any script; the second side of a border is kept where the first one fits it."""
    more = " and more words of no meaning"
    texts = [f"“nothing”{more}", f"Größe{more}", f"so: {front}{back}{more}", f"{more} {front}", f"{back}{more}"]

    assert promising(TextPattern((front + back).swapcase()), [*texts, f"{back}{more}"]) == {2, 4}
    assert promising(TextPattern(front + back, ignore_case=False), texts[:3]) == {2}


def test_a_letter_beyond_ascii_is_found_by_its_like() -> None:
    """The Kelvin sign is a k for `re`, and no character without another case is like another one."""
    assert promising(TextPattern("kelvin"), ["5 \u212aELVIN", "celsius"]) == {0}
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        lower = letter.lower()
        if len(lower) == 1 and lower != letter and not lower.isascii():
            assert lower != lower.upper() or lower != lower.casefold(), hex(code)


def test_chunks_without_text_are_kept() -> None:
    """Where a caption stands in them is not known here."""
    picture = body(DataBlock(source=URLSource(url="http://host/a.png", media_type="image/png"), caption="a scan"))

    assert list(Candidates(TextPattern("zzz"), TEXT_BEGINS)([*bodies_of(["a longer text"]), picture])) == [1]
    assert list(Candidates(TextPattern("z*", regex=True), TEXT_BEGINS)([*bodies_of(["a longer text"]), picture])) == [
        0,
        1,
    ]
