"""Small honest files of every format, made here, so that no test needs somebody else's."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from email.message import EmailMessage
from typing import Any

TABLE = [["City", "Rain mm"], ["Oslo", "763"], ["Bergen", "2250"]]


def raw_pdf(
    pages: Iterable[bytes], *, resources: bytes = b"", extra: dict[int, bytes] | None = None, font: bytes | None = None
) -> bytes:
    """A PDF of one content stream a page, with font /F1 and further objects from number 100."""
    font = font or b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    objects = {1: b"<</Type/Catalog/Pages 2 0 R/Outlines 99 0 R>>", 3: font, 99: b"<</Type/Outlines>>"}
    kids = []
    for index, stream in enumerate(pages):
        page, content = 10 + 2 * index, 11 + 2 * index
        kids.append(b"%d 0 R" % page)
        objects[page] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>%s>>>>"
            % (content, resources)
        )
        objects[content] = b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream)
    objects[2] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(kids))
    return pdf_of(objects | (extra or {}))


def pdf_of(objects: dict[int, bytes]) -> bytes:
    """A PDF file of numbered objects, the first being its catalog."""
    out, places = bytearray(b"%PDF-1.4\n"), {}
    for number in sorted(objects):
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    start, top = len(out), max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % top
    for number in range(1, top):
        out += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 00000 f \n"
    out += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (top, start)
    return bytes(out)


def pdf_lines(*lines: tuple[float, float, str]) -> bytes:
    """A content stream that shows texts at (x, y)."""
    shown = (b"BT /F1 11 Tf 1 0 0 1 %d %d Tm (%s) Tj ET\n" % (x, y, text.encode("cp1252")) for x, y, text in lines)
    return b"".join(shown)


def pdf_sample() -> bytes:
    return raw_pdf(
        [pdf_lines((72, 700, "First page of rain."), (72, 680, "More words here.")), pdf_lines((72, 700, "Second."))]
    )


def docx_sample() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Rain", 1)
    document.add_paragraph("It rains in Bergen.")
    _fill(document.add_table(3, 2))
    document.add_picture(io.BytesIO(png_sample()))
    return _saved(document)


def pptx_sample() -> bytes:
    import pptx
    from pptx.util import Inches

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Rain in Norway"
    _fill(slide.shapes.add_table(3, 2, Inches(1), Inches(2), Inches(4), Inches(2)).table)
    slide.notes_slide.notes_text_frame.text = "Mention Bergen."
    return _saved(deck)


def xlsx_sample() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    for row in TABLE:
        book.active.append(row)
    book.create_sheet("Notes").append(["Mention Bergen."])
    return _saved(book)


def ods_sample() -> bytes:
    return ods_of(
        "".join(
            "<table:table-row>"
            + "".join(
                f'<table:table-cell office:value-type="string"><text:p>{c}</text:p></table:table-cell>' for c in row
            )
            + "</table:table-row>"
            for row in TABLE
        ),
        name="Rain",
    )


def ods_of(rows: str, *, name: str = "S") -> bytes:
    """A workbook of one sheet."""
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {names} '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><office:body><office:spreadsheet>'
        f'<table:table table:name="{name}">{rows}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = (
        '<?xml version="1.0" encoding="UTF-8"?><manifest:manifest '
        'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>'
    )
    return zip_of({"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest})


def epub_sample() -> bytes:
    def chapter(title: str, text: str) -> str:
        return f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p></body></html>"

    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<dc:title>The Book of Rain</dc:title></metadata><manifest>"
        '<item id="b" href="second%20part.xhtml"/><item id="a" href="first.xhtml"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
    )
    return zip_of(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OPS/book.opf": package,
            "OPS/second part.xhtml": chapter("Bergen", "It rains on 239 days."),
            "OPS/first.xhtml": chapter("Oslo", "It rains less."),
        }
    )


ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_ODF_PREFIXES = {
    "office": "office", "text": "text", "table": "table", "draw": "drawing", "style": "style",
    "svg": "svg-compatible", "presentation": "presentation",
}  # fmt: skip


def opendocument(kind: str, body: str, *, styles: str = "", **parts: str | bytes) -> bytes:
    """An OpenDocument file of this kind ("text", "presentation") with a picture; further parts by name (_ for .)."""
    names = " ".join(f'xmlns:{prefix}="{ODF}{name}:1.0"' for prefix, name in _ODF_PREFIXES.items())
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {names} '
        f'xmlns:xlink="http://www.w3.org/1999/xlink"><office:automatic-styles>{styles}</office:automatic-styles>'
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    more = {name.replace("_", "."): content for name, content in parts.items()}
    return zip_of({"mimetype": media_type, "content.xml": content, "Pictures/red.png": png_sample(), **more})


def odt_sample() -> bytes:
    rows = "".join(
        "<table:table-row>" + "".join(f"<table:table-cell><text:p>{c}</text:p></table:table-cell>" for c in row)
        + "</table:table-row>"
        for row in TABLE
    )  # fmt: skip
    return opendocument(
        "text",
        '<text:h text:outline-level="1">Rain</text:h>'
        "<text:p>It rains<text:s/>in <text:span>Bergen</text:span>.</text:p>"
        f"<table:table>{rows}</table:table><text:p><draw:frame><draw:image xlink:href='Pictures/red.png'/></draw:frame>"
        "</text:p>",
    )


def odp_sample() -> bytes:
    frame = "<draw:frame {}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    return opendocument(
        "presentation",
        "<draw:page>"
        + frame.format('presentation:class="outline" svg:x="1cm" svg:y="5cm"', "It rains.")
        + frame.format('presentation:class="title" svg:x="1cm" svg:y="1cm"', "Rain in Norway")
        + "<presentation:notes>" + frame.format('presentation:class="notes"', "Mention Bergen.")
        + "</presentation:notes></draw:page>",
    )  # fmt: skip


def rtf_sample() -> bytes:
    return (
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\stylesheet{\s1 heading 1;}}\pard\s1 Rain\par"
        rb"\pard It rains in \'c5lesund \u8211? often.\par\trowd\cellx1\cellx2\pard\intbl City\cell Rain mm\cell\row"
        rb"\pard\intbl Oslo\cell 763\cell\row\pard{\pict\pngblip " + png_sample().hex().encode() + rb"}\par}"
    )


def notebook_sample() -> bytes:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Rain\n", "\n", "It rains."]},
        {
            "cell_type": "code",
            "metadata": {},
            "source": "print(rain)",
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["763\n", "2250\n"]}],
        },
    ]
    about = {"language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}).encode()


def email_sample() -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = (
        "Ola <ola@example.org>",
        "kari@example.org",
        "Regn i Bergen – målt",
    )
    message.set_content("The table is attached.\n")
    message.add_alternative("<p>The <b>table</b> is attached.</p>", subtype="html")
    message.add_attachment(b"City,Rain mm\nOslo,763\n", maintype="text", subtype="csv", filename="rain.csv")
    return message.as_bytes()


def png_sample(size: tuple[int, int] = (40, 20)) -> bytes:
    return picture("PNG", size)


def picture(kind: str, size: tuple[int, int] = (40, 20), mode: str = "RGB", **options: Any) -> bytes:
    """A picture whose left half is red (in RGB)."""
    from PIL import Image

    image = Image.new("RGB", size, (20, 60, 200))
    image.paste((220, 20, 20), (0, 0, size[0] // 2, size[1]))
    buffer = io.BytesIO()
    image.convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


def zip_of(files: dict[str, str | bytes]) -> bytes:
    """A zip; a file called mimetype is stored uncompressed, as EPUB and OpenDocument want it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            kind = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return buffer.getvalue()


