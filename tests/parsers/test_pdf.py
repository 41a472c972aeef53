"""PDF: pages, what is cleaned, columns, tables, outlines, passwords, scans, and the two engines."""

from __future__ import annotations

import io
from pathlib import Path

import pypdf
import pytest

from agent_rag.errors import ConfigurationError, EmptyFileError, EncryptedFileError, ParseError, ParseLimitError
from agent_rag.parsers import PDFParser
from agent_rag.parsers.pdf import pdf
from agent_rag.parsers.pdf.engines import PDFPage, PypdfEngine
from agent_rag.parsers.pdf.missing import with_missing_lines
from agent_rag.parsers.pdf.text import better_spaced, clean, has_glued_words

from .samples import decoded, pdf_lines, pdf_sample, picture, raw_pdf


async def _texts(data: bytes, **options: object) -> list[str]:
    return [section.text for section in await PDFParser(**options).parse(data, "a.pdf")]  # type: ignore[arg-type]


def _tounicode(mapping: dict[int, str]) -> bytes:
    entries = b"".join(b"<%02X> <%s>\n" % (c, t.encode("utf-16-be").hex().encode()) for c, t in mapping.items())
    program = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /U def /CMapType 2 def\n"
        b"1 begincodespacerange <00> <FF> endcodespacerange\n%d beginbfchar\n%sendbfchar\nendcmap end end"
        % (len(mapping), entries)
    )
    return b"<</Length %d>>stream\n%s\nendstream" % (len(program), program)


def _mapped(stream: bytes, mapping: dict[int, str]) -> bytes:
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding/ToUnicode 100 0 R>>"
    return raw_pdf([stream], extra={100: _tounicode(mapping)}, font=font)


