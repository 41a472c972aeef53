"""Pictures are decoded, turned and bounded; text in them is recognised on request."""

from __future__ import annotations

import importlib.util
import io
import shutil
import subprocess

import openpyxl
import openpyxl.drawing.image
import pptx
import pypdfium2
import pytest
from PIL import Image

from agent_rag.content import Base64Source, DataBlock
from agent_rag.documents import Section
from agent_rag.errors import ConfigurationError, EmptyFileError, MissingExtraError, ParseError, ParseLimitError
from agent_rag.parsers import (
    ExcelParser,
    ImageParser,
    OCREngine,
    OCRText,
    ODTParser,
    PDFParser,
    PPTParser,
    TesseractOCR,
    WordParser,
)
from agent_rag.parsers.images.ocr import with_recognized_images

from .hostile import picture_bomb
from .ooxml import saved
from .samples import decoded, docx_sample, odt_sample, pdf_lines, picture, raw_pdf
from .test_pdf import _scan

needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None or importlib.util.find_spec("pytesseract") is None,
    reason="apt install tesseract-ocr tesseract-ocr-deu && pip install pytesseract to run this",
)


def _written(*lines: str) -> bytes:
    """A picture of lines of text, drawn by pdfium, whose own font has umlauts."""
    document = pypdfium2.PdfDocument(raw_pdf([pdf_lines(*((72, 700 - 20 * i, line) for i, line in enumerate(lines)))]))
    image = document[0].render(scale=200 / 72).to_pil()
    document.close()
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
async def test_a_picture_is_one_block_with_its_own_bytes(kind: str) -> None:
    """The type comes from the content, whatever the name says."""
    data = picture(kind)

    sections = await ImageParser().parse(data, "cat.xyz")

    media_type = f"image/{kind.lower()}"
    assert [s.metadata for s in sections] == [{"media_type": media_type, "width": 40, "height": 20}]
    assert sections[0].content.source.media_type == media_type
    assert sections[0].content.name == "cat.xyz"
    assert decoded(sections[0].content) == data


async def test_tiff_becomes_png() -> None:
    """No browser and no model shows TIFF."""
    section = (await ImageParser().parse(picture("TIFF"), "a.tiff"))[0]

    assert section.metadata["media_type"] == "image/png"
    assert Image.open(io.BytesIO(decoded(section.content))).getpixel((1, 1)) == (220, 20, 20)


async def test_a_turned_photograph_is_turned() -> None:
    """EXIF orientation 6: a quarter to the right, so the red left half is on top."""
    exif = Image.Exif()
    exif[0x0112] = 6
    data = picture("JPEG", (40, 20), exif=exif)

    section = (await ImageParser().parse(data, "a.jpg"))[0]
    shown = Image.open(io.BytesIO(decoded(section.content)))

    assert (section.metadata["width"], section.metadata["height"]) == shown.size == (20, 40)
    assert shown.getpixel((10, 5))[0] > 180
    assert shown.getpixel((10, 35))[2] > 150
    assert shown.getexif().get(0x0112, 1) == 1


async def test_cmyk_becomes_rgb() -> None:
    """Print colours look inverted in a browser."""
    section = (await ImageParser().parse(picture("JPEG", mode="CMYK"), "a.jpg"))[0]

    assert Image.open(io.BytesIO(decoded(section.content))).mode == "RGB"
    assert section.metadata["media_type"] == "image/jpeg"


async def test_an_animation_keeps_its_bytes() -> None:
    """Its first frame is checked."""
    frames = [Image.new("RGB", (10, 10), colour) for colour in ("red", "green", "blue")]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])

    section = (await ImageParser().parse(buffer.getvalue(), "a.gif"))[0]

    assert decoded(section.content) == buffer.getvalue()


@pytest.mark.parametrize("data", [b"GIF89a", b"just text", b"<svg/>", picture("PNG")[:60], picture("JPEG")[:-200]])
async def test_what_is_no_whole_picture_is_an_error(data: bytes) -> None:
    """It is not called image/jpeg."""
    with pytest.raises(ParseError, match=r"a\.jpg"):
        await ImageParser().parse(data, "a.jpg")
    with pytest.raises(EmptyFileError):
        await ImageParser().parse(b"", "a.jpg")


@pytest.mark.parametrize("side", [10_000, 40_000])
async def test_a_decompression_bomb_is_refused(side: int) -> None:
    """Before anything is decoded; the option is named."""
    with pytest.raises(ParseLimitError, match=r"a\.png.*max_pixels=89,478,485"):
        await ImageParser().parse(picture_bomb(side, side), "a.png")


async def test_the_limit_is_an_option() -> None:
    """Lower, and higher than Pillow's own."""
    with pytest.raises(ParseLimitError, match="max_pixels=100"):
        await ImageParser(max_pixels=100).parse(picture("PNG"), "a.png")
    sections = await ImageParser(max_pixels=200_000_000).parse(picture_bomb(10_000, 10_000), "a.png")
    assert sections[0].metadata["width"] == 10_000


class AsyncEngine:
    async def recognize(self, image: bytes) -> OCRText:
        return OCRText(f"seen {Image.open(io.BytesIO(image)).format}", 88.0)


