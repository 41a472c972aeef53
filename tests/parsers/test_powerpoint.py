"""The PowerPoint parser."""

from __future__ import annotations

from io import BytesIO

import pptx as python_pptx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from agent_rag.documents import Section
from agent_rag.errors import ParseError, UnsupportedFormatError
from agent_rag.parsers import PPTParser
from agent_rag.parsers.office.reading_order import Box, in_reading_order

from ..shared import needs_shared
from .ooxml import case_file, part, pptx, saved, shape, strict
from .samples import docx_sample, png_sample, pptx_sample


def sections(data: bytes, **options: object) -> list[Section]:
    return PPTParser(**options).parse_here(data, "a.pptx")  # type: ignore[arg-type]


def lines(data: bytes, **options: object) -> list[str]:
    """The text of a one-slide file without its slide tags."""
    (section,) = sections(data, slide_prefix=None, slide_suffix=None, **options)
    return section.text.split("\n")


@needs_shared
class TestCases:
    """The behaviour cases that name presentations."""

    async def test_neighbouring_shapes_are_not_glued(self) -> None:
        """P11."""
        (section,) = await PPTParser().parse(case_file("P11"), "a.pptx")

        assert section.text == "<slide index=1>\nred\napple\n</slide>"
        assert section.metadata == {"slide": 1}

    async def test_shapes_are_read_by_place(self) -> None:
        """P13: not in the order in which they were made."""
        (section,) = await PPTParser().parse(case_file("P13"), "a.pptx")

        assert section.text.split("\n")[1:-1] == ["A head", "A body", "B head", "B body"]


class TestOrder:
    """Reading order."""

    def test_the_title_comes_first_wherever_it_stands(self) -> None:
        """It is a heading at its offset, below the slide's tag."""
        data = pptx(shape("body", top=0) + shape("Rain", top=50, placeholder='type="ctrTitle"'))

        (section,) = sections(data)

        assert section.text == "<slide index=1>\n# Rain\nbody\n</slide>"
        assert [(h.title, h.offset) for h in section.headings] == [("Rain", len("<slide index=1>\n"))]

    def test_equal_boxes_are_read_row_by_row(self) -> None:
        """A frame drawn slightly lower is in the same row."""
        data = pptx(shape("d", 30, 10) + shape("c", 0, 10) + shape("b", 30, 1) + shape("a", 0, 0))

        assert lines(data) == ["a", "b", "c", "d"]

    def test_bodies_stay_below_their_heads(self) -> None:
        """As in the layout "Comparison": short boxes over high ones are columns."""
        data = pptx(
            shape("left head", 0, 10) + shape("right head", 30, 10) + shape("left body", 0, 16, height=30)
            + shape("right body", 30, 16, height=30) + shape("top", 0, 0, width=50)
        )  # fmt: skip

        assert lines(data) == ["top", "left head", "left body", "right head", "right body"]

    def test_columns_that_do_not_align_are_read_one_by_one(self) -> None:
        """No straight line from left to right separates their boxes."""
        data = pptx(shape("a", 0, 0, height=9) + shape("x", 30, 4, height=9) + shape("b", 0, 10, height=9)
                    + shape("y", 30, 14, height=9))  # fmt: skip

        assert lines(data) == ["a", "b", "x", "y"]

    def test_a_group_is_read_together_at_its_own_place(self) -> None:
        """Its members' places count in the group's units; groups nest."""
        inner = f"<p:grpSp><p:grpSpPr/>{shape('2', 500, 900)}{shape('1', 500, 800)}</p:grpSp>"
        group = (
            '<p:grpSp><p:grpSpPr><a:xfrm><a:off x="0" y="50"/><a:ext cx="20" cy="20"/><a:chOff x="0" y="0"/>'
            f'<a:chExt cx="1000" cy="1000"/></a:xfrm></p:grpSpPr>{inner}{shape("0", 0, 10)}</p:grpSp>'
        )

        assert lines(pptx(group + shape("last", 0, 80) + shape("first", 0, 30))) == ["first", "0", "1", "2", "last"]

    def test_a_placeholder_takes_its_place_from_the_layout_or_master(self) -> None:
        """By index from the layout, by type from the master."""

        def holder(placeholder: str, top: int) -> str:
            return shape("prompt", 0, top, placeholder=placeholder)

        middle = holder('idx="5"', 40)
        layout = part("p:sldLayout", f"<p:cSld><p:spTree>{middle}</p:spTree></p:cSld>")
        footer = holder('type="ftr" idx="9"', 90)
        master = part("p:sldMaster", f"<p:cSld><p:spTree>{footer}</p:spTree></p:cSld>")
        data = pptx(
            shape("footer", width=0, placeholder='type="ftr" idx="3"') + shape("middle", width=0, placeholder='idx="5"')
            + shape("top", 0, 10) + shape("low", 0, 60),
            {"l": ("slideLayout", "../slideLayouts/l.xml")},
            slideLayouts__l_xml=layout, slideMasters__m_xml=master,
        )  # fmt: skip
        data = _with_rels(data, "ppt/slideLayouts/_rels/l.xml.rels", "slideMaster", "../slideMasters/m.xml")

        assert lines(data) == ["top", "middle", "low", "footer"]

    @given(st.lists(st.tuples(*[st.integers(0, 40)] * 4), max_size=12))
    def test_any_boxes_have_an_order(self, places: list[tuple[int, int, int, int]]) -> None:
        """Each box once."""
        boxes = [Box(*place, number) for number, place in enumerate(places)]

        assert sorted(box.item for box in in_reading_order(boxes)) == list(range(len(places)))