def _scan(*, text_on: tuple[int, ...] = ()) -> bytes:
    """Three pages of which those not in `text_on` are a picture of words."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (1200, 300), 255)
    ImageDraw.Draw(image).text((40, 80), "SCANNED WORDS", fill=0, font=ImageFont.load_default(120))
    raw = image.tobytes()
    content = (
        b"<</Type/XObject/Subtype/Image/Width 1200/Height 300/ColorSpace/DeviceGray/BitsPerComponent 8/Length %d>>"
        b"stream\n%s\nendstream" % (len(raw), raw)
    )
    typed = [pdf_lines((72, 700, f"Typed page {n}")) for n in (1, 2, 3)]
    drawn = b"q 400 0 0 100 72 600 cm /X Do Q"
    pages = [typed[n - 1] if n in text_on else drawn for n in (1, 2, 3)]
    return raw_pdf(pages, resources=b"/XObject<</X 101 0 R>>", extra={101: content})


def _saved(writer: pypdf.PdfWriter) -> bytes:
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("engine", ["auto", "pdfium", "pypdf"])
async def test_every_page_is_a_section(engine: str) -> None:
    """Counted from 1, blank ones too."""
    data = raw_pdf([pdf_lines((72, 700, "One.")), b"", pdf_lines((72, 700, "Three."))])

    sections = await PDFParser(engine=engine).parse(data, "a.pdf")  # type: ignore[arg-type]

    assert [(s.text, s.metadata) for s in sections] == [
        ("One.", {"page": 1}),
        ("", {"page": 2}),
        ("Three.", {"page": 3}),
    ]


async def test_ligatures_and_nuls_do_not_hide_words() -> None:
    """P35: the glyph of ffi is three letters, and a NUL is nothing."""
    mapping = {c: chr(c) for c in range(32, 127)} | {0x80: "ﬁ", 0x81: "ﬀ", 0x82: "\x00"}

    data = _mapped(b"BT /F1 11 Tf 72 700 Td (o\x81er \x80le) Tj 0 -20 Td (tail\x82end) Tj ET", mapping)

    for engine in ("auto", "pypdf"):
        assert (await _texts(data, engine=engine)) == ["offer file\ntailend"]


def test_cleaning_joins_words_cut_at_line_ends() -> None:
    """pdfium writes U+FFFE for a soft hyphen; controls go, line ends are newlines."""
    assert clean("data\ufffe\r\nbase and so\xadft\x0c, co\xad\nop \x07ok  \r\nend") == "database and soft, coop ok\nend"
    assert clean("well-\nknown", join_hyphens=True) == "wellknown"
    assert clean("A-\nB 5-\n6", join_hyphens=True) == "A-\nB 5-\n6"
    assert clean("\ufef5\ufe8e") == "لآا"


async def test_kerning_makes_no_spaces() -> None:
    """P37."""
    assert await _texts(raw_pdf([b"BT /F1 11 Tf 72 700 Td [(Bei) -20 (ra) -20 ( R) 30 (io)] TJ ET"])) == ["Beira Rio"]


async def test_two_columns_are_read_one_after_the_other() -> None:
    """P41: between a title and a footer, from a file that draws row by row."""
    left = ["Left one", "left two", "left three."]
    right = ["Right one", "right two", "right three."]
    rows = [(72, 740, "A title across both of the columns of this page")]
    for i in range(3):
        rows += [(72, 700 - 14 * i, left[i]), (330, 700 - 14 * i, right[i])]
    rows.append((72, 600, "A footer across both of the columns of this page"))

    text = " ".join((await _texts(raw_pdf([pdf_lines(*rows)])))[0].split())

    assert text == (
        "A title across both of the columns of this page Left one left two left three. "
        "Right one right two right three. A footer across both of the columns of this page"
    )


async def test_a_table_without_rules_is_read_row_by_row() -> None:
    """Cells that begin in capitals and numbers are no running text."""
    cells = [("Oslo", "763 mm"), ("Bergen", "2250 mm"), ("Tromso", "1031 mm"), ("Bodo", "1070 mm")]
    rows = [entry for i, (a, b) in enumerate(cells) for entry in ((72, 700 - 14 * i, a), (330, 700 - 14 * i, b))]

    text = " ".join((await _texts(raw_pdf([pdf_lines(*rows)])))[0].split())

    assert text == "Oslo 763 mm Bergen 2250 mm Tromso 1031 mm Bodo 1070 mm"


async def test_right_to_left_words_are_in_reading_order() -> None:
    """P43: glyphs drawn left to right as they look; and the two letters of a lam-alef glyph."""
    hebrew = {0x41: "ם", 0x42: "ו", 0x43: "ל", 0x44: "ש"}
    arabic = {0x41: "ة", 0x42: "لا", 0x43: "ص"}

    assert await _texts(_mapped(b"BT /F1 11 Tf 72 700 Td (ABCD) Tj ET", hebrew)) == ["שלום"]
    assert await _texts(_mapped(b"BT /F1 11 Tf 72 700 Td (ABC) Tj ET", arabic)) == ["صلاة"]


async def test_a_ruled_table_becomes_markdown_in_its_place() -> None:
    """Lines or boxes; a cell without an inner rule spans, and two lines in a cell are one text."""
    lines = b"".join(b"100 %d m 400 %d l S\n" % (y, y) for y in (600, 640, 660, 680))
    lines += b"100 600 m 100 680 l S 400 600 m 400 680 l S 250 600 m 250 660 l S\n"
    text = pdf_lines(
        (72, 720, "Before."), (110, 665, "Rain in Norway"), (110, 645, "City"), (260, 645, "mm"),
        (110, 625, "Oslo and"), (110, 610, "around"), (260, 625, "763"), (72, 560, "After."),
    )  # fmt: skip

    assert await _texts(raw_pdf([lines + text])) == [
        "Before.\n\n| Rain in Norway |  |\n| --- | --- |\n| City | mm |\n| Oslo and around | 763 |\n\nAfter."
    ]


async def test_the_outline_gives_the_heading_path() -> None:
    """Titles at the top of a page are above it; those further down are headings with their offset."""
    reader = pypdf.PdfReader(
        io.BytesIO(
            raw_pdf(
                [
                    pdf_lines((72, 700, "Rain"), (72, 680, "Words.")),
                    pdf_lines((72, 700, "More words that go on."), (72, 680, "Oslo"), (72, 660, "Dry.")),
                    pdf_lines((72, 700, "Still Oslo.")),
                    pdf_lines((72, 700, "x " * 80), (72, 680, "y " * 80), (72, 660, "Wind"), (72, 640, "Calm.")),
                ]
            )
        )
    )
    writer = pypdf.PdfWriter(clone_from=reader)
    rain = writer.add_outline_item(title="Rain", page_number=0)
    writer.add_outline_item(title="Oslo", page_number=1, parent=rain)
    writer.add_outline_item(title="Wind", page_number=3)

    for engine in ("auto", "pypdf"):
        sections = await PDFParser(engine=engine).parse(_saved(writer), "a.pdf")  # type: ignore[arg-type]
        paths = [[s.heading_path_at(0), s.heading_path_at(len(s.text))] for s in sections]

        assert paths[0] == [["Rain"], ["Rain"]]
        assert paths[1] in ([["Rain"], ["Rain", "Oslo"]], [["Rain", "Oslo"], ["Rain", "Oslo"]])
        assert paths[2] == [["Rain", "Oslo"], ["Rain", "Oslo"]]
        assert paths[3] == [["Rain", "Oslo"], ["Wind"]]
        assert sections[3].text[sections[3].headings[-1].offset :].startswith("Wind")


@pytest.mark.parametrize("engine", ["auto", "pdfium", "pypdf"])
@pytest.mark.parametrize("algorithm", ["AES-256", "RC4-128"])
async def test_a_password_opens_an_encrypted_file(engine: str, algorithm: str) -> None:
    """Missing and wrong ones are told apart, and neither is shown."""
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(pdf_sample())))
    writer.encrypt("s3cret", "0wner", algorithm=algorithm)
    data = _saved(writer)

    assert (await _texts(data, engine=engine, password="s3cret"))[1] == "Second."
    with pytest.raises(EncryptedFileError, match=r"a\.pdf: the file is encrypted; pass PDFParser\(password="):
        await _texts(data, engine=engine)
    with pytest.raises(EncryptedFileError, match="encrypted and the given password is wrong") as caught:
        await _texts(data, engine=engine, password="guess")
    assert "guess" not in str(caught.value)
    assert "guess" not in repr(PDFParser(password="guess")) + PDFParser(password="guess").fingerprint


async def test_an_owner_password_alone_hinders_nobody() -> None:
    """The user password is empty: any viewer opens it."""
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(pdf_sample())))
    writer.encrypt("", "0wner", algorithm="AES-256")

    assert (await _texts(_saved(writer)))[1] == "Second."


@pytest.mark.parametrize("engine", ["auto", "pypdf"])
async def test_a_scanned_page_is_reported(engine: str) -> None:
    """P39: never an empty success; its number is kept."""
    sections = await PDFParser(engine=engine).parse(_scan(text_on=(2,)), "a.pdf")  # type: ignore[arg-type]

    assert [(s.text, s.metadata) for s in sections] == [
        ("", {"page": 1, "needs_ocr": True}),
        ("Typed page 2", {"page": 2}),
        ("", {"page": 3, "needs_ocr": True}),
    ]


async def test_embedded_images_come_on_request() -> None:
    """As Sections after their page; a JPEG keeps its bytes, and without the option there are none."""
    jpeg = picture("JPEG", (64, 32))
    content = (
        b"<</Type/XObject/Subtype/Image/Width 64/Height 32/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode"
        b"/Length %d>>stream\n%s\nendstream" % (len(jpeg), jpeg)
    )
    page = pdf_lines((72, 700, "With a picture.")) + b"q 64 0 0 32 72 600 cm /X Do Q"
    data = raw_pdf([page], resources=b"/XObject<</X 101 0 R>>", extra={101: content})

    sections = await PDFParser(include_image=True).parse(data, "a.pdf")

    assert [s.metadata for s in sections] == [{"page": 1}, {"page": 1, "media_type": "image/jpeg"}]
    assert decoded(sections[1].content) == jpeg
    assert len(await PDFParser().parse(data, "a.pdf")) == 1
    scans = await PDFParser(include_image=True).parse(_scan(), "a.pdf")
    assert [s.metadata.get("media_type") for s in scans[:2]] == [None, "image/png"]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", EmptyFileError, "0 bytes"),
        (pdf_sample()[: len(pdf_sample()) // 2], ParseError, "cannot be read as PDF"),
        (b"%PDF-1.7\n" + b"\x00" * 500, ParseError, "cannot be read as PDF"),
        (b"<html>404</html>", ParseError, "this is no PDF"),
        (raw_pdf([]), ParseError, "no pages"),
    ],
    ids=["empty", "truncated", "zeros", "html", "no pages"],
)
async def test_a_damaged_file_is_a_parse_error_that_names_it(data: bytes, error: type[ParseError], words: str) -> None:
    """P45: the package's own type, the file's name, the library's exception chained."""
    with pytest.raises(error, match=rf"x\.pdf: .*{words}") as caught:
        await PDFParser().parse(data, "x.pdf")

    if words == "cannot be read as PDF":
        assert caught.value.__cause__ is not None


