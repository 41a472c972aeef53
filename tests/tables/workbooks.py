"""Messy workbooks over clean data: the same facts as people lay them out, for questions with a known answer."""

from __future__ import annotations

import csv
import datetime as dt
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import openpyxl
from openpyxl.utils import get_column_letter

from ..parsers.ooxml import saved

GERMAN_MONTHS = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
)  # fmt: skip


@dataclass
class CleanColumn:
    """A column as it should come out."""

    name: str
    label: str
    """What the sheet says above it."""
    type: str
    unit: str | None = None


@dataclass
class CleanTable:
    """The facts behind one table of a workbook."""

    name: str
    columns: list[CleanColumn]
    rows: list[tuple[Any, ...]]


@dataclass
class Workbook:
    """A file, what it should be read as, and questions about it."""

    filename: str
    data: bytes
    tables: list[CleanTable]
    questions: list[str] = field(default_factory=list)
    """SQL with ``{table}`` and ``{table.column}`` in the place of names."""


@dataclass
class Style:
    """How one workbook writes things."""

    german: bool
    numbers_as_text: bool
    dates: str
    """"native", "iso", "short" or "words"."""
    missing: str
    titles: int
    facts: bool
    offset: tuple[int, int]
    totals: str
    """"", "labelled", "bare" or "apart" (below an empty row)."""
    levels: bool
    """A header of two rows."""
    unit_row: bool
    blank_rows: bool
    blank_column: bool
    repeated_header: bool
    merged_keys: bool
    footnote: bool
    beside: bool
    """The second table stands beside the first, not below it."""


def style_of(chance: random.Random, index: int) -> Style:
    """Each workbook has another mixture; over twenty every kind of mess occurs several times."""
    german = index % 2 == 0
    return Style(
        german=german,
        numbers_as_text=index % 3 != 0,
        dates=("native", "short", "iso", "words", "short")[index % 5],
        missing=("", "-", "n/a", "k.A.")[chance.randrange(4)],
        titles=chance.randrange(4),
        facts=chance.random() < 0.3,
        offset=(chance.randrange(3), chance.randrange(3)),
        totals=("", "labelled", "bare", "apart", "labelled")[index % 5],
        levels=index % 4 == 1,
        unit_row=index % 4 == 3,
        blank_rows=chance.random() < 0.4,
        blank_column=chance.random() < 0.3,
        repeated_header=chance.random() < 0.3,
        merged_keys=index % 3 == 1,
        footnote=chance.random() < 0.5,
        beside=chance.random() < 0.4,
    )


def workbooks(count: int = 20) -> list[Workbook]:
    """The corpus: the same at each call."""
    return [_workbook(index) for index in range(count)]


def _workbook(index: int) -> Workbook:
    chance = random.Random(f"workbook {index}")
    style = style_of(chance, index)
    tables = [_sales(chance, style), _second(chance, style, index)]
    extension = "csv" if index % 7 == 6 else "xlsx"
    if extension == "csv":
        data = _as_csv(tables[0], style, chance)
        tables = tables[:1]
    else:
        data = _as_xlsx(tables, style, chance, separate=index % 3 == 2)
    questions = _questions(tables, chance)
    return Workbook(f"report-{index:02d}.{extension}", data, tables, questions)


# --- the facts ---


def _sales(chance: random.Random, style: Style) -> CleanTable:
    regions = ["Nord", "Süd", "West", "Ost"] if style.german else ["North", "South", "West", "East"]
    products = ["Pumpe", "Ventil", "Filter"] if style.german else ["Pump", "Valve", "Filter"]
    labels = (
        ("Region", "Produkt", "Datum", "Menge", "Umsatz", "Marge")
        if style.german
        else ("Region", "Product", "Date", "Quantity", "Revenue", "Margin")
    )
    names = ("region", "product", "day", "quantity", "revenue", "margin")
    types = ("text", "text", "date", "integer", "number", "number")
    units = (None, None, None, None, "EUR" if style.german else "USD", "%" if style.numbers_as_text else None)
    count = chance.randrange(24, 60)
    first = dt.date(2024, 1, 1)
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        day = first + dt.timedelta(days=chance.randrange(366))
        revenue: float | None = round(chance.uniform(-400, 9000), 2)
        margin: float | None = round(chance.uniform(1, 60), 1)
        if number and chance.random() < 0.06:
            revenue = None
        if number and chance.random() < 0.06:
            margin = None
        quantity = chance.choice([chance.randrange(1, 90), chance.randrange(1000, 4000)])
        rows.append((chance.choice(regions), chance.choice(products), day.isoformat(), quantity, revenue, margin))
    if style.merged_keys:
        rows.sort(key=lambda row: row[0])
    columns = [CleanColumn(*parts) for parts in zip(names, labels, types, units, strict=True)]
    return CleanTable("sales", columns, rows)