def html_sample() -> bytes:
    rows = "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in TABLE)
    return f"<html><title>Rain</title><body><h1>Rain</h1><p>It rains.</p><table>{rows}</table></body></html>".encode()


SAMPLES: dict[str, Callable[[], bytes]] = {
    "sample.pdf": pdf_sample,
    "sample.docx": docx_sample,
    "sample.pptx": pptx_sample,
    "sample.xlsx": xlsx_sample,
    "sample.ods": ods_sample,
    "sample.epub": epub_sample,
    "sample.odt": odt_sample,
    "sample.odp": odp_sample,
    "sample.rtf": rtf_sample,
    "sample.ipynb": notebook_sample,
    "sample.eml": email_sample,
    "sample.html": html_sample,
    "sample.csv": lambda: 'City,Rain mm\nOslo,763\nÅlesund,"1,300"\n'.encode(),
    "sample.json": lambda: b'{"city": "Oslo", "rain": [763, 2250.5], "note": "\\u00e5"}',
    "sample.jsonl": lambda: b'{"city": "Oslo"}\n{"city": "Bergen"}\n',
    "sample.xml": lambda: (
        b"<?xml version='1.0'?><rain><city name='Oslo'>763 <b>mm</b></city><city>Bergen</city></rain>"
    ),
    "sample.yaml": lambda: b"city: Oslo\nrain: &r 763\nagain: *r\n",
    "sample.md": lambda: (
        b"---\ntitle: Rain\n---\n# Oslo\n\nIt rains.\n\n```\n# no heading\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n"
    ),
    "sample.rst": lambda: b"Rain\n====\n\nIt rains.\n\nBergen\n------\n\nMore.\n",
    "sample.py": lambda: b"def rain() -> int:\n    return 763\n",
    "sample.txt": lambda: "It rains in Bergen – often.\n\nÅlesund too.\n".encode(),
    "sample.png": png_sample,
    "sample.jpg": lambda: picture("JPEG"),
    "sample.gif": lambda: picture("GIF"),
    "sample.bmp": lambda: picture("BMP"),
    "sample.webp": lambda: picture("WEBP"),
    "sample.tiff": lambda: picture("TIFF"),
}
"""File name -> maker."""


def decoded(data_block: Any) -> bytes:
    """The bytes in a DataBlock."""
    return base64.b64decode(data_block.source.data)


def _fill(table: Any) -> None:
    for r, row in enumerate(TABLE):
        for c, text in enumerate(row):
            table.cell(r, c).text = text


def _saved(document: Any) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()
