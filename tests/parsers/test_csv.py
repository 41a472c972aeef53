"""Delimited text becomes Markdown tables that lose no cell."""

from __future__ import annotations

import csv

import pytest

from agent_rag.chunkers import AutoChunker
from agent_rag.errors import ParseError, ParseLimitError
from agent_rag.parsers import CSVParser


async def _table(data: bytes, name: str = "a.csv", **options: object) -> str:
    return (await CSVParser(**options).parse(data, name))[0].text  # type: ignore[arg-type]


async def test_a_bom_does_not_stick_to_the_first_name() -> None:
    """P25: also before a quoted header; one inside a value is kept."""
    text = await _table(b'\xef\xbb\xbf"id, code",name\n1,Ana\xef\xbb\xbf\n')

    assert text == "| id, code | name |\n| --- | --- |\n| 1 | Ana\ufeff |\n"


async def test_a_long_cell_is_read_whole() -> None:
    """P27: the process-wide limit of the csv module is neither hit nor changed."""
    before = csv.field_size_limit()
    data = b'k,v\n"q ""x"", y",1\nx,' + b"a" * 140_001 + b'\n"' + b"b,\n" * 50_000 + b'",2\n\nlast,"3"\n'

    rows = (await _table(data)).splitlines()[2:]

    assert rows[0] == '| q "x", y | 1 |'
    assert len(rows[1]) == len("| x |  |") + 140_001
    assert rows[2].count("b,<br>") == 50_000
    assert rows[3] == "| last | 3 |"
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
async def test_the_delimiter_is_told_from_the_content(delimiter: str) -> None:
    """Decimal commas and commas in quotes do not mislead."""
    rows = [["City", "Rain"], ["Oslo", "763,5"], ["Bergen", '"2,250"']]
    data = "\n".join(
        delimiter.join(row if delimiter != "," else [row[0], row[1].replace("763,5", "763")]) for row in rows
    )

    text = await _table(data.encode())

    assert text.splitlines()[0] == "| City | Rain |"
    assert text.splitlines()[3] == "| Bergen | 2,250 |"


async def test_excels_sep_line_is_obeyed() -> None:
    """And is no row."""
    assert await _table(b"sep=;\na;b\n1,5;2\n") == "| a | b |\n| --- | --- |\n| 1,5 | 2 |\n"


async def test_rows_come_in_groups_that_repeat_the_header() -> None:
    """Rows are counted in the file from 1, blank lines too."""
    data = b"city,n\n\n" + b"".join(b"Oslo,%d\n" % n for n in range(250))

    sections = await CSVParser().parse(data, "a.csv")

    assert [s.metadata for s in sections] == [
        {"format": "markdown", "rows": "3-102"},
        {"format": "markdown", "rows": "103-202"},
        {"format": "markdown", "rows": "203-252"},
    ]
    assert all(s.text.startswith("| city | n |\n| --- | --- |\n") for s in sections)
    assert sections[1].text.splitlines()[2] == "| Oslo | 100 |"


async def test_a_row_longer_than_the_header_keeps_its_cells() -> None:
    """And a shorter one is filled up; a newline in quotes stays in its cell."""
    text = await _table(b'a,b\n1,2,3\n"x\ny"\n')

    assert text == "| a | b |  |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| x<br>y |  |  |\n"


async def test_without_a_header_the_columns_are_numbered() -> None:
    """Numbers in the first row are data; an option decides otherwise."""
    assert (await _table(b"1,2\n3,4\n")).splitlines()[0] == "| Column 1 | Column 2 |"
    assert (await _table(b"1,2\n3,4\n", header=True)).splitlines()[0] == "| 1 | 2 |"
    assert (await _table(b"a,b\n3,4\n", header=False)).splitlines()[2] == "| a | b |"


async def test_one_column_is_a_table_too() -> None:
    """Lines without any delimiter."""
    assert await _table(b"city\nOslo\nBergen\n") == "| city |\n| --- |\n| Oslo |\n| Bergen |\n"


