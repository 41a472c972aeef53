"""Files made to hang, to fill the memory or to end the process (after the measurements of notes/PARSERS.md, part 7)."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from email.message import EmailMessage

from .samples import docx_sample, epub_sample, odt_sample, opendocument, pdf_of, pptx_sample, raw_pdf, xlsx_sample

_MIB = 1024 * 1024
_LAUGHS = (
    "<!DOCTYPE lolz [<!ENTITY a0 'lol'>"
    + "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 10))
    + "]>"
)
_XXE = "<!DOCTYPE x [<!ENTITY leak SYSTEM 'file:///etc/passwd'>]>"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def with_part(data: bytes, part: str, content: bytes) -> bytes:
    """A zip with one part replaced."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, content if entry.filename == part else source.read(entry))
    return buffer.getvalue()


def zip_bomb(data: bytes, part: str, inflated: int = 600 * _MIB) -> bytes:
    """A package with a part that unpacks to `inflated` bytes of spaces."""
    buffer = io.BytesIO(with_part(data, part, b""))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        del archive.NameToInfo[part]
        with archive.open(part, "w", force_zip64=True) as target:
            for _ in range(inflated // _MIB):
                target.write(b" " * _MIB)
    return buffer.getvalue()


def document_xml(body: str, prolog: str = "") -> bytes:
    return f'<?xml version="1.0"?>{prolog}<w:document {_W}><w:body>{body}</w:body></w:document>'.encode()


def nested_tables(depth: int) -> bytes:
    opening, closing = "<w:tbl><w:tr><w:tc>", "<w:p/></w:tc></w:tr></w:tbl>"
    text = "<w:p><w:r><w:t>deep</w:t></w:r></w:p>"
    return with_part(docx_sample(), "word/document.xml", document_xml(opening * depth + text + closing * depth))


def nested_groups(depth: int) -> bytes:
    names = (
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    )
    fixed = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    groups = f"<p:grpSp>{fixed}" * depth + "</p:grpSp>" * depth
    slide = f"<p:sld {names}><p:cSld><p:spTree>{fixed}{groups}</p:spTree></p:cSld></p:sld>"
    return with_part(pptx_sample(), "ppt/slides/slide1.xml", slide.encode())


def sparse_sheet(*cells: str) -> bytes:
    """A workbook of a few kB whose cells span an area of billions."""
    rows = "".join(
        f'<row r="{cell.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}"><c r="{cell}"><v>1</v></c></row>' for cell in cells
    )
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><dimension '
        f'ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'
    )
    return with_part(xlsx_sample(), "xl/worksheets/sheet1.xml", sheet.encode())


def flate_bomb(inflated: int = 1200 * _MIB) -> bytes:
    """A PDF of a few kB with a content stream compressed twice."""
    once = zlib.compressobj(9)
    packed = b"".join([once.compress(b" " * _MIB) for _ in range(inflated // _MIB)]) + once.flush()
    stream = zlib.compress(packed, 9)
    page = b"<</Length %d/Filter[/FlateDecode/FlateDecode]>>stream\n%s\nendstream" % (len(stream), stream)
    return raw_pdf([b""], extra={11: page})


def recursive_form() -> bytes:
    """A form that draws itself twice."""
    drawing = b"/X Do /X Do"
    form = (
        b"<</Type/XObject/Subtype/Form/BBox[0 0 10 10]/Resources<</XObject<</X 101 0 R>>>>/Length %d>>"
        b"stream\n%s\nendstream" % (len(drawing), drawing)
    )
    return raw_pdf([drawing], resources=b"/XObject<</X 101 0 R>>", extra={101: form})


def recursive_pages() -> bytes:
    return pdf_of({1: b"<</Type/Catalog/Pages 2 0 R>>", 2: b"<</Type/Pages/Count 2/Kids[2 0 R 2 0 R]>>"})


def fan_out_pages(levels: int = 11, width: int = 4) -> bytes:
    """A page tree in which every level names the next one `width` times: width ** levels pages in 1 kB."""
    objects = {1: b"<</Type/Catalog/Pages 2 0 R>>"}
    for level in range(levels):
        kids = b"%d 0 R " % (level + 3) * width
        objects[level + 2] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (width ** (levels - level), kids)
    objects[levels + 2] = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 10 10]>>"
    return pdf_of(objects)


def huge_count() -> bytes:
    return pdf_of(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Count 2147483647/Kids[3 0 R]>>",
            3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 10 10]>>",
        }
    )


