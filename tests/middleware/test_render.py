"""What the model reads, to the character: what is joined, what fits, what is cut."""

from __future__ import annotations

from typing import Any

import pytest

from agent_rag.content import ContentBlock, TextBlock
from agent_rag.documents import VectorSearchResult
from agent_rag.middleware.core.citation import Passage
from agent_rag.middleware.core.render import Layout, Rendered, approximate_tokens, passages_of, render
from agent_rag.testing import knowledge as testing


def hit(text: str | ContentBlock, index: int = 0, document_id: str = "d", **fields: Any) -> VectorSearchResult:
    return testing.hit(text, index=index, document_id=document_id, **fields)


def joined(*hits: VectorSearchResult) -> list[tuple[str, tuple[int, int] | None]]:
    return [(passage.text, passage.span) for passage in passages_of(hits, {}, merge=True)]


class TestNeighbours:
    """Chunks that follow each other become one passage."""

    @pytest.mark.parametrize(
        ("second", "text"),
        [((5, 8), "01234567"), ((3, 8), "01234567"), ((7, 10), "01234\n789"), ((1, 4), "01234")],
        ids=["adjacent", "overlap", "gap", "inside"],
    )
    def test_spans_say_what_is_repeated(self, second: tuple[int, int], text: str) -> None:
        """The second chunk's own text follows; a line break stands for what is missing between them."""
        whole = "0123456789"
        first = hit(whole[0:5], 0, span=(0, 5))

        (found,) = joined(first, hit(whole[slice(*second)], 1, span=second))

        assert found == (text, (0, max(5, second[1])))

    @pytest.mark.parametrize(("size", "parts"), [(11, 2), (12, 1), (1_000, 1), (1_001, 2)])
    def test_without_spans_an_overlap_of_12_to_1000_characters_joins(self, size: int, parts: int) -> None:
        """Fewer may be chance, more is not looked for."""
        shared = "".join(chr(0x4E00 + number) for number in range(size))
        for before in ("one", "one "):
            found = joined(hit(f"{before}{shared}", 0), hit(f"{shared} two", 1))

            assert len(found) == parts
            if parts == 1:
                assert found == [(f"{before}{shared} two", None)]

    def test_one_span_alone_says_nothing(self) -> None:
        """Neither chunk is joined to one without a place in the text."""
        assert len(joined(hit("one", 0, span=(0, 3)), hit("two", 1))) == 2
        assert len(joined(hit("one", 0), hit("two", 1, span=(3, 6)))) == 2

    def test_one_span_and_an_overlap_join_by_the_overlap(self) -> None:
        """Whichever of the two has the span; the passage has one only where its first chunk has."""
        shared = "and it is repeated"
        first, second = f"one {shared}", f"{shared} two"

        assert joined(hit(first, 0), hit(second, 1, span=(4, 26))) == [(f"one {shared} two", None)]
        assert [text for text, _ in joined(hit(first, 0, span=(0, 22)), hit(second, 1))] == [f"one {shared} two"]

    def test_three_in_a_row_are_one(self) -> None:
        """Each is compared with the one before it; other sections, gaps and documents stay apart."""
        row = [hit(text, index, span=(index, index + 1)) for index, text in enumerate("abc")]
        apart = [
            hit("x", 4, span=(4, 5)),
            hit("y", 5, span=(0, 1), section_index=1),
            hit("z", 6, "e", span=(6, 7), section_index=1),
        ]

        assert joined(*row, *apart) == [("abc", (0, 3)), ("x", (4, 5)), ("y", (0, 1)), ("z", (6, 7))]

    def test_the_passage_stands_where_its_best_hit_stood(self) -> None:
        """In rank order, whatever the order in the document."""
        later, other, earlier = hit("b", 1, span=(1, 2)), hit("o", 0, "o"), hit("a", 0, span=(0, 1))

        assert [text for text, _ in joined(later, other, earlier)] == ["ab", "o"]
        assert [text for text, _ in joined(other, later, earlier)] == ["o", "ab"]


def passages(*texts: str) -> list[Passage]:
    return passages_of([hit(text, 0, f"d{number}") for number, text in enumerate(texts)], {}, merge=False)


def shown(found: list[Passage], most: int, **options: Any) -> Rendered:
    """Rendered with characters as tokens, numbered from 4."""
    numbers = range(4, 4 + len(found))
    return render(found, list(numbers), Layout(max_tokens=most, count=len, **options))


class TestBudget:
    """`max_tokens` is the most, and all of it is used."""

    def test_what_fits_exactly_is_shown_and_one_less_is_not(self) -> None:
        """From seven passages down to one: a budget of just the length shows as many, one below it one fewer."""
        found = passages(*(f"passage {number} " * 12 for number in range(7)))
        result = shown(found, 100_000)

        for kept in range(6, 0, -1):
            exact = shown(found, len(result.text))
            result = shown(found, len(result.text) - 1)
            assert (len(exact.shown), exact.dropped) == (kept + 1, 6 - kept)
            assert (len(result.shown), result.dropped) == (kept, 7 - kept)

    def test_a_passage_is_cut_to_the_last_character_that_fits(self) -> None:
        """And keeps its own number."""
        found = passages("x" * 300, "another")
        budget = 260

        result = shown(found, budget)

        (cut,) = result.shown
        kept = cut.text.count("x")
        assert cut.text == "x" * kept + f" […cut: {300 - kept} more characters]"
        assert len(result.text) == budget
        assert "[4]" in result.text
        assert result.dropped == 1
        assert "(1 further hit left out to fit the context budget.)" in result.text

    def test_nothing_fits_in_nothing(self) -> None:
        """Neither a passage nor a part of one."""
        assert shown(passages("x" * 300), 10).shown == []
        assert shown([], 10).shown == []
        assert shown([], 10).dropped == 0

    @pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
    def test_a_token_is_four_bytes(self, size: int, tokens: int) -> None:
        """Rounded up."""
        assert approximate_tokens("x" * size) == tokens


def test_pictures_stand_behind_their_notes() -> None:
    """As blocks where the layout has images, else as notes in one text."""
    image = hit(testing.picture("chart.png"), 0, "i")
    found = passages_of([hit("before", 0, "a"), image, hit("after", 0, "b")], {}, merge=True)

    blocks = shown(found, 10_000, images=True).blocks
    plain = shown(found, 10_000)

    before, shown_image, after = blocks
    assert isinstance(before, TextBlock)
    assert isinstance(after, TextBlock)
    assert shown_image is image.chunk.content
    assert ("before" in before.text, "after" in after.text) == (True, True)
    assert [block.type for block in plain.blocks] == ["text"]
    assert "\x00" not in plain.text + before.text
