"""Small Office files for tests: built part by part, or by the generator of a behaviour case."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from typing import Any

from .. import shared
from .samples import zip_of

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_NAMESPACES = " ".join(
    f'xmlns:{prefix}="{uri}"'
    for prefix, uri in {
        "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "s": "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
        "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
        "pic": "http://schemas.openxmlformats.org/drawingml/2006/picture",
        "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
        "xdr": "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "r": OFFICE,
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "v": "urn:schemas-microsoft-com:vml",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    }.items()
)

Relations = Mapping[str, tuple[str, str]]
"""Relationship id -> (kind, target); a target with "://" is external."""


def part(tag: str, content: str, attributes: str = "") -> str:
    """A part of XML with every namespace declared."""
    return f'<?xml version="1.0" encoding="UTF-8"?><{tag} {_NAMESPACES} {attributes}>{content}</{tag}>'


def relations(items: Relations) -> str:
    """The content of a ``.rels`` part."""
    links = "".join(
        f'<Relationship Id="{key}" Type="{OFFICE}/{kind}" Target="{target}"'
        + (' TargetMode="External"' if "://" in target or target.startswith("mailto:") else "")
        + "/>"
        for key, (kind, target) in items.items()
    )
    return f'<?xml version="1.0"?><Relationships xmlns="{_PACKAGE}/relationships">{links}</Relationships>'


def package(main: str, parts: Mapping[str, str | bytes], links: Mapping[str, Relations]) -> bytes:
    """A package of `parts`, whose relationships are `links` by part name."""
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<?xml version="1.0"?><Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": relations({"main": ("officeDocument", main)}),
        **parts,
    }
    for name, items in links.items():
        folder, _, base = name.rpartition("/")
        files[f"{folder}/_rels/{base}.rels"] = relations(items)
    return zip_of(files)


def docx(body: str, links: Relations | None = None, **parts: str | bytes) -> bytes:
    """A document; `parts` are named by their file below ``word/``, with ``__`` for ``/`` and ``_`` for ``.``."""
    named = {f"word/{name.replace('__', '/').replace('_', '.')}": content for name, content in parts.items()}
    main = {"word/document.xml": part("w:document", f"<w:body>{body}</w:body>")}
    return package("word/document.xml", {**main, **named}, {"word/document.xml": links or {}})


def paragraph(content: str, properties: str = "") -> str:
    """A w:p; plain text becomes a run."""
    inner = content if content.startswith("<") else f'<w:r><w:t xml:space="preserve">{content}</w:t></w:r>'
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}{inner}</w:p>"


def pptx(shapes: str, links: Relations | None = None, **parts: str | bytes) -> bytes:
    """A presentation of one slide; `parts` are named by their file below ``ppt/`` as in `docx`."""
    named = {f"ppt/{name.replace('__', '/').replace('_', '.')}": content for name, content in parts.items()}
    main = {
        "ppt/presentation.xml": part("p:presentation", '<p:sldIdLst><p:sldId id="256" r:id="s1"/></p:sldIdLst>'),
        "ppt/slides/slide1.xml": part("p:sld", f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"),
    }
    link = {"ppt/presentation.xml": {"s1": ("slide", "slides/slide1.xml")}, "ppt/slides/slide1.xml": links or {}}
    return package("ppt/presentation.xml", {**main, **named}, link)


def shape(text: str, left: int = 0, top: int = 0, width: int = 20, height: int = 4, *, placeholder: str = "") -> str:
    """A p:sp with one paragraph, in any unit; one with a placeholder and no width takes its place from the layout."""
    place = f'<a:xfrm><a:off x="{left}" y="{top}"/><a:ext cx="{width}" cy="{height}"/></a:xfrm>' if width else ""
    holder = f"<p:nvPr><p:ph {placeholder}/></p:nvPr>" if placeholder else "<p:nvPr/>"
    body = f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody>"
    return f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/>{holder}</p:nvSpPr><p:spPr>{place}</p:spPr>{body}</p:sp>'


def xlsx(
    rows: str, *, after: str = "", links: Relations | None = None, workbook: str = "", **parts: str | bytes
) -> bytes:
    """A workbook of one sheet ``Data``; `rows` and `after` use the prefix ``s:``; `parts` lie below ``xl/``."""
    named = {f"xl/{name.replace('__', '/').replace('_', '.')}": content for name, content in parts.items()}
    main = {
        "xl/workbook.xml": part(
            "s:workbook", f'{workbook}<s:sheets><s:sheet name="Data" sheetId="1" r:id="d"/></s:sheets>'
        ),
        "xl/worksheets/sheet1.xml": part("s:worksheet", f"<s:sheetData>{rows}</s:sheetData>{after}"),
    }
    shared_parts = {kind: (kind, f"{kind}.xml") for kind in ("styles", "sharedStrings") if f"xl/{kind}.xml" in named}
    link = {
        "xl/workbook.xml": {"d": ("worksheet", "worksheets/sheet1.xml"), **shared_parts},
        "xl/worksheets/sheet1.xml": links or {},
    }
    return package("xl/workbook.xml", {**main, **named}, link)


def saved(document: Any) -> bytes:
    """The bytes of a python-docx, python-pptx or openpyxl document."""
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def strict(data: bytes) -> bytes:
    """The same file in the namespaces of ISO 29500 Strict."""
    pattern = re.compile(rb"http://schemas\.openxmlformats\.org/(\w+)/2006/(?!content-types|relationships\"|metadata)")
    files: dict[str, str | bytes] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith((".xml", ".rels")) and name != "[Content_Types].xml":
                content = pattern.sub(lambda m: _strict_name(m), content)
            files[name] = content
    return zip_of(files)


def case_file(case_id: str) -> bytes:
    """The file that the generator of a behaviour case makes."""
    text: str = shared.behaviour_case(case_id)["input"]
    name = re.search(r"file: (\w+)\(", text)
    assert name is not None
    scope: dict[str, Any] = {}
    exec(text.split("--- generator ---")[1], scope)
    made: bytes = scope[name[1]]()
    return made


def _strict_name(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] == b"package" else b"http://purl.oclc.org/ooxml/" + match[1] + b"/"