async def test_pages_are_bounded() -> None:
    """The limit names its option."""
    with pytest.raises(ParseLimitError, match=r"a\.pdf: 2 pages is over the limit max_pages=1"):
        await PDFParser(max_pages=1).parse(pdf_sample(), "a.pdf")
    with pytest.raises(ConfigurationError, match="engine is 'mupdf'"):
        PDFParser(engine="mupdf")  # type: ignore[arg-type]


async def test_a_bad_page_costs_that_page(caplog: pytest.LogCaptureFixture) -> None:
    """One without a valid object among good ones."""
    data = raw_pdf([pdf_lines((72, 700, "One.")), b"", pdf_lines((72, 700, "Three."))])
    broken = data.replace(b"12 0 obj\n<</Type/Page/", b"12 0 obj\n<</Type/Pxxx/")

    for engine in ("auto", "pypdf"):
        texts = await _texts(broken, engine=engine)
        assert "One." in texts
        assert "Three." in texts


def test_glued_words_are_recognised_and_replaced() -> None:
    """By the mean length of Latin tokens; German compounds, addresses and code pass."""
    assert has_glued_words("WhatisEarthScience? Earthscienceisthestudy ofourplanetearth andmore")
    assert not has_glued_words("Die Donaudampfschifffahrtsgesellschaft stellte einen Kapitän ein und bezahlte ihn.")
    assert not has_glued_words("see https://example.org/a/very/long/address/indeed and /usr/share/doc/some_thing_long")
    assert better_spaced("What is Earth Science? Earth science is a study", "WhatisEarthScience? Earthscience isastudy")
    assert not better_spaced("What is", "WhatisEarthScience? Earthscience isastudy")
    assert not better_spaced("W h a t i s", "WhatisEarthScience? Earthscienceisthe studyofourplanet")
    # The other engine maps the letters wrongly, or the long tokens are a program's.
    assert not better_spaced("൐Ⴈ ඪૼ ൕ২ study of our planet ໓ࡱ", "使用说明示例文件 studyofourplanet andmore")
    assert not has_glued_words(
        "type=[bachelor|master|doctor], printmode=[oneside|twoside|auto] \\usepackage{hitszthesis}" * 3
    )