def _second(chance: random.Random, style: Style, index: int) -> CleanTable:
    """What the first table is joined with: a row for each region."""
    regions = ["Nord", "Süd", "West", "Ost"] if style.german else ["North", "South", "West", "East"]
    labels = ("Gebiet", "Leitung", "PLZ", "Ziel") if style.german else ("Area", "Manager", "Zip", "Target")
    columns = [
        CleanColumn("area", labels[0], "text"),
        CleanColumn("manager", labels[1], "text"),
        CleanColumn("zip", labels[2], "text"),
        CleanColumn("target", labels[3], "integer"),
    ]
    people = ["Ada Berg", "Bo Lind", "Cleo Marsh", "Dan Roth", "Eva Klein"]
    chance.shuffle(people)
    rows = [
        (region, people[at], f"0{chance.randrange(1000, 9999)}", chance.randrange(20, 400) * 1000 + index)
        for at, region in enumerate(regions)
    ]
    return CleanTable("areas", columns, rows)


# --- how people write them ---


def number_text(value: float, *, german: bool, decimals: int) -> str:
    """1.234,50 or 1,234.50."""
    text = f"{value:,.{decimals}f}"
    return text.translate(str.maketrans(",.", ".,")) if german else text


def date_text(day: str, style: Style) -> str:
    """A date as the workbook writes it."""
    date = dt.date.fromisoformat(day)
    if style.dates == "iso":
        return day
    if style.dates == "words":
        month = GERMAN_MONTHS[date.month - 1] if style.german else f"{date:%B}"
        return f"{date.day}. {month} {date.year}" if style.german else f"{month} {date.day}, {date.year}"
    return f"{date:%d.%m.%Y}" if style.german else f"{date:%m/%d/%Y}"


def _written(value: Any, column: CleanColumn, style: Style, *, text: bool) -> Any:
    """A cell: a number or date of the sheet, or a text; always one with `text`."""
    if value is None:
        return style.missing
    if column.type == "date":
        if style.dates == "native" and not text:
            return dt.date.fromisoformat(value)
        return date_text(value, style)
    if column.type == "text" or not (style.numbers_as_text or text):
        return value
    if column.type == "integer":
        return number_text(value, german=style.german, decimals=0)
    shown = number_text(value, german=style.german, decimals=1 if column.unit == "%" else 2)
    if column.unit == "%":
        return f"{shown} %" if style.german else f"{shown}%"
    if column.unit == "EUR":
        return f"{shown} €"
    if column.unit == "USD":
        return f"(${shown[1:]})" if shown.startswith("-") else f"${shown}"
    return shown


def _header(columns: Sequence[CleanColumn], style: Style) -> list[str]:
    if style.numbers_as_text or style.unit_row:
        return [column.label for column in columns]
    return [f"{column.label} ({column.unit})" if column.unit else column.label for column in columns]


def _total_row(table: CleanTable, style: Style, *, text: bool) -> list[Any]:
    """Sums of the columns that can be summed up."""
    row: list[Any] = [("Summe" if style.german else "Total") if style.totals != "bare" else ""]
    for at, column in enumerate(table.columns[1:], start=1):
        if column.type in ("integer", "number") and column.name != "margin":
            values = [line[at] for line in table.rows if line[at] is not None]
            row.append(_written(round(sum(values), 2), column, style, text=text))
        else:
            row.append("")
    return row


def _as_csv(table: CleanTable, style: Style, chance: random.Random) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";" if style.german else ",")
    width = len(table.columns)
    for number in range(style.titles):
        writer.writerow([f"Report {number + 1}"] + [""] * (width - 1))
    writer.writerow(_header(table.columns, style))
    for row in table.rows:
        writer.writerow(
            [_written(value, column, style, text=True) for value, column in zip(row, table.columns, strict=True)]
        )
    if style.totals:
        writer.writerow(_total_row(table, style, text=True))
    return out.getvalue().encode("utf-8-sig" if chance.random() < 0.5 else "utf-8")


def _as_xlsx(tables: Sequence[CleanTable], style: Style, chance: random.Random, *, separate: bool) -> bytes:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = "Umsatz" if style.german else "Sales"
    top, left = style.offset[0] + 1, style.offset[1] + 1
    bottom, right = _lay_out(sheet, tables[0], style, top, left, main=True)
    if separate:
        other = book.create_sheet("Gebiete" if style.german else "Areas")
        _lay_out(other, tables[1], style, 1, 1, main=False)
    elif style.beside:
        _lay_out(sheet, tables[1], style, top, right + 2, main=False)
    else:
        _lay_out(sheet, tables[1], style, bottom + 3, left, main=False)
    return saved(book)


