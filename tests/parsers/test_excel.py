"""The spreadsheet parser."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import json
import zipfile
from decimal import Decimal
from io import BytesIO
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.comments import Comment
from openpyxl.drawing.image import Image
from openpyxl.styles import Font

from agent_rag.documents import Section
from agent_rag.errors import EncryptedFileError, ParseError, ParseLimitError, UnsupportedFormatError
from agent_rag.parsers import ExcelParser
from agent_rag.parsers.office.sheets.cells import DateFormats, date_text, number_text
from agent_rag.parsers.office.sheets.error_cells import error_cells
from agent_rag.testing.loop import longest_block
from tests.cpu import cpu_seconds

from ..shared import needs_shared
from .native_workbooks import ods_with_errors, xls_with_errors, xlsb_with_errors
from .ooxml import case_file, part, saved, strict, xlsx
from .samples import docx_sample, ods_of, ods_sample, png_sample, xlsx_sample


def sections(data: bytes, **options: object) -> list[Section]:
    return ExcelParser(**options).parse_here(data, "a.xlsx")  # type: ignore[arg-type]


def rows(data: bytes, **options: object) -> list[list[str]]:
    """The cells of a file with one sheet."""
    (section,) = sections(data, include_sheet_names=False, table_format="json", **options)
    return [json.loads(line) for line in section.text.splitlines()[1:]]


def book(*lines: list[object], **formats: str) -> bytes:
    workbook = openpyxl.Workbook()
    for line in lines:
        workbook.active.append(line)
    for cell, code in formats.items():
        workbook.active[cell].number_format = code
    return saved(workbook)


@needs_shared
class TestCases:
    """The behaviour cases that name spreadsheets."""

    async def test_the_words_for_nothing_are_kept(self) -> None:
        """P15: NA, NULL, nan and None are text; blank cells are empty."""
        (section,) = await ExcelParser().parse(case_file("P15"), "a.xlsx")

        assert section.text.splitlines()[3:] == ["| NA | NULL |  |", "| nan | None | ok |"]

    async def test_types_read_as_people_write_them(self) -> None:
        """P17: dates, whole numbers, long ids, percentages, truth values."""
        (section,) = await ExcelParser().parse(case_file("P17"), "a.xlsx")

        line = "| 2024-03-05 | 2024-03-05 14:30:00 | 7 | 1234567890123456 | 0.125 | TRUE |"
        assert section.text.splitlines()[3] == line

    async def test_hidden_sheets_are_marked_or_left_out(self) -> None:
        """P19: read by default, never merged with visible ones."""
        both = await ExcelParser().parse(case_file("P19"), "a.xlsx")
        visible = await ExcelParser(include_hidden=False).parse(case_file("P19"), "a.xlsx")

        assert [section.metadata for section in both] == [{}, {"sheet": "secret", "hidden": True}]
        assert "HIDDEN-TEXT" in both[1].text
        assert [section.text for section in visible] == [both[0].text]
        assert visible[0].warnings == [
            "1 hidden sheet(s) are not read ('secret'); pass ExcelParser(include_hidden=True)"
        ]

    async def test_a_gap_hides_nothing_and_costs_nothing(self) -> None:
        """P21: 200,000 rows, three of them filled."""
        started = cpu_seconds()
        (section,) = await ExcelParser().parse(case_file("P21"), "a.xlsx")

        assert section.text == "Sheet: Sheet\n| head |\n| --- |\n| TOP |\n|  |\n| AFTER-GAP |\n"
        assert cpu_seconds() - started < 5

    async def test_text_named_xls_is_an_error_that_says_so(self) -> None:
        """P23: through the registry it is read as the text that it is."""
        with pytest.raises(UnsupportedFormatError, match=r"report\.xls: the content is text/plain"):
            await ExcelParser().parse(case_file("P23"), "report.xls")


class TestValues:
    """Cells."""

    def test_a_formula_shows_its_cached_value(self) -> None:
        """One that was never computed shows itself."""
        row = (
            '<s:row r="1"><s:c r="A1"><s:f>1+1</s:f><s:v>2</s:v></s:c><s:c r="B1"><s:f>SUM(A1:A9)</s:f></s:c>'
            '<s:c r="C1" t="str"><s:f>A1&amp;"x"</s:f><s:v>2x</s:v></s:c><s:c r="D1" t="str"><s:f>""</s:f><s:v/></s:c>'
            '<s:c r="E1" t="e"><s:f>1/0</s:f><s:v>#DIV/0!</s:v></s:c></s:row>'
        )

        assert rows(xlsx(row)) == [["2", "=SUM(A1:A9)", "2x", "", "#DIV/0!"]]

    def test_strings_are_joined_from_their_runs(self) -> None:
        """Without the phonetic guide; escapes and line breaks undone."""
        strings = part(
            "s:sst",
            "<s:si><s:r><s:t>Os</s:t></s:r><s:r><s:t>lo</s:t></s:r><s:rPh><s:t>guide</s:t></s:rPh></s:si>"
            "<s:si><s:t>a_x000D_b_x0041__x005F_c</s:t></s:si>",
        )
        row = (
            '<s:row r="1"><s:c r="A1" t="s"><s:v>0</s:v></s:c><s:c r="B1" t="s"><s:v>1</s:v></s:c>'
            '<s:c r="C1" t="inlineStr"><s:is><s:t> in </s:t></s:is></s:c><s:c t="b"><s:v>0</s:v></s:c>'
            '<s:c r="E1" t="d"><s:v>2024-03-05T00:00:00</s:v></s:c></s:row>'
        )

        assert rows(xlsx(row, sharedStrings_xml=strings)) == [["Oslo", "a\nbA_c", "in", "FALSE", "2024-03-05"]]

    def test_dates_follow_the_workbooks_epoch(self) -> None:
        """1904 or 1900; format 27 is a date in East Asian Excel; a duration counts hours."""
        styles = part(
            "s:styleSheet",
            '<s:numFmts><s:numFmt numFmtId="170" formatCode="[h]:mm"/></s:numFmts>'
            f"<s:cellXfs>{''.join(f'<s:xf numFmtId=^{n}^/>' for n in (0, 14, 27, 170))}</s:cellXfs>".replace("^", '"'),
        )
        cells = [("1", "44197"), ("2", "44197.5"), ("3", "1.5"), ("1", "-3"), ("0", "44197")]
        row = '<s:row r="1">' + "".join(f'<s:c s="{s}"><s:v>{v}</s:v></s:c>' for s, v in cells) + "</s:row>"
        mac = '<s:workbookPr date1904="1"/>'

        assert rows(xlsx(row, styles_xml=styles)) == [
            ["2021-01-01", "2021-01-01 12:00:00", "36:00:00", "1899-12-27", "44197"]
        ]
        assert rows(xlsx(row, styles_xml=styles, workbook=mac))[0][:2] == ["2025-01-02", "2025-01-02 12:00:00"]

    @pytest.mark.parametrize(
        ("raw", "shown"),
        [("7", "7"), ("13.0", "13"), ("-5", "-5"), ("-0.0", "0"), ("1.1000000000000001", "1.1"),
         ("1.234567890123456E+15", "1234567890123456"), ("12345678901234567890", "12345678901234567890"),
         ("1E-7", "1e-07"), ("1E+300", "1e+300"), ("x", "x")],
    )  # fmt: skip
    def test_numbers_are_shortest_and_exact(self, raw: str, shown: str) -> None:
        """Whole numbers in full up to 25 digits."""
        assert number_text(raw) == shown

    def test_a_number_that_is_no_date_stays_a_number(self) -> None:
        """Out of the calendar."""
        assert date_text("1e12", "date") == "1000000000000"
        assert DateFormats.kind_of('0.0" days"') is None

    def test_merged_cells_can_name_each_row(self) -> None:
        """An option; the first row of a group of rows carries them in any case."""
        workbook = openpyxl.Workbook()
        for row in (["Region", "City"], ["North", "Bodo"], [None, "Alta"], [None, "Hammerfest"], ["South", "Oslo"]):
            workbook.active.append(row)
        workbook.active.merge_cells("A2:A4")

        assert rows(saved(workbook), repeat_merged=True)[1:] == [
            ["North", "Bodo"], ["North", "Alta"], ["North", "Hammerfest"], ["South", "Oslo"],
        ]  # fmt: skip
        parts = sections(saved(workbook), separate_sheet=True, rows_per_section=2)
        assert [part.text.splitlines()[3:] for part in parts] == [
            ["| North | Bodo |", "|  | Alta |"],
            ["| North | Hammerfest |", "| South | Oslo |"],
        ]

    def test_merged_cells_have_their_value_once(self) -> None:
        """Also where a program left values below the merge."""
        cells = "".join(
            f'<s:row r="{r}">' + "".join(f'<s:c r="{c}{r}"><s:v>{r}</s:v></s:c>' for c in "ABC") + "</s:row>"
            for r in (1, 2)
        )
        merges = '<s:mergeCells count="1"><s:mergeCell ref="A1:B2"/></s:mergeCells>'

        assert rows(xlsx(cells, after=merges)) == [["1", "", "1"], ["", "", "2"]]

    def test_links_keep_their_address(self) -> None:
        """Beside the text of the cell, unless they say the same."""
        row = '<s:row r="1"><s:c r="A1" t="str"><s:v>list</s:v></s:c><s:c r="B1" t="str"><s:v>https://b.example</s:v></s:c></s:row>'
        links = '<s:hyperlinks><s:hyperlink ref="A1" r:id="a"/><s:hyperlink ref="B1" r:id="b"/></s:hyperlinks>'
        targets = {"a": ("hyperlink", "https://a.example"), "b": ("hyperlink", "https://b.example")}

        assert rows(xlsx(row, after=links, links=targets)) == [["list (https://a.example)", "https://b.example"]]

    def test_rows_and_cells_without_references_count_on(self) -> None:
        """Both attributes are optional."""
        line = "<s:row><s:c><s:v>{}</s:v></s:c><s:c><s:v>0</s:v></s:c></s:row>"

        assert rows(xlsx(line.format(1) + line.format(2))) == [["1", "0"], ["2", "0"]]


def _count() -> int:
    return sum(n % 3 for n in range(3_000_000))


_VALUE = st.one_of(
    st.none(),
    st.integers(-(10**15), 10**15),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.booleans(),
    st.text(alphabet="aé漢|\\ _x0041\n", min_size=1, max_size=6),
    st.datetimes(dt.datetime(1900, 3, 1), dt.datetime(2200, 1, 1)).map(lambda moment: moment.replace(microsecond=0)),
    st.sampled_from(["#N/A", "#DIV/0!", "NA", "null"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(_VALUE, min_size=3, max_size=3), min_size=1, max_size=6))
def test_cells_agree_with_openpyxl(values: list[list[Any]]) -> None:
    """Random sheets, written and read by openpyxl as the independent reader."""
    workbook = openpyxl.Workbook()
    workbook.active.append(["first", "second", "third"])
    for line in values:
        workbook.active.append([*line, "end"])
    data = saved(workbook)

    found = rows(data)

    read = openpyxl.load_workbook(BytesIO(data), data_only=True).active
    expected = [[_as_text(value) for value in line] for line in read.iter_rows(values_only=True)]
    assert [line[:3] for line in found] == [line[:3] for line in expected]


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        value = value or 0.0  # -0.0
        return f"{Decimal(repr(value)):.0f}" if value.is_integer() and abs(value) < 1e25 else repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value).strip()


class TestSheets:
    """How sheets become Sections."""

    def test_visible_sheets_share_a_section_by_default(self) -> None:
        """Each under its name, which is a heading there."""
        (section,) = sections(xlsx_sample())

        names = [section.text[h.offset :].splitlines()[0] for h in section.headings]
        assert names == ["Sheet: Sheet", "Sheet: Notes"]
        assert section.metadata == {}

    def test_each_sheet_can_be_a_section(self) -> None:
        """With its name in the metadata; without names in the text it is in the heading path."""
        found = sections(xlsx_sample(), separate_sheet=True, include_sheet_names=False)

        assert [(section.metadata, section.heading_path) for section in found] == [
            ({"sheet": "Sheet"}, ["Sheet"]),
            ({"sheet": "Notes"}, ["Notes"]),
        ]

    def test_a_long_sheet_is_cut_into_groups_that_repeat_its_header(self) -> None:
        """The numbers are those of Excel."""
        data = book(["n", "square"], *([n, n * n] for n in range(2, 7)))

        found = sections(data, separate_sheet=True, rows_per_section=2)

        assert [section.metadata["rows"] for section in found] == ["2-3", "4-5", "6-6"]
        assert found[1].text == "Sheet: Sheet\n| n | square |\n| --- | --- |\n| 4 | 16 |\n| 5 | 25 |\n"
        assert len(sections(data, separate_sheet=True, rows_per_section=None)) == 1

    def test_coordinates_are_an_option(self) -> None:
        """In Markdown before the value, in JSON as keys."""
        data = book(["a", None, "c"])

        markdown, in_json = (
            sections(data, include_cell_coordinates=True, table_format=f)[0].text for f in ("markdown", "json")
        )

        assert markdown.splitlines()[1] == "| [A1] a |  | [C1] c |"
        assert in_json.splitlines()[-1] == '{"A1": "a", "C1": "c"}'

    def test_an_empty_sheet_gives_nothing(self) -> None:
        """Not even its name."""
        assert sections(book()) == []

    def test_far_corners_cost_nothing(self) -> None:
        """A1 and XFD1048576: what makes calamine allocate 549 GB."""
        cell = '<s:row r="{0}"><s:c r="{1}{0}"><s:v>1</s:v></s:c></s:row>'
        corner = cell.format(1, "A") + cell.format(1_048_576, "XFD")

        assert rows(xlsx(corner)) == [["1", "", ""], ["", "", ""], ["", "", "1"]]

    @pytest.mark.parametrize(
        ("options", "limit"),
        [({"max_rows": 2}, "max_rows"), ({"max_columns": 1}, "max_columns"), ({"max_cells": 5}, "max_cells")],
    )
    def test_limits_name_their_option(self, options: dict[str, int], limit: str) -> None:
        """And the file and the sheet."""
        with pytest.raises(ParseLimitError, match=rf"a\.xlsx: .*'Sheet'.*{limit}"):
            sections(book(["a", "b"], ["c", "d"], ["e", "f"]), **options)

    def test_comments_text_boxes_and_charts_stand_below_the_table(self) -> None:
        """Comments by cell; of a chart its titles and series, since the values are cells."""
        workbook = openpyxl.Workbook()
        sheet = workbook.active
        for line in (["city", "mm"], ["Oslo", 763], ["Bergen", 2250]):
            sheet.append(line)
        sheet["B3"].comment = Comment("per year", "Kim")
        sheet["A2"].comment = Comment("capital", "Kim")
        chart = openpyxl.chart.BarChart()
        chart.title = "Rain"
        chart.add_data(openpyxl.chart.Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
        sheet.add_chart(chart, "D1")

        (section,) = sections(saved(workbook))

        below = section.text.split("| Bergen | 2250 |\n")[1]
        assert below == "\nChart: Rain\nComments:\n[A2] Kim: capital\n[B3] Kim: per year"
        assert "Comments" not in sections(saved(workbook), include_comments=False)[0].text

    def test_text_boxes_are_read(self) -> None:
        """Of alternatives the first."""
        box = "<xdr:sp><xdr:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></xdr:txBody></xdr:sp>"
        choice, fallback = (
            f"<mc:{tag}>{box.format(words)}</mc:{tag}>" for tag, words in (("Choice", "boxed"), ("Fallback", "old"))
        )
        place = "<xdr:from><xdr:col>0</xdr:col><xdr:row>1</xdr:row></xdr:from>"
        both = f"<mc:AlternateContent>{choice}{fallback}</mc:AlternateContent>"
        anchor = f"<xdr:twoCellAnchor>{place}{both}</xdr:twoCellAnchor>"
        data = xlsx("", links={"d": ("drawing", "../drawings/d.xml")}, drawings__d_xml=part("xdr:wsDr", anchor))

        assert [section.text for section in sections(data)] == ["Sheet: Data\nboxed"]

    def test_images_come_last_in_the_order_of_their_rows(self) -> None:
        """With the name of their sheet."""
        workbook = openpyxl.Workbook()
        workbook.active.append(["text"])
        for anchor, size in (("B9", (50, 50)), ("A2", (20, 10))):
            workbook.active.add_image(Image(BytesIO(png_sample(size))), anchor)

        found = sections(saved(workbook), include_image=True)

        assert [section.metadata for section in found] == [{}, *[{"sheet": "Sheet", "media_type": "image/png"}] * 2]
        assert [section.content.name for section in found[1:]] == ["image2.png", "image1.png"]

    def test_a_styled_empty_cell_is_empty(self) -> None:
        """However far away."""
        workbook = openpyxl.Workbook()
        workbook.active["A1"] = "x"
        workbook.active["Z900"].font = Font(bold=True)

        assert rows(saved(workbook)) == [["x"]]


class TestNativeFormats:
    """.xls and .xlsb, through python-calamine, and .ods."""

    def test_an_xls_reads_like_an_xlsx(self) -> None:
        """Dates, whole numbers, truth values, hidden sheets, and the error cells that calamine leaves blank."""
        shown, hidden = sections(xls_with_errors(), separate_sheet=True)

        assert shown.text.splitlines()[1:] == [
            "| city | mm | since |",
            "| --- | --- | --- |",
            "| Oslo | 763 | 2024-03-05 |",
            "| #N/A | #DIV/0! | TRUE |",
        ]
        assert hidden.metadata == {"sheet": "secret", "hidden": True}

    def test_an_xlsb_keeps_its_error_cells(self) -> None:
        """Of values and of formulas."""
        assert rows(xlsb_with_errors()) == [["Oslo", "763"], ["#N/A", "#DIV/0!"]]

    def test_an_ods_keeps_its_error_cells(self) -> None:
        """As LibreOffice writes them."""
        assert rows(ods_with_errors())[:3] == [["#DIV/0!", ""], ["City", "Rain mm"], ["Oslo", "763"]]

    def test_an_ods_is_read_cell_by_cell(self) -> None:
        """White space between cells, repeated and covered cells, values by their type, comments."""
        content = """
          <table:table-row>
            <table:table-cell office:value-type="float" office:value="13.0"><text:p>13,00</text:p></table:table-cell>
            <table:table-cell office:value-type="date" office:date-value="2024-03-05T14:30:00"/>
            <table:table-cell office:value-type="time" office:time-value="PT26H30M00S"/>
            <table:table-cell office:value-type="boolean" office:boolean-value="true"/>
            <table:table-cell office:value-type="float" office:value="0"><text:p>#DIV/0!</text:p></table:table-cell>
          </table:table-row>
          <table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row>
          <table:table-row>
            <table:table-cell table:number-columns-repeated="2" office:value-type="string">
              <office:annotation><dc:creator>Zoe</dc:creator><text:p>an audit</text:p></office:annotation>
              <text:p>a<text:s text:c="2"/>b</text:p><text:p>c</text:p>
            </table:table-cell>
            <table:covered-table-cell><text:p>covered</text:p></table:covered-table-cell>
          </table:table-row>"""

        (section,) = sections(ods_of(content), separate_sheet=True)

        assert section.text.splitlines() == [
            "Sheet: S",
            "| 13 | 2024-03-05 14:30:00 | 26:30:00 | TRUE | #DIV/0! |",
            "| --- | --- | --- | --- | --- |",
            "|  |  |  |  |  |",
            "| a  b<br>c | a  b<br>c |  |  |  |",
            "",
            "Comments:",
            "[A1048002] Zoe: an audit",
        ]

    def test_a_protected_xls_says_so(self) -> None:
        """By its FilePass record."""
        data = xls_with_errors()
        start = data.index(b"\x85\x00")  # BoundSheet8 becomes FilePass
        protected = data[:start] + b"\x2f\x00" + data[start + 2 :]

        with pytest.raises(EncryptedFileError, match=r"a\.xlsx.*encrypted"):
            sections(protected)

    def test_a_damaged_structure_costs_the_error_cells_only(self) -> None:
        """What calamine has read is given."""
        data = xls_with_errors()

        assert error_cells(data[:400], "application/vnd.ms-excel", "a.xls") == []
        assert error_cells(data[:512] + bytes(len(data) - 512), "application/vnd.ms-excel", "a.xls") == []


class TestFiles:
    """What kinds of files are read."""

    def test_a_strict_workbook_reads_like_a_transitional_one(self) -> None:
        """ISO 29500 Strict has other namespaces."""
        assert b"purl.oclc.org" in zipfile.ZipFile(BytesIO(strict(xlsx_sample()))).read("xl/workbook.xml")

        assert sections(strict(xlsx_sample())) == sections(xlsx_sample()) != []

    async def test_an_ods_is_read_in_a_worker(self) -> None:
        """With the same Sections as without isolation."""
        isolated = await ExcelParser(separate_sheet=True).parse(ods_sample(), "a.ods")
        here = await ExcelParser(separate_sheet=True, isolation="none").parse(ods_sample(), "a.ods")

        assert isolated == here
        assert isolated[0].text.startswith("Sheet: Rain\n| City | Rain mm |\n| --- | --- |\n| Oslo | 763 |")

    async def test_the_event_loop_goes_on_while_a_workbook_is_read(self) -> None:
        """At most 50 ms more between two turns than beside a plain Python loop, with 60,000 cells.

        The loop takes the noise of a busy machine out; a block would show in each of the tries.
        """
        data = book(*([f"name {n}", n, n / 7] for n in range(20_000)))
        gc.collect()  # openpyxl's cells

        for _ in range(10):
            noise = await longest_block(asyncio.to_thread(_count))
            longest = await longest_block(ExcelParser().parse(data, "a.xlsx"))
            if longest - noise < 0.05:
                break

        assert longest - noise < 0.05

    def test_another_type_is_an_error_that_names_it(self) -> None:
        """By content."""
        with pytest.raises(UnsupportedFormatError, match=r"a\.xlsx: the content is .*wordprocessingml"):
            sections(docx_sample())

    def test_an_encrypted_workbook_says_so(self) -> None:
        """OLE with the stream EncryptedPackage, or zip entries with the flag."""
        flagged = bytearray(xlsx_sample())
        directory = flagged.index(b"PK\x01\x02")
        flagged[directory + 8] |= 1

        with pytest.raises(EncryptedFileError, match=r"a\.xlsx.*encrypted"):
            sections(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"))
        with pytest.raises(EncryptedFileError, match="encrypted"):
            sections(bytes(flagged))

    def test_an_inflated_size_over_the_limit_is_refused_unread(self) -> None:
        """For .ods too."""
        for data in (xlsx_sample(), ods_sample()):
            with pytest.raises(ParseLimitError, match="max_inflated_bytes=100"):
                sections(data, max_inflated_bytes=100)

    def test_a_workbook_without_its_sheets_is_an_error(self) -> None:
        """Not an empty success."""
        with zipfile.ZipFile(BytesIO(xlsx("")), "r") as archive:
            files: dict[str, str | bytes] = {n: archive.read(n) for n in archive.namelist() if "sheet1" not in n}

        from .samples import zip_of

        with pytest.raises(ParseError, match=r"a\.xlsx: the workbook has no sheet"):
            sections(zip_of(files))

    def test_damaged_xml_is_a_parse_error_with_its_cause(self) -> None:
        """The library's exception is chained."""
        with pytest.raises(ParseError, match=r"a\.xlsx") as caught:
            sections(xlsx('<s:row r="1"><s:c t="s"><s:v>7</s:v></s:c></s:row>'))

        assert isinstance(caught.value.__cause__, IndexError)

    @pytest.mark.parametrize("options", [{"table_format": "html"}, {"max_rows": 0}, {"rows_per_section": 0}])
    def test_wrong_options_are_errors_at_construction(self, options: dict[str, Any]) -> None:
        """Not in the middle of a file."""
        with pytest.raises(ValueError):
            ExcelParser(**options)
