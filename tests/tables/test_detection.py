"""What makes a table of cells: headers, numbers, dates, totals, several tables on one sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openpyxl
import pytest

from agent_rag.documents import text_section
from agent_rag.parsers import parser_for
from agent_rag.tables import Table, extract_tables
from agent_rag.tables.dates import moment
from agent_rag.tables.names import sql_name
from agent_rag.tables.numbers import style_of, value_of, written
from agent_rag.tables.types import Hints, typed

from ..parsers.ooxml import saved
from ..parsers.samples import ods_of


def of_file(data: bytes, filename: str) -> list[Table]:
    parser: Any = parser_for(filename, data=data)
    return extract_tables(parser.parse_here(data, filename))


def of_sheet(*rows: Sequence[Any], merged: Sequence[str] = ()) -> list[Table]:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for row in rows:
        sheet.append(list(row))
    for cells in merged:
        sheet.merge_cells(cells)
    return of_file(saved(book), "a.xlsx")


def headers(table: Table) -> list[str]:
    return [column.header for column in table.columns]


def values(table: Table) -> list[tuple[Any, ...]]:
    return [row[:-1] for row in table.rows]


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("12", 12, None), ("-3.5", -3.5, None), ("1.234,56", 1234.56, None), ("1,234.56", 1234.56, None),
        ("1.234.567", 1234567, None), ("1,00,000.5", 100000.5, None), ("1'234.50", 1234.5, None),
        ("1 234,50", 1234.5, None), ("(12.00)", -12.0, None), ("12-", -12, None), ("€ 5", 5, "€"), ("5 €", 5, "€"),
        ("$1,234.50", 1234.5, "$"), ("-$5", -5, "$"), ("12,5 %", 12.5, "%"), ("7 kg", 7, "kg"),
        ("3.2e5", 320000.0, None), ("−4", -4, None), (".5", 0.5, None), ("EUR 12,50", 12.5, "EUR"),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(text: str, value: float, unit: str | None) -> None:
    """Values worked out by hand."""
    parts = written(text)

    assert parts is not None
    number = value_of(parts, "point")
    assert number is not None
    assert (number.value, number.unit) == (value, unit)
    assert type(number.value) is type(value)


@pytest.mark.parametrize(
    "text", ["007", "1.2.3", "12:30", "2024-01-05", "A4", "1,2,3", "5 6", "", "-", "(5", "+49 170 1234567"]
)
def test_other_texts_are_no_numbers(text: str) -> None:
    """Codes with zeros in front, versions, times, dates, lists."""
    parts = written(text)

    assert parts is None or value_of(parts, "point") is None


def test_the_decimal_sign_is_open_where_three_digits_follow() -> None:
    assert [style_of(text) for text in ("1.234", "1,234", "12", "1.23", "1.234,5", "0.125")] == [
        None, None, None, "point", "comma", "point",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-03-05", "2024-03-05"), ("2024/3/5", "2024-03-05"), ("05.03.2024", "2024-03-05"),
        ("5.3.24", "2024-03-05"),
        ("25/12/2023", "2023-12-25"), ("12/25/2023", "2023-12-25"), ("5. März 2024", "2024-03-05"),
        ("March 5, 2024", "2024-03-05"), ("5-Mar-24", "2024-03-05"), ("5th March 2024", "2024-03-05"),
        ("5 mars 2024", "2024-03-05"), ("Tue, 5 Mar 2024", "2024-03-05"),
    ],
)  # fmt: skip
def test_dates_are_read_as_people_write_them(text: str, day: str) -> None:
    found = moment(text)

    assert found is not None
    assert found.date.isoformat() == day


@pytest.mark.parametrize("text", ["31.02.2024", "2024-13-01", "1.2.3", "12345678", "May 2024 and later", "10/2024"])
def test_other_texts_are_no_dates(text: str) -> None:
    assert moment(text) is None


def test_a_column_says_which_comes_first_in_its_dates() -> None:
    """One day over 12 decides over the others; without one a note says what was taken."""
    clear = typed(["03/04/2024", "25/04/2024"], Hints())
    open_ = typed(["03/04/2024", "05/04/2024"], Hints())

    assert clear.values == ["2024-04-03", "2024-04-25"]
    assert open_.values == ["2024-03-04", "2024-05-04"]
    assert "month first" in open_.notes[0]


def test_a_cell_that_does_not_fit_is_null_and_told() -> None:
    """One in ten at most; with more it is a column of text."""
    fits = typed([*map(str, range(20)), "about 5"], Hints())
    mixed = typed(["1", "2", "a lot", "some"], Hints())

    assert (fits.type, fits.values[-1]) == ("integer", None)
    assert fits.notes == ["1 cells are no number and are NULL ('about 5')"]
    assert (mixed.type, mixed.values) == ("text", ["1", "2", "a lot", "some"])


def test_several_units_are_not_added_up() -> None:
    column = typed(["5 kg", "300 g", "2 kg"], Hints())

    assert column.type == "text"
    assert "several units" in column.notes[0]


def test_names_need_no_quotes() -> None:
    assert [sql_name(text, otherwise="x") for text in ("Größe (cm)", "2024", "Order", "Umsatz %", "价格", "--")] == [
        "groesse_cm", "_2024", "order_", "umsatz_percent", "价格", "x",
    ]  # fmt: skip


def test_a_header_of_two_levels_is_joined() -> None:
    """A merged name holds for the columns below it, one merged downwards for itself."""
    (table,) = of_sheet(
        ["Region", "2023", None, "2024", None],
        [None, "Plan", "Actual", "Plan", "Actual"],
        ["North", 1, 2, 3, 4],
        ["South", 5, 6, 7, 8],
        merged=["A1:A2", "B1:C1", "D1:E1"],
    )

    assert headers(table) == ["Region", "2023 / Plan", "2023 / Actual", "2024 / Plan", "2024 / Actual"]
    assert [column.name for column in table.columns][1] == "_2023_plan"
    assert values(table) == [("North", 1, 2, 3, 4), ("South", 5, 6, 7, 8)]


def test_years_may_be_names() -> None:
    (table,) = of_sheet(["City", 2021, 2022, 2023], ["Graz", 5, 6, 7], ["Linz", 8, 9, 10])

    assert headers(table) == ["City", "2021", "2022", "2023"]
    assert table.row_count == 2


def test_a_row_of_units_is_no_data() -> None:
    (table,) = of_sheet(["Part", "Weight", "Price"], [None, "kg", "EUR"], ["bolt", 1.5, 3], ["nut", 2.5, 4])

    assert [column.unit for column in table.columns] == [None, "kg", "EUR"]
    assert table.row_count == 2


def test_units_in_headers_are_units() -> None:
    (table,) = of_sheet(["Part", "Weight (kg)", "Price in EUR"], ["bolt", 1.5, 3], ["nut", 2.5, 4])

    assert [(column.name, column.unit) for column in table.columns] == [
        ("part", None), ("weight", "kg"), ("price", "EUR"),
    ]  # fmt: skip


def test_totals_are_left_out_where_they_are_sums() -> None:
    """Subtotals of each part, and the sum of all; a region that is called so is data."""
    (table,) = of_sheet(
        ["Region", "Amount"], ["a", 1], ["b", 2], ["Subtotal", 3], ["c", 4], ["d", 5], ["Subtotal", 9], ["Total", 12]
    )
    (named,) = of_sheet(["Company", "Amount"], ["Total", 71], ["Shell", 5], ["BP", 6])

    assert values(table) == [("a", 1), ("b", 2), ("c", 4), ("d", 5)]
    assert table.notes == ["3 rows that sum up others are left out (rows 4, 7, 8)"]
    assert values(named) == [("Total", 71), ("Shell", 5), ("BP", 6)]


def test_several_tables_on_a_sheet_are_told_apart() -> None:
    """Below each other with a title each, and beside each other."""
    below = of_sheet(["Costs"], ["Item", "Euro"], ["rope", 5], ["tar", 6], [], ["People"], ["Name", "Age"], ["Bo", 40],
                     ["Al", 41])  # fmt: skip
    beside = of_sheet(
        ["Item", "Euro", None, "Name", "Age"], ["rope", 5, None, "Bo", 40], ["tar", 6, None, "Al", 41],
        ["nail", 7, None, None, None], ["pin", 8, None, None, None],
    )  # fmt: skip

    assert [(table.name, headers(table), table.row_count) for table in below] == [
        ("costs", ["Item", "Euro"], 2), ("people", ["Name", "Age"], 2),
    ]  # fmt: skip
    assert [(headers(table), table.row_count) for table in beside] == [(["Item", "Euro"], 4), (["Name", "Age"], 2)]


def test_a_few_facts_are_no_table() -> None:
    """Two columns of labels and values above nothing."""
    assert of_sheet(["Author", "Bo"]) == []


def test_merged_cells_count_in_each_of_their_rows() -> None:
    (table,) = of_sheet(
        ["Region", "Amount"], ["North", 1], [None, 2], ["South", 3], [None, 4], merged=["A2:A3", "A4:A5"]
    )

    assert values(table) == [("North", 1), ("North", 2), ("South", 3), ("South", 4)]


def test_numbers_of_a_sheet_are_not_read_as_text() -> None:
    """1.234 as a number is itself; typed as text into a sheet it is rather a thousand, which a note says."""
    (table,) = of_sheet(["n", "t"], [1.234, "1.234"], [2.345, "2.345"])

    assert values(table) == [(1.234, 1234), (2.345, 2345)]
    assert "separator of thousands" in table.columns[1].notes[0]


def test_an_opendocument_sheet_has_the_same_types() -> None:
    def row(*cells: str) -> str:
        return f"<table:table-row>{''.join(cells)}</table:table-row>"

    def text(value: str) -> str:
        return f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'

    def number(value: str) -> str:
        kind = f'office:value-type="float" office:value="{value}"'
        return f"<table:table-cell {kind}><text:p>{value}</text:p></table:table-cell>"

    data = ods_of("".join([row(text("who"), text("n"), text("x")), row(text("a"), number("1.5"), text("1.234,5")),
                           row(text("b"), number("2"), text("10,0"))]))  # fmt: skip

    (table,) = of_file(data, "a.ods")

    assert values(table) == [("a", 1.5, 1234.5), ("b", 2.0, 10.0)]


def test_long_files_are_one_table_with_their_rows() -> None:
    """Sections of a file repeat the header; the table has each row once, with its number."""
    lines = "".join(f"p{number},{number}\n" for number in range(1, 351))

    (table,) = of_file(f"name,n\n{lines}".encode(), "a.csv")

    assert (table.row_count, table.first, table.last) == (350, 2, 351)
    assert table.rows[200] == ("p201", 201, 202)


def test_a_csv_file_without_a_header_has_numbered_columns() -> None:
    (table,) = of_file(b"1,2.5\n3,4.5\n5,6.5\n", "a.csv")

    assert [column.name for column in table.columns] == ["column_1", "column_2"]
    assert (table.first, table.last) == (1, 3)
    assert table.notes == ["it has no header: the columns are numbered"]


def test_records_become_rows() -> None:
    """JSON Lines and a list of objects; inner objects by path, lists as JSON, true and false as such."""
    lines = (
        b'{"id": 1, "who": {"name": "Ada"}, "ok": true, "tags": ["a"]}\n{"id": 2, "who": {"name": "Bo"}, "ok": false}\n'
    )

    (table,) = of_file(lines, "a.jsonl")
    (listed,) = of_file(b'[{"id": 1, "n": "1"}, {"id": 2, "n": "2"}]', "a.json")

    assert [(column.name, column.type) for column in table.columns] == [
        ("id", "integer"), ("who_name", "text"), ("ok", "boolean"), ("tags", "text"),
    ]  # fmt: skip
    assert table.rows == [(1, "Ada", 1, '["a"]', 1), (2, "Bo", 0, None, 2)]
    assert (table.unit, listed.row_count) == ("records", 2)


def test_a_table_in_a_text_has_its_heading_and_lines() -> None:
    """Not one in a code block; escaped bars stay in their cells."""
    code = "```\n| x | y |\n| --- | --- |\n| 1 | 2 |\n```\n"
    text = f"# Fees\n\n| Item | Euro |\n|:--|--:|\n| a \\| b | 5 |\n| c | 6 |\n\n{code}"

    (table,) = of_file(text.encode(), "a.md")

    assert (table.name, table.title, table.unit, table.first, table.last) == ("fees", "Fees", "lines", 5, 6)
    assert values(table) == [("a | b", 5), ("c", 6)]


def test_hostile_tables_are_read_in_time() -> None:
    """Many columns, many bars, deep JSON: no error, and no table beyond the bounds."""
    wide = "|" + "a|" * 3000 + "\n|" + "-|" * 3000 + "\n|" + "1|" * 3000 + "\n"

    assert extract_tables([text_section(wide, "a.md")]) == []
    assert extract_tables([text_section("[" * 50_000, "a.json", format="json")]) == []
    assert extract_tables([text_section("|" * 100_000 + "\n" + "-" * 100_000, "a.md")]) == []


@pytest.mark.parametrize(
    ("rows", "tables"),
    [
        ([["x" if column % 2 == 0 else "" for column in range(2_000)] for _ in range(20)], 0),
        ([["a", str(row), "c"] if row % 2 == 0 else ["", "", ""] for row in range(6_000)], 0),
        ([["name", "n"], *(["Total " + str(row), str(row)] for row in range(6_000))], 1),
        ([["x" if (row + column) % 2 == 0 else "" for column in range(100)] for row in range(200)], 1),
    ],
    ids=["columns with gaps", "rows with gaps", "words of totals", "checkered"],
)
def test_odd_sheets_take_linear_time(rows: list[list[str]], tables: int) -> None:
    """By the parts that are looked at: gaps between all columns or rows, and many rows that could be totals."""
    data = ods_of(
        "".join(
            "<table:table-row>"
            + "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in row)
            + "</table:table-row>"
            for row in rows
        )
    )

    assert len(of_file(data, "a.ods")) == tables