class TestContent:
    """What is read of a slide."""

    def test_paragraphs_keep_their_list_markers_and_links(self) -> None:
        """Numbers count, a vertical tab is a line break, slide numbers are no text."""
        body = (
            '<a:p><a:pPr><a:buAutoNum startAt="3"/></a:pPr><a:r><a:t>one</a:t></a:r></a:p>'
            '<a:p><a:pPr lvl="1"><a:buChar char="x"/></a:pPr><a:r><a:t>deep_x000B_er</a:t></a:r></a:p>'
            '<a:p><a:pPr><a:buAutoNum startAt="3"/></a:pPr>'
            '<a:r><a:rPr><a:hlinkClick r:id="u"/></a:rPr>'
            '<a:t>two</a:t></a:r><a:br/><a:r><a:t>more</a:t></a:r><a:fld type="slidenum"><a:t>9</a:t></a:fld></a:p>'
        )
        data = pptx(f"<p:sp><p:spPr/><p:txBody>{body}</p:txBody></p:sp>", {"u": ("hyperlink", "https://example.org/")})

        assert lines(data) == ["3. one", "  - deep", "er", "4. two", "more (two: https://example.org/)"]

    def test_notes_and_comments(self) -> None:
        """The notes' body without the page furniture; comments as an option."""
        shapes = shape("7", placeholder='type="sldNum"') + shape("Say it.", placeholder='type="body"')
        notes = part("p:notes", f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>")
        comments = part("p:cmLst", "<p:cm><p:text>Really?</p:text></p:cm>")
        data = pptx(
            shape("text"),
            {"n": ("notesSlide", "../notes.xml"), "c": ("comments", "../comments.xml")},
            notes_xml=notes,
            comments_xml=comments,
        )

        assert lines(data) == ["text", "Notes:", "Say it."]
        assert lines(data, include_notes=False, include_comments=True) == ["text", "Comments:", "Really?"]

    def test_charts_have_their_title_categories_and_series(self) -> None:
        """Written with python-pptx."""
        deck = python_pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        data = CategoryChartData()
        data.categories = ["Oslo", "Bergen"]
        data.add_series("2023", (763, 2250.5))
        data.add_series("2024", (None, 2300))
        frame = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(3), data)
        frame.chart.has_title = True
        frame.chart.chart_title.text_frame.text = "Rain"

        assert lines(saved(deck)) == [
            "Chart: Rain", "|  | 2023 | 2024 |", "| --- | --- | --- |",
            "| Oslo | 763 |  |", "| Bergen | 2250.5 | 2300 |",
        ]  # fmt: skip

    def test_merged_cells_shift_no_column(self) -> None:
        """The text in the first cell, the others empty."""
        deck = python_pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        table = slide.shapes.add_table(2, 3, 0, 0, Inches(4), Inches(1)).table
        for row in range(2):
            for column in range(3):
                table.cell(row, column).text = f"r{row}c{column}"
        table.cell(0, 0).merge(table.cell(0, 1))

        assert lines(saved(deck)) == ["| r0c0<br>r0c1 |  | r0c2 |", "| --- | --- | --- |", "| r1c0 | r1c1 | r1c2 |"]

    def test_images_follow_the_slide_with_their_description(self) -> None:
        """Without images the description stands in the text, in place."""
        deck = python_pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = "Gauge"
        image = slide.shapes.add_picture(BytesIO(png_sample()), 0, Inches(2))
        image._element.nvPicPr.cNvPr.set("descr", "A rain gauge")

        first, second = sections(saved(deck))

        assert first.text == "<slide index=1>\n# Gauge\n</slide>"
        assert (second.text, second.metadata) == ("A rain gauge", {"slide": 1, "media_type": "image/png"})
        assert second.heading_path == ["Gauge"]
        assert lines(saved(deck), include_image=False) == ["# Gauge", "[Image: A rain gauge]"]

    def test_smartart_is_read_from_its_data(self) -> None:
        """One line a point."""
        point = '<dgm:pt modelId="1"><dgm:t><a:p><a:r><a:t>Collect</a:t></a:r></a:p></dgm:t></dgm:pt>'
        frame = '<p:graphicFrame><a:graphic><dgm:relIds r:dm="d"/></a:graphic></p:graphicFrame>'
        data = pptx(
            frame, {"d": ("diagramData", "../diagrams/d.xml")},
            diagrams__d_xml=part("dgm:dataModel", f"<dgm:ptLst>{point}</dgm:ptLst>"),
        )  # fmt: skip

        assert lines(data) == ["- Collect"]

    def test_one_branch_of_alternatives_is_read(self) -> None:
        """The first that says something."""
        both = f"<mc:Choice Requires='x'><p:sp/></mc:Choice><mc:Fallback>{shape('old')}</mc:Fallback>"

        assert lines(pptx(f"<mc:AlternateContent>{both}</mc:AlternateContent>")) == ["old"]