async def test_an_engine_may_be_async() -> None:
    """The protocol takes both; the text becomes the caption, which a text-only model indexes."""
    section = (await ImageParser(ocr=AsyncEngine()).parse(picture("PNG"), "a.png"))[0]

    assert section.content.caption == section.text == "seen PNG"
    assert section.metadata["ocr_confidence"] == 88.0
    assert isinstance(AsyncEngine(), OCREngine)


@pytest.mark.parametrize(
    ("parser", "data"), [(WordParser, docx_sample()), (ODTParser, odt_sample())], ids=["docx", "odt"]
)
async def test_pictures_in_documents_are_recognised(parser: type[WordParser] | type[ODTParser], data: bytes) -> None:
    """Their text joins the caption, so that a model of text finds them."""
    sections = parser(ocr=AsyncEngine()).parse_here(data, "a")

    (image,) = [section for section in sections if section.content.type == "data"]
    assert image.text == "seen PNG"
    assert image.metadata["ocr_confidence"] == 88.0


async def test_pictures_in_slides_and_sheets_are_recognised() -> None:
    """Beside their alternative text."""
    deck = pptx.Presentation()
    shown = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_picture(io.BytesIO(picture("PNG")), 0, 0)
    shown.name, _ = "a", shown._element.nvPicPr.cNvPr.set("descr", "A bridge")
    workbook = openpyxl.Workbook()
    workbook.active.append(["x"])
    workbook.active.add_image(openpyxl.drawing.image.Image(io.BytesIO(picture("PNG"))), "B2")

    slides = PPTParser(ocr=AsyncEngine()).parse_here(saved(deck), "a.pptx")
    sheets = ExcelParser(include_image=True, ocr=AsyncEngine()).parse_here(saved(workbook), "a.xlsx")

    assert [section.text for section in slides] == ["A bridge\nseen PNG"]
    assert sheets[-1].text == "Picture\nseen PNG"


def test_a_drawing_that_is_no_picture_of_pixels_is_left_with_a_warning() -> None:
    """WMF and EMF; the others go on."""
    block = DataBlock(source=Base64Source(data="AAAA", media_type="image/x-emf"), name="a.emf", caption="A bridge")

    (section,) = with_recognized_images([Section(content=block, source="a.docx")], AsyncEngine())

    assert section.text == "A bridge"
    assert section.warnings == [
        "the text in the picture 'a.emf' is not recognised: image/x-emf is no picture of pixels"
    ]


async def test_scanned_pages_are_recognised() -> None:
    """Only those without text; the flag is gone and the confidence is there."""
    sections = await PDFParser(ocr=AsyncEngine(), isolation="none").parse(_scan(text_on=(2,)), "a.pdf")

    assert [(s.text, s.metadata) for s in sections] == [
        ("seen PNG", {"page": 1, "ocr_confidence": 88.0}),
        ("Typed page 2", {"page": 2}),
        ("seen PNG", {"page": 3, "ocr_confidence": 88.0}),
    ]


@needs_tesseract
async def test_tesseract_reads_a_scan_in_a_worker() -> None:
    """Behind `PDFParser`, with the default isolation."""
    sections = await PDFParser(ocr=TesseractOCR()).parse(_scan(text_on=(2, 3)), "a.pdf")

    assert sections[0].text == "SCANNED WORDS"
    assert sections[0].metadata["ocr_confidence"] > 60
    assert "needs_ocr" not in sections[0].metadata


def _has_german() -> bool:
    listed = subprocess.run(["tesseract", "--list-langs"], capture_output=True, text=True, check=False)
    return "deu" in listed.stdout.split()


@needs_tesseract
async def test_tesseract_reads_lines_and_languages() -> None:
    """German umlauts need the German model."""
    if not _has_german():
        pytest.skip("apt install tesseract-ocr-deu to run this")
    section = (await ImageParser(ocr=TesseractOCR("deu")).parse(_written("Grüße aus Köln", "am Fluss"), "a.png"))[0]

    assert section.text.split() == ["Grüße", "aus", "Köln", "am", "Fluss"]


@needs_tesseract
async def test_words_of_low_confidence_are_dropped() -> None:
    """100 is reached by hardly any word, 0 by all."""
    none = TesseractOCR(min_confidence=100).recognize(_written("Rain in Bergen"))
    everything = TesseractOCR(min_confidence=0).recognize(_written("Rain in Bergen"))

    assert none == OCRText("", 0.0)
    assert everything.text == "Rain in Bergen"


@needs_tesseract
async def test_a_missing_language_says_what_to_install() -> None:
    """Not a bare exit code."""
    with pytest.raises(ConfigurationError, match=r"language 'xyz'.*tesseract-ocr-"):
        TesseractOCR("xyz").recognize(_written("x"))


async def test_without_the_extra_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that exists."""
    monkeypatch.setitem(__import__("sys").modules, "pytesseract", None)

    with pytest.raises(MissingExtraError, match=r"agent-rag-middleware\[ocr\]"):
        await ImageParser(ocr=TesseractOCR()).parse(picture("PNG"), "a.png")
    with pytest.raises(ConfigurationError, match="min_confidence"):
        TesseractOCR(min_confidence=101)