def _lay_out(sheet: Any, table: CleanTable, style: Style, top: int, left: int, *, main: bool) -> tuple[int, int]:
    """Write a table with what stands around it. Returns its last row and column."""
    columns = [left + at for at in range(len(table.columns))]
    if main and style.blank_column:
        columns = [column + (1 if at >= 3 else 0) for at, column in enumerate(columns)]
    row = top
    title = "Verkäufe 2024" if style.german else "Sales 2024"
    for number in range(style.titles if main else 1):
        sheet.cell(row, left, f"{title} {number + 1}" if main else ("Gebiete" if style.german else "Areas"))
        row += 1
    if main and style.facts:
        for name, value in (("Stand" if style.german else "As of", dt.date(2025, 1, 15)), ("Autor", "A. Berg")):
            sheet.cell(row, left, name)
            sheet.cell(row, left + 1, value)
            row += 1
    if main and style.titles > 1:
        row += 1
    row = _write_header(sheet, table, style, row, columns, main=main)
    header_row = row - 1
    start = row
    for number, line in enumerate(table.rows):
        if main and style.blank_rows and number == 10:
            row += 1
        if main and style.repeated_header and number == 17 and not style.levels and not style.merged_keys:
            row += 1
            for column, name in zip(columns, _header(table.columns, style), strict=True):
                sheet.cell(row, column, name)
            row += 1
        for column, value, clean in zip(columns, line, table.columns, strict=True):
            sheet.cell(row, column, _written(value, clean, style, text=False))
        row += 1
    if main and style.merged_keys and not style.blank_rows:
        _merge_runs(sheet, columns[0], start, row - 1)
    del header_row
    if style.totals and main:
        row += style.totals == "apart"
        for column, value in zip(columns, _total_row(table, style, text=False), strict=True):
            sheet.cell(row, column, value or None)
        row += 1
    if style.footnote and main:
        row += 1
        sheet.cell(row, left, "* vorläufige Zahlen" if style.german else "* preliminary figures")
        row += 1
    return row - 1, columns[-1]


def _write_header(sheet: Any, table: CleanTable, style: Style, row: int, columns: Sequence[int], *, main: bool) -> int:
    names = _header(table.columns, style)
    if main and style.levels:
        middle = 3
        sheet.cell(row, columns[0], "Verkauf" if style.german else "Sale")
        sheet.merge_cells(f"{get_column_letter(columns[0])}{row}:{get_column_letter(columns[middle - 1])}{row}")
        sheet.cell(row, columns[middle], "Werte" if style.german else "Figures")
        sheet.merge_cells(f"{get_column_letter(columns[middle])}{row}:{get_column_letter(columns[-1])}{row}")
        row += 1
    for column, name in zip(columns, names, strict=True):
        sheet.cell(row, column, name)
    row += 1
    if main and style.unit_row:
        units = ["", "", "", "Stk.", "EUR" if style.german else "USD", "%"]
        for column, unit in zip(columns, units, strict=True):
            sheet.cell(row, column, unit or None)
        row += 1
    return row


def _merge_runs(sheet: Any, column: int, start: int, end: int) -> None:
    """Merge neighbouring equal cells, as people do with the first column."""
    letter = get_column_letter(column)
    first = start
    for row in range(start + 1, end + 2):
        if row <= end and sheet.cell(row, column).value == sheet.cell(first, column).value:
            continue
        if row - 1 > first:
            sheet.merge_cells(f"{letter}{first}:{letter}{row - 1}")
        first = row


# --- questions ---


def _questions(tables: Sequence[CleanTable], chance: random.Random) -> list[str]:
    sales = tables[0]
    region = chance.choice(sorted({row[0] for row in sales.rows}))
    product = chance.choice(sorted({row[1] for row in sales.rows}))
    month = f"2024-{chance.randrange(1, 13):02d}"
    makers: list[Callable[[], str]] = [
        lambda: "select count(*) from {sales}",
        lambda: f"select sum({{sales.revenue}}) from {{sales}} where {{sales.region}} = '{region}'",
        lambda: f"select avg({{sales.margin}}) from {{sales}} where {{sales.product}} = '{product}'",
        lambda: "select max({sales.revenue}), min({sales.quantity}) from {sales}",
        lambda: "select {sales.region}, sum({sales.quantity}) from {sales} group by 1 order by 1",
        lambda: "select {sales.product}, count(*), avg({sales.revenue}) from {sales} group by 1 order by 1",
        lambda: f"select count(*), sum({{sales.quantity}}) from {{sales}} where {{sales.day}} like '{month}%'",
        lambda: "select substr({sales.day}, 1, 7) as month, sum({sales.revenue}) from {sales} group by 1 order by 1",
        lambda: "select {sales.day}, {sales.revenue} from {sales} where {sales.revenue} is not null "
        "order by {sales.revenue} desc, {sales.day} limit 3",
    ]  # fmt: skip
    if len(tables) > 1:
        makers[2] = lambda: (
            "select {areas.manager}, sum({sales.revenue}) from {sales} join {areas} "
            "on {sales.region} = {areas.area} group by 1 order by 1"
        )
        makers[8] = lambda: (
            "select {areas.zip}, {areas.target} - sum({sales.quantity}) from {sales} join {areas} "
            "on {areas.area} = {sales.region} group by {areas.zip}, {areas.target} order by 1"
        )
    makers = makers[:8] if chance.random() < 0.5 else [*makers[:7], makers[8]]
    return [make() for make in makers]