async def test_glued_and_failed_pages_are_tried_with_the_other_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page; what the other engine cannot better stays."""
    first = [PDFPage("Theseareglued wordsonthispage withoutanyspaces"), PDFPage(failed="no such page")]
    monkeypatch.setattr(pdf.PdfiumEngine, "page", lambda self, index, images: first[index])
    pages = [
        pdf_lines((72, 700, "These are glued words on this page without any spaces")),
        pdf_lines((72, 700, "Two.")),
    ]

    sections = await PDFParser(isolation="none").parse(raw_pdf(pages), "a.pdf")

    assert [s.text for s in sections] == ["These are glued words on this page without any spaces", "Two."]
    assert sections[1].metadata == {"page": 2}


async def test_a_page_that_nobody_can_read_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In its metadata and in the log; the others are read."""
    monkeypatch.setattr(PypdfEngine, "page", lambda self, index, images: PDFPage(failed=f"broken {index}"))

    sections = await PDFParser(engine="pypdf", isolation="none").parse(pdf_sample(), "a.pdf")

    assert [s.metadata for s in sections] == [{"page": 1, "error": "broken 0"}, {"page": 2, "error": "broken 1"}]
    assert "a.pdf: page 2 cannot be read: broken 1" in caplog.text


async def test_values_of_form_fields_are_read() -> None:
    """They are drawn by annotations, not by the page."""
    look = b"/Tx BMC BT /F1 11 Tf 2 4 Td (Filled in by hand) Tj ET EMC"
    extra = {
        1: b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[101 0 R]>>>>",
        10: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 11 0 R/Resources<</Font<</F1 3 0 R>>>>"
        b"/Annots[101 0 R]>>",
        101: b"<</Type/Annot/Subtype/Widget/FT/Tx/T(a)/V(Filled in by hand)/Rect[72 600 300 620]/F 4/P 10 0 R"
        b"/AP<</N 102 0 R>>>>",
        102: b"<</Type/XObject/Subtype/Form/BBox[0 0 228 20]/Resources<</Font<</F1 3 0 R>>>>/Length %d>>"
        b"stream\n%s\nendstream" % (len(look), look),
    }

    text = (await _texts(raw_pdf([pdf_lines((72, 700, "Name:"))], extra=extra)))[0]

    assert text.split("\n") == ["Name:", "Filled in by hand"]