async def test_cells_are_bounded_and_blank_files_are_an_error() -> None:
    """A line of a million commas is a limit error that names the option."""
    with pytest.raises(ParseLimitError, match=r"a\.csv.*max_cells=1,000"):
        await _table(b"a,b\n" + b"," * 1_000 + b"x", max_cells=1_000)
    with pytest.raises(ParseError, match=r"a\.csv: no rows"):
        await _table(b"\n  \n,,\n")
    with pytest.raises(ValueError, match="one character"):
        CSVParser(delimiter=",,")


@pytest.mark.parametrize(
    ("data", "first_rows"),
    [
        (b"Region,2019,2020,2021\nNorth,5,6,7\n", ["| Region | 2019 | 2020 | 2021 |"]),
        (b"name,score,score\nAnn,1,2\n", ["| name | score | score |"]),
        (b"Alice,Rome\nBob,Paris\nCarol,Oslo\n", ["| Column 1 | Column 2 |", "| --- | --- |", "| Alice | Rome |"]),
        (b"City,Country\nRome,Italy\nOslo,Norway\n", ["| City | Country |"]),
        (b"1999,2000\n3,4\n", ["| Column 1 | Column 2 |"]),
    ],
    ids=["years", "names alike", "rows of words", "usual names", "years only"],
)
async def test_the_header_is_told_from_the_content(data: bytes, first_rows: list[str]) -> None:
    """Years in order and names that are alike are names too; a row like all others is none."""
    assert (await _table(data)).splitlines()[: len(first_rows)] == first_rows


async def test_titles_and_comments_above_the_header_stand_above_the_table() -> None:
    """And are not the header of each chunk."""
    data = b"Sales report 2024;;\n# in units\n\nRegion;Product;Sold\n" + b"".join(
        b"Region%d;Pump;%d\n" % (n, n) for n in range(150)
    )

    sections = await CSVParser().parse(data, "a.csv")

    assert sections[0].text.startswith(
        "Sales report 2024\n# in units\n\n| Region | Product | Sold |\n| --- | --- | --- |\n"
    )
    assert sections[1].text.startswith("| Region | Product | Sold |\n| --- | --- | --- |\n| Region100 |")
    assert [section.metadata["rows"] for section in sections] == ["5-104", "105-154"]


@pytest.mark.parametrize(
    "data",
    [b'a,b\n1,"x\n2,y\n3,z\n', b'a,b\n1,"x\n2,"y"\n3,z\n', b'a,b\n1,x\n2,"y"\n3,"z\n'],
    ids=["to the end", "to another quote", "in the last row"],
)
async def test_a_stray_quote_swallows_no_row(data: bytes) -> None:
    """The rows below it stay rows."""
    rows = (await _table(data)).splitlines()[2:]

    assert [row[:4] for row in rows] == ["| 1 ", "| 2 ", "| 3 "]


async def test_spaces_before_quotes_do_not_cut_a_cell() -> None:
    """As spreadsheets and people write them."""
    assert await _table(b'n, text, m\n1, "x, y", 3\n') == "| n | text | m |\n| --- | --- | --- |\n| 1 | x, y | 3 |\n"


async def test_a_wide_table_has_its_names_in_every_chunk() -> None:
    """Forty columns: each chunk is a table of some of them beside the first, and every value is under its name."""
    names = ["id", *(f"measurement_of_sensor_{n}" for n in range(60))]
    rows = [[f"row{r}", *(f"v{r}_{n}" for n in range(60))] for r in range(30)]
    data = "\n".join(",".join(row) for row in [names, *rows]).encode()

    chunks = await AutoChunker().chunk(await CSVParser().parse(data, "a.csv"))

    found = {}
    for chunk in chunks:
        header, ruler, *lines = [line.strip("| ").split(" | ") for line in chunk.text.strip().split("\n")]
        assert set(ruler) == {"---"}
        for line in lines:
            assert chunk.metadata["rows"][0] <= int(line[0][3:]) + 2 <= chunk.metadata["rows"][1]
            found.update({(line[0], name): value for name, value in zip(header, line, strict=True)})
    assert found == {(row[0], name): value for row in rows for name, value in zip(names, row, strict=True)}
    assert all(len(chunk.text) <= 1000 for chunk in chunks)
