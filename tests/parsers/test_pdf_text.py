"""PDF: what is mended in the text of a page, where outline titles stand, and the fast way to pdfium's functions."""

from __future__ import annotations

import pypdfium2
import pytest

from agent_rag.parsers import PDFParser
from agent_rag.parsers.pdf.ffi import FastPdfium, address
from agent_rag.parsers.pdf.layout import Box, may_have_columns
from agent_rag.parsers.pdf.missing import with_missing_lines
from agent_rag.parsers.pdf.rtl import in_reading_order
from agent_rag.parsers.pdf.text import Bookmark, Outline, clean, has_glued_words

from .samples import pdf_lines, raw_pdf
from .test_pdf import _mapped


@pytest.mark.parametrize(
    ("drawn", "word"),
    [
        ("Timoth´ee", "Timothée"),
        ("Br¨oker", "Bröker"),
        ("Fran¸cois", "François"),
        ("erˆome", "erôme"),
        ("Mikul´ık", "Mikulík"),
    ],
)
def test_an_accent_drawn_before_its_letter_is_put_on_it(drawn: str, word: str) -> None:
    """As TeX draws them; nobody searches for the two apart."""
    assert clean(f"by {drawn} and") == f"by {word} and"


def test_an_accent_that_fits_no_letter_stays() -> None:
    """There is no x with a cedilla, and an accent before a space is no letter's."""
    assert clean("¸x and 5´ ´") == "¸x and 5´ ´"


async def test_latin_words_in_right_to_left_text_stand_alone() -> None:
    """The engine puts the space on the wrong side of the word, and a search for it finds nothing."""
    arabic = {0x41: "ن", 0x42: "م", 0x43: "و"}
    data = _mapped(b"BT /F1 11 Tf 72 700 Td (ABpy C) Tj ET", arabic | {c: chr(c) for c in b"py "})

    for engine in ("auto", "pypdf"):
        text = (await PDFParser(engine=engine).parse(data, "a.pdf"))[0].text  # type: ignore[arg-type]

        assert "py" in text.split()


def test_a_mark_follows_the_letter_it_stands_over() -> None:
    """Turned letter by letter it comes before it, with a space of no width that is none."""
    turned = "ي \u064bضا"
    boxes = [Box(20, 0, 25, 8), Box(15, 0, 15, 0), Box(13, 9, 15, 11), Box(11, 0, 18, 8), Box(6, 0, 10, 8)]

    assert clean(in_reading_order(turned, lambda i: boxes[i])) == "يض\u064bا"


def test_a_mark_over_the_letter_before_it_stays() -> None:
    """In a file that draws in reading order."""
    boxes = [Box(20, 0, 25, 8), Box(21, 9, 23, 11), Box(11, 0, 18, 8)]

    assert in_reading_order("ض\u064bا", lambda i: boxes[i]) == "ض\u064bا"


def test_scripts_without_spaces_and_hyphenated_names_are_not_glued_words() -> None:
    """A page of them is not read a second time by the slow engine."""
    japanese = (
        "AMCは複数選択問題の採点を自動的に行うためのプログラムです LaTeXの環境を用いた代替の方法も説明されています "
    )
    commands = "auto-multiple-choice-association auto-multiple-choice-export auto-multiple-choice-prepare "

    assert not has_glued_words(japanese * 3)
    assert not has_glued_words(commands * 3)


def test_a_title_is_placed_where_it_stands_alone_on_its_line() -> None:
    """Not at the sentence above that names it; a numbering before it and capitals do not matter."""
    text = "Much is told.\nMore on mailing lists follows here, and see resources below.\n" + "word " * 30
    start = len(text)
    text += "\n4.1 Mailing lists\nAsk there.\nRESOURCES\nThere are none."
    outline = Outline([Bookmark(1, "Mailing lists", 0), Bookmark(1, "Resources", 0)])

    _, headings = outline.of_page(0, text)

    assert [h.offset for h in headings] == [text.index("Mailing", start), text.index("RESOURCES")]