async def test_it_works_without_isolation_from_several_threads(tmp_path: Path) -> None:
    """pdfium is not thread-safe: a lock makes the documents wait for one another."""
    import asyncio

    parser = PDFParser(isolation="none")

    results = await asyncio.gather(*(parser.parse(pdf_sample(), "a.pdf") for _ in range(8)))

    assert all(result == results[0] for result in results)


_CELLS = [
    (
        "What does the canteen cost?",
        "The daily lunch costs four euros fifty for all",
        "members of the staff and their guests.",
    ),
    ("May I bring a bicycle?", "You have to leave it in the basement, where", "racks have been set up near the lift."),
    (
        "Who repairs the printers?",
        "The service desk does. Please send a ticket",
        "with the number printed on its label.",
    ),
    (
        "When are salaries paid?",
        "On the last working day of each month, into",
        "the account in the personal data sheet.",
    ),
]


@pytest.mark.parametrize("rules", ["", "lines", "bands"])
@pytest.mark.parametrize("gap", [0, 4, 9])
async def test_a_table_of_text_is_read_row_by_row(gap: int, rules: str) -> None:
    """Whatever is drawn between its rows, and though its cells are sentences that run on."""
    drawn, shown = b"", []
    for row, (question, first, second) in enumerate(_CELLS):
        y = 700 - (26 + gap) * row
        drawn += b"72 %d m 540 %d l S\n" % (y + 12, y + 12) if rules == "lines" else b""
        drawn += b".9 g 72 %d 468 26 re f 0 g\n" % (y - 15) if rules == "bands" and row % 2 else b""
        shown += [(72, y, question), (260, y, first), (260, y - 13, second)]

    (text,) = await _texts(raw_pdf([drawn + pdf_lines(*shown)]))

    assert " ".join(text.split()) == " ".join(" ".join(row) for row in _CELLS)


async def test_long_cells_on_both_sides_are_rows_where_they_begin_together() -> None:
    """A register of risks whose program wrote it line by line across both columns."""
    risk = [
        "The supplier of the cooling units may not",
        "be able to deliver in time because of a",
        "strike in the factory.",
    ]
    answer = [
        "We order from a second supplier as well",
        "and keep a stock of spare parts that will",
        "last for three months.",
    ]
    shown = [(x, 700 - 13 * (4 * row + line), texts[line]) for row in range(3) for line in range(3)
             for x, texts in ((72, risk), (330, answer))]  # fmt: skip

    (text,) = await _texts(raw_pdf([pdf_lines(*shown)]))

    assert text.splitlines()[0].startswith("The supplier of the cooling units may not We order")


async def test_columns_of_paragraphs_are_read_one_after_the_other() -> None:
    """From a file that draws row by row: the paragraphs begin at heights of their own."""
    text = "rain falls on the western coast in autumn and it rarely ends before the winter has begun there"
    words = text.split()
    left = [" ".join(words[(3 * i + k) % len(words)] for k in range(7)) for i in range(14)]
    right = [" ".join(words[(5 * i + k) % len(words)] for k in range(7)) for i in range(14)]
    left[5], right[9] = "It stops.", "It begins."
    shown = [(x, 700 - 13 * i, texts[i]) for i in range(14) for x, texts in ((72, left), (330, right))]

    (page,) = await _texts(raw_pdf([pdf_lines(*shown)]))

    assert page.splitlines() == [*left, *right]


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        ([(100, 700 - 14 * i, digit) for i, digit in enumerate("543")], ["5", "4", "3"]),
        ([(100, 700 - 14 * i, text) for i, text in enumerate(["1", "20", "3"])], ["1", "20", "3"]),
        ([(100, 700 - 14 * i, text) for i, text in enumerate("ACD")], ["A", "C", "D"]),
    ],
)
async def test_characters_one_below_another_are_no_word(shown: list[tuple[int, int, str]], lines: list[str]) -> None:
    """A column of scores or answers."""
    assert (await _texts(raw_pdf([pdf_lines(*shown)])))[0].split("\n") == lines