class TestSections:
    """How slides become Sections."""

    def _deck(self) -> bytes:
        deck = python_pptx.Presentation()
        for title in ("One", "", "Three"):
            slide = deck.slides.add_slide(deck.slide_layouts[5 if title else 6])
            if title:
                slide.shapes.title.text = title
        slide._element.set("show", "0")
        table = slide.shapes.add_table(1, 2, 0, Inches(3), Inches(4), Inches(1)).table
        table.cell(0, 0).text = "cell"
        return saved(deck)

    def test_an_empty_slide_gives_nothing_and_a_hidden_one_is_marked(self) -> None:
        """Numbers count all slides."""
        found = sections(self._deck())

        assert [section.metadata for section in found] == [{"slide": 1}, {"slide": 3, "hidden": True}]

    def test_hidden_slides_can_be_left_out(self) -> None:
        """Without changing the numbers of the others."""
        assert [section.metadata for section in sections(self._deck(), include_hidden=False)] == [{"slide": 1}]

    def test_a_separate_table_has_no_slide_tags(self) -> None:
        """And no Section consists of tags alone."""
        texts = [section.text for section in sections(self._deck(), separate_table=True)]

        assert texts == [
            "<slide index=1>\n# One\n</slide>",
            "<slide index=3>\n# Three\n</slide>",
            "| cell |  |\n| --- | --- |",
        ]

    def test_the_tags_are_options(self) -> None:
        """Offsets of headings follow."""
        section = sections(self._deck(), slide_prefix="[{index}] ->", slide_suffix="")[0]

        assert section.text == "[1] ->\n# One"
        assert section.text[section.headings[0].offset :] == "# One"

    @pytest.mark.parametrize("prefix", ["{number}", "{", "{index.x}", "{0}"])
    def test_an_unknown_placeholder_is_an_error_at_construction(self, prefix: str) -> None:
        """Not in the middle of a file."""
        with pytest.raises(ValueError, match="slide_prefix"):
            PPTParser(slide_prefix=prefix)


class TestFiles:
    """What kinds of files are read."""

    def test_a_strict_presentation_reads_like_a_transitional_one(self) -> None:
        """ISO 29500 Strict."""
        assert sections(strict(pptx_sample())) == sections(pptx_sample()) != []

    def test_another_type_is_an_error_that_names_both(self) -> None:
        """By content."""
        with pytest.raises(UnsupportedFormatError, match=r"a\.pptx: the content is .*wordprocessingml"):
            sections(docx_sample())

    def test_a_presentation_without_its_slides_is_an_error(self) -> None:
        """Not an empty success."""
        with pytest.raises(ParseError, match=r"a\.pptx: the presentation has no slide"):
            sections(_without(pptx(shape("x")), "ppt/slides/slide1.xml"))

    def test_the_same_bytes_give_equal_sections(self) -> None:
        """No random ids."""
        assert sections(pptx_sample()) == sections(pptx_sample())


def _files(data: bytes) -> dict[str, str | bytes]:
    from zipfile import ZipFile

    with ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _without(data: bytes, name: str) -> bytes:
    from .samples import zip_of

    return zip_of({key: content for key, content in _files(data).items() if key != name})


def _with_rels(data: bytes, name: str, kind: str, target: str) -> bytes:
    from .ooxml import relations
    from .samples import zip_of

    return zip_of({**_files(data), name: relations({"m": (kind, target)})})


def test_a_picture_in_a_table_cell_is_an_image_of_the_slide() -> None:
    """A cell shows it as its background; bullets and other decoration are none."""
    fill = '<a:tcPr><a:blipFill><a:blip r:embed="i"/></a:blipFill></a:tcPr>'
    cells = f"<a:tc><a:txBody><a:p><a:r><a:t>x</a:t></a:r></a:p></a:txBody></a:tc><a:tc>{fill}</a:tc>"
    table = f"<a:tbl><a:tr>{cells}</a:tr></a:tbl>"
    frame = f"<p:graphicFrame><a:graphic><a:graphicData>{table}</a:graphicData></a:graphic></p:graphicFrame>"
    data = pptx(frame, {"i": ("image", "../media/i.png")}, media__i_png=png_sample())

    text, image = sections(data)

    assert "| x |  |" in text.text
    assert image.metadata == {"slide": 1, "media_type": "image/png"}