def test_the_path_of_a_page_comes_from_the_entries_before_it() -> None:
    """Also from many, in any order of the outline, at any level."""
    marks = [Bookmark(1, "B", 5), Bookmark(2, "b", 6), Bookmark(1, "A", 1), Bookmark(2, "a", 2), Bookmark(3, "aa", 3)]

    outline = Outline(marks)

    assert [outline.of_page(page, "")[0] for page in (0, 4, 7)] == [[], ["A", "a", "aa"], ["B", "b"]]


def test_columns_need_three_lines_with_two_pieces() -> None:
    """Fewer pieces than that are not looked at."""
    assert not may_have_columns("one\ntwo\n\nthree\nfour\nfive\nsix", 8)
    assert may_have_columns("one\ntwo\n\nthree\nfour\nfive\nsix", 9)


def test_the_fast_functions_give_what_pypdfium2_gives() -> None:
    """Text, places, paths and pieces of text of one page."""
    lines = b"100 600 m 400 600 l S 100 500 200 50 re S\n"
    document = pypdfium2.PdfDocument(raw_pdf([lines + pdf_lines((72, 700, "One two"), (300, 650, "Three é"))]))
    page = document[0]
    textpage = page.get_textpage()
    fast, handle = FastPdfium(pypdfium2.raw), address(textpage.raw)

    text, has_char_boxes = fast.text(handle)
    box = fast.char_box(handle, 2)
    pieces = fast.rects(handle, fast.count_rects(handle))
    horizontal, vertical = fast.rules(fast.paths(address(page.raw)))

    assert text == textpage.get_text_range()
    assert has_char_boxes
    assert box == textpage.get_charbox(2)
    assert fast.char_centre(handle, 2) == pytest.approx(((box.left + box.right) / 2, (box.bottom + box.top) / 2))
    assert pieces == [textpage.get_rect(i) for i in range(textpage.count_rects())]
    assert [fast.text_in(handle, piece, 99) for piece in pieces] == [textpage.get_text_bounded(*p) for p in pieces]
    # the bounds of a single line reach its width of 1 beyond its ends
    assert sorted((r.at, r.start, r.end) for r in horizontal) == [(500, 100, 300), (550, 100, 300), (600, 99, 401)]
    assert sorted((r.at, r.start, r.end) for r in vertical) == [(100, 500, 550), (300, 500, 550)]
    textpage.close()
    page.close()
    document.close()


def test_a_loop_in_the_outline_ends() -> None:
    """Each entry comes once."""
    extra = {
        1: b"<</Type/Catalog/Pages 2 0 R/Outlines 101 0 R>>",
        101: b"<</Type/Outlines/First 102 0 R/Last 103 0 R/Count 2>>",
        102: b"<</Title(One)/Parent 101 0 R/Next 103 0 R/Dest[10 0 R/Fit]/First 103 0 R/Last 103 0 R>>",
        103: b"<</Title( Two  words )/Parent 101 0 R/Next 102 0 R/Dest[10 0 R/Fit]>>",
    }
    document = pypdfium2.PdfDocument(raw_pdf([pdf_lines((72, 700, "One"))], extra=extra))

    found = FastPdfium(pypdfium2.raw).bookmarks(address(document.raw))

    assert found == [Bookmark(1, "One", 0), Bookmark(2, "Two words", 0)]
    document.close()


def test_a_missing_line_of_wrongly_mapped_letters_is_left_out() -> None:
    """One engine reads a page's font wrongly where the other does not read all of it."""
    text = "示例文件 使用说明\n"

    assert with_missing_lines(text, "൐Ⴈඪૼ ൕ২໓ࡱ\n示例文件 使用说明") == text
    assert "ひらがなカタカナ한글漢字 αβγ" in with_missing_lines(text, f"ひらがなカタカナ한글漢字 αβγ\n{text}")


def test_lines_that_two_engines_read_differently_are_not_missing() -> None:
    """One of them maps digits and signs of a font to letters."""
    text = "Summary\nJanuary 5, 2021\nUse this template."

    assert with_missing_lines(text, "Summary\njanuary UL RPRQ\nUse this template.") == text
    assert with_missing_lines(text, "Headline\nSummary\nJanuary 5, 2021\nUse this template.") == f"Headline\n{text}"