async def test_a_turned_word_stays_whole() -> None:
    """Its letters stand one above another too."""
    assert await _texts(raw_pdf([b"BT /F1 11 Tf 0 1 -1 0 100 500 Tm (ABSTRACT) Tj ET"])) == ["ABSTRACT"]


async def test_squared_paper_behind_a_text_is_no_table() -> None:
    """Its rules go through the words."""
    squares = b"".join(b"%d 600 m %d 720 l S\n" % (x, x) for x in range(60, 320, 14))
    squares += b"".join(b"60 %d m 310 %d l S\n" % (y, y) for y in range(600, 721, 14))
    shown = pdf_lines((72, 700, "Rain falls on the western coast"), (72, 686, "and it rarely ends in autumn"))

    assert await _texts(raw_pdf([squares + shown])) == ["Rain falls on the western coast\nand it rarely ends in autumn"]


def _with_annotations(annotations: list[bytes], *, form: bytes = b"") -> bytes:
    """A page with the text "Base"; the annotations are objects from 101 on, and all are fields of a form."""
    numbers = range(101, 101 + len(annotations))
    named = b" ".join(b"%d 0 R" % number for number in numbers)
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 11 0 R/Resources<</Font<</F1 3 0 R>>>>"
        b"/Annots[%s]>>" % named
    )
    catalog = b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[%s]/DR<</Font<</F1 3 0 R>>>>%s>>>>" % (named, form)
    return raw_pdf(
        [pdf_lines((72, 700, "Base"))], extra={1: catalog, 10: page, **dict(zip(numbers, annotations, strict=True))}
    )


_FIELD = b"<</Type/Annot/Subtype/Widget/Rect[72 %d 300 %d]/F 4/DA(/F1 11 Tf 0 g)"


@pytest.mark.parametrize("form", [b"", b"/NeedAppearances true"])
async def test_values_of_fields_without_looks_are_read(form: bytes) -> None:
    """A viewer draws them; the label is what the form shows for it."""
    fields = [
        _FIELD % (600, 620) + b"/FT/Tx/T(f1)/TU(Surname)/V(Quillfeather)>>",
        _FIELD % (560, 580) + b"/FT/Ch/Ff 131072/T(f2)/Opt[[(li)(Liechtenstein)][(no)(Norway)]]/V(li)>>",
    ]

    (text,) = await _texts(_with_annotations(fields, form=form))

    assert text.startswith("Base\n")
    assert "Quillfeather" in text
    assert "Liechtenstein" in text


async def test_text_typed_onto_the_page_is_read_and_comments_are_counted() -> None:
    """A FreeText annotation is part of the page; a note of a reviewer comes on request."""
    data = _with_annotations(
        [
            b"<</Type/Annot/Subtype/FreeText/Rect[72 600 300 620]/DA(/F1 11 Tf)/Contents(Reviewed by Kari)>>",
            b"<</Type/Annot/Subtype/Text/Rect[72 500 90 520]/T(Ola)/Contents(Is that so?)>>",
        ]
    )

    (section,) = await PDFParser().parse(data, "a.pdf")

    assert section.text == "Base\nReviewed by Kari"
    assert section.warnings == ["page 1: 1 comment(s) are not read; pass PDFParser(include_comments=True)"]
    assert await _texts(data, include_comments=True) == ["Base\nReviewed by Kari\nComments:\nOla: Is that so?"]


async def test_an_encrypted_file_says_nothing_about_the_next_one() -> None:
    """pdfium keeps its last error."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf_sample()))
    writer.encrypt("secret", algorithm="AES-256")
    locked = io.BytesIO()
    writer.write(locked)
    parser = PDFParser(isolation="none")

    with pytest.raises(EncryptedFileError):
        parser.parse_here(locked.getvalue(), "locked.pdf")
    with pytest.raises(ParseError) as caught:
        parser.parse_here(pdf_sample()[:300], "cut.pdf")

    assert not isinstance(caught.value, EncryptedFileError)


def test_lines_that_one_engine_lacks_are_put_before_the_line_that_follows() -> None:
    """Glyph names are no text."""
    other = "Annual Report\nIt rains in Bergen.\n/g12/g13 /g14\nSource: yr.no\n"

    assert with_missing_lines("It rains in Bergen.\nOften.", other) == (
        "Annual Report\nIt rains in Bergen.\nOften.\nSource: yr.no"
    )