def picture_bomb(width: int = 40_000, height: int = 40_000) -> bytes:
    """A PNG of 200 kB whose header promises 1.6 billion pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * ((width // 8 + 1) * height), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def nested_messages(depth: int = 60) -> bytes:
    inner = EmailMessage()
    inner["Subject"] = "innermost"
    inner.set_content("deep")
    data = inner.as_bytes()
    for level in range(depth):
        head = f"Subject: level {level}\r\nMIME-Version: 1.0\r\nContent-Type: message/rfc822\r\n\r\n"
        data = head.encode() + data
    return data


def yaml_laughs() -> bytes:
    lines = ["a0: &a0 [lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(lines).encode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "bomb.docx": lambda: zip_bomb(docx_sample(), "word/document.xml"),
    "bomb.pptx": lambda: zip_bomb(pptx_sample(), "ppt/slides/slide1.xml"),
    "bomb.xlsx": lambda: zip_bomb(xlsx_sample(), "xl/worksheets/sheet1.xml"),
    "bomb.epub": lambda: zip_bomb(epub_sample(), "OPS/first.xhtml"),
    "laughs.docx": lambda: with_part(
        docx_sample(), "word/document.xml", document_xml("<w:p><w:r><w:t>&a9;</w:t></w:r></w:p>", _LAUGHS)
    ),
    "laughs.xml": lambda: f"{_LAUGHS}<x>&a9;</x>".encode(),
    "leak.docx": lambda: with_part(
        docx_sample(), "word/document.xml", document_xml("<w:p><w:r><w:t>&leak;</w:t></w:r></w:p>", _XXE)
    ),
    "leak.xml": lambda: f"{_XXE}<x>&leak;</x>".encode(),
    "tables200.docx": lambda: nested_tables(200),
    "tables2000.docx": lambda: nested_tables(2_000),
    "tables20000.docx": lambda: nested_tables(20_000),
    "groups.pptx": lambda: nested_groups(1_500),
    "flate.pdf": flate_bomb,
    "form.pdf": recursive_form,
    "pages.pdf": recursive_pages,
    "fan.pdf": fan_out_pages,
    "count.pdf": huge_count,
    "sparse.xlsx": lambda: sparse_sheet("A1", "XFD1048576"),
    "wide.xlsx": lambda: sparse_sheet("A1", "XFD5000"),
    "long.xlsx": lambda: sparse_sheet("A1", "Z1048576"),
    "deep.json": lambda: b"[" * 200_000 + b"]" * 200_000,
    "laughs.yaml": yaml_laughs,
    "deep.xml": lambda: b"<a>" * 100_000 + b"deep" + b"</a>" * 100_000,
    "deep.html": lambda: b"<div>" * 100_000 + b"deep" + b"</div>" * 100_000,
    "spans.html": lambda: b"<table>" + b"<tr><td colspan=1000 rowspan=1000>x<td>y" * 3_000 + b"</table>",
    "quotes.csv": lambda: b'a,b\n"' + b'x"",' * 1_000_000,
    "wide.csv": lambda: b"a,b\n" + b"," * 5_000_000,
    "pixels.png": picture_bomb,
    "nested.eml": nested_messages,
    "bomb.odt": lambda: zip_bomb(odt_sample(), "content.xml"),
    "laughs.odt": lambda: with_part(odt_sample(), "content.xml", f"{_LAUGHS}<x>&a9;</x>".encode()),
    "repeats.odt": lambda: opendocument(
        "text",
        "<table:table>" + '<table:table-row table:number-rows-repeated="99999999"><table:table-cell '
        'table:number-columns-repeated="99999999"><text:p>x</text:p></table:table-cell></table:table-row>'
        * 50
        + '</table:table><text:p>a<text:s text:c="99999999"/>b</text:p>',
    ),
    "lists.odt": lambda: opendocument(
        "text", "<text:list><text:list-item>" * 20_000 + "</text:list-item></text:list>" * 20_000
    ),
    "groups.rtf": lambda: rb"{\rtf1 " + b"{" * 3_000_000,
    "binary.rtf": lambda: rb"{\rtf1 a\bin2147483647 b}",
    "cells.rtf": lambda: rb"{\rtf1 " + rb"\cell" * 3_000_000 + b"}",
    "fields.rtf": lambda: rb"{\rtf1 " + rb"\field x" * 1_000_000 + b"}",
    "deep.ipynb": lambda: b'{"nbformat": 4, "cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "styles.docx": lambda: with_part(docx_sample(), "word/styles.xml", b"<w:styles " + b"<w:style " * 2_000_000),
    "pictures.html": lambda: b"<img src='data:image/png;base64,AAAA' alt=x>" * 200_000,
    "fences.md": lambda: b"```\n" * 300_000,
}
"""File name -> maker."""
