"""The one table renderer."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_rag.parsers.tables import JSON_MARKER, check_table_format, render_table

_CELLS = st.text(alphabet="ab|\\ \n\r\u2028é漢", max_size=6)


def test_markdown_has_a_header_a_ruler_and_a_final_newline() -> None:
    """The first row is the header."""
    text = render_table([["a", "b"], ["1", "2"]], "markdown")

    assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_a_row_longer_than_the_header_keeps_its_cells() -> None:
    """The longest row sets the width; the header is filled up."""
    text = render_table([["a"], ["1", "2", "3"], ["4", "5"]], "markdown")

    assert text == "| a |  |  |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| 4 | 5 |  |\n"


def test_a_cell_stays_on_its_line_and_in_its_column() -> None:
    r"""``|`` gets a backslash, ``\`` stays as it is, every kind of line break becomes <br>."""
    text = render_table([["C:\\x|y", "one\ntwo\r\nthree\rfour\u2028five"]], "markdown")

    assert text.splitlines()[0] == "| C:\\x\\|y | one<br>two<br>three<br>four<br>five |"


def test_json_keeps_letters_and_row_lengths() -> None:
    """One array of arrays below the marker, not escaped to ASCII."""
    text = render_table([["Größe", "城市"], ["1"]], "json")

    assert text == f'{JSON_MARKER}\n[["Größe", "城市"], ["1"]]'


@pytest.mark.parametrize("rows", [[], [[]], [["", ""], [""]]])
@pytest.mark.parametrize("table_format", ["markdown", "json"])
def test_a_table_without_text_is_the_empty_string(rows: list[list[str]], table_format: str) -> None:
    """Neither ruler nor marker."""
    assert render_table(rows, table_format) == ""  # type: ignore[arg-type]


def test_an_unknown_format_is_an_error() -> None:
    """It is named, with the two that exist."""
    with pytest.raises(ValueError, match=r"'html'.*'markdown' or 'json'"):
        check_table_format("html")


def test_one_long_row_does_not_blow_up_many_short_ones() -> None:
    """A table of 20,000 rows and one of 20,000 cells keeps every cell, but short rows stay short."""
    rows = [["x"]] * 20_000 + [["y"] * 20_000]

    text = render_table(rows, "markdown")

    assert (text.count("x"), text.count("y")) == (20_000, 20_000)
    assert len(text) < 50_000_000


@given(st.lists(st.lists(_CELLS, max_size=4), min_size=1, max_size=5))
def test_every_cell_can_be_read_back(rows: list[list[str]]) -> None:
    """Markdown and JSON hold the same cells, whatever is in them."""
    markdown, in_json = render_table(rows, "markdown"), render_table(rows, "json")

    if markdown:
        width = max(map(len, rows))
        lines = markdown.split("\n")
        read = [_split(line) for line in (lines[0], *lines[2:-1])]
        assert read == [[_flat(cell) for cell in row] + [""] * (width - len(row)) for row in rows]
        assert json.loads(in_json.split("\n", 1)[1]) == rows


def _split(line: str) -> list[str]:
    """As GitHub's Markdown does: a bar behind a backslash belongs to the cell, which loses the backslash."""
    cells = re.split(r"(?<!\\)\|", line)[1:-1]
    return [cell[1:-1].replace("\\|", "|") for cell in cells]


def _flat(cell: str) -> str:
    return cell.replace("\r\n", "<br>").replace("\r", "<br>").replace("\n", "<br>").replace("\u2028", "<br>")
