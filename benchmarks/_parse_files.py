"""The files of the parsing benchmark: the handbook, public cases, Debian's manuals, and generated ones."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from _common import ROOT, SHARED

KINDS = ("pdf", "xlsx", "docx", "pptx", "html")
MANUALS = {
    "/usr/share/doc/debian-policy/policy.pdf.gz": "debian-policy",
    "/usr/share/doc/debian-policy/fhs/fhs-3.0.pdf.gz": "debian-policy",
    "/usr/share/developers-reference/developers-reference.pdf": "developers-reference",
    "/usr/share/developers-reference/ja/developers-reference.pdf": "developers-reference-ja",
    "/usr/share/doc/debian/FAQ/debian-faq.ru.pdf.gz": "debian-faq-ru",
    "/usr/share/R/doc/manual/R-intro.pdf": "r-doc-pdf",
    "/usr/share/doc/gnuplot/gnuplot.pdf": "gnuplot-doc",
    "/usr/share/doc/auto-multiple-choice/auto-multiple-choice.ja.pdf": "auto-multiple-choice-doc-pdf",
}
"""Real documents of real length, and the Debian package of each: Latin, Cyrillic and Japanese, set by pdfTeX, XeTeX,
dvipdfmx and Apache FOP."""
_SENTENCE = "The outdoor unit number {} stands on four feet and hums at {} decibels in the night. "


def benchmark_files(folder: Path, kinds: list[str]) -> list[Path]:
    """Those of the wanted kinds that are there; generated ones are written to `folder`."""
    found = sorted((ROOT / "examples/handbook").rglob("*"))
    public = SHARED / "cases/parse/files"
    if public.is_dir():
        found += sorted(public.iterdir())
    if "pdf" in kinds:
        found += _manuals(folder)
    return [p for p in found + _generated(folder, kinds) if p.suffix[1:] in kinds]


def _manuals(folder: Path) -> list[Path]:
    found: list[Path] = []
    missing: set[str] = set()
    for name, package in MANUALS.items():
        path = Path(name)
        if not path.exists():
            missing.add(package)
            continue
        copy = folder / f"{package}-{path.name.removesuffix('.gz')}"
        copy.write_bytes(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        found.append(copy)
    if missing:
        print(f"without the manuals of: apt-get install {' '.join(sorted(missing))}")
    return found


def _generated(folder: Path, kinds: list[str]) -> list[Path]:
    own = folder / "generated"
    own.mkdir()
    for kind in kinds:
        _WRITERS[kind](own)
    return sorted(own.iterdir())


def _write_html(folder: Path) -> None:
    pages = "".join(f"<h2>Part {i}</h2><p>{_SENTENCE.format(i, i % 50) * 5}</p>" for i in range(2_000))
    (folder / "pages.html").write_text(f"<html><title>Units</title><body>{pages}</body></html>")


def _write_docx(folder: Path) -> None:
    import docx

    document = docx.Document()
    for i in range(600):
        if i % 10 == 0:
            document.add_heading(f"Part {i}", 2)
        else:
            document.add_paragraph(_SENTENCE.format(i, i % 50) * 4)
    table = document.add_table(60, 5)
    for r, row in enumerate(table.rows):
        for c, cell in enumerate(row.cells):
            cell.text = f"value {r} {c}"
    document.save(str(folder / "long.docx"))


def _write_pptx(folder: Path) -> None:
    import pptx

    deck = pptx.Presentation()
    for i in range(80):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Slide {i}"
        slide.placeholders[1].text = "\n".join(_SENTENCE.format(i, n) for n in range(8))
    deck.save(str(folder / "deck.pptx"))


def _write_xlsx(folder: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Readings")
    for r in range(8_000):
        sheet.append([r, f"unit {r % 97}", r * 0.25, "Oslo" if r % 2 else "Bergen", *range(r, r + 6)])
    book.save(str(folder / "readings.xlsx"))


def _write_pdf(folder: Path) -> None:
    """Running text of 110 pages in a built-in font; two columns and ruled tables of 40 in an embedded one."""
    from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate, Paragraph, SimpleDocTemplate, Spacer

    heading, body = getSampleStyleSheet()["Heading2"], getSampleStyleSheet()["BodyText"]
    flow: list[Any] = []
    for i in range(1_200):
        flow += [Paragraph(f"Part {i}", heading)] if i % 10 == 0 else []
        flow += [Paragraph(_SENTENCE.format(i, i % 50) * 4, body), Spacer(1, 6)]
    SimpleDocTemplate(str(folder / "manual.pdf"), invariant=1).build(flow)

    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))
    embedded = ParagraphStyle("Embedded", fontName="Vera", fontSize=9, leading=11)
    columns = BaseDocTemplate(str(folder / "columns.pdf"), invariant=1)
    columns.addPageTemplates(PageTemplate(frames=[Frame(60, 60, 235, 720), Frame(310, 60, 235, 720)]))
    columns.build([Paragraph(_SENTENCE.format(i, i % 50) * 4, embedded) for i in range(800)])
    SimpleDocTemplate(str(folder / "tables.pdf"), invariant=1).build([_ruled_table(i) for i in range(40)])


def _ruled_table(number: int) -> Any:
    from reportlab.lib import colors
    from reportlab.platypus import Table

    rows = [["unit", "place", "reading", "note"]]
    rows += [[f"{number}.{r}", "Oslo" if r % 2 else "Bergen", f"{r * 0.25}", "hums in the night"] for r in range(30)]
    return Table(rows, style=[("GRID", (0, 0), (-1, -1), 0.5, colors.black), ("FONTNAME", (0, 0), (-1, -1), "Vera")])


_WRITERS = {"html": _write_html, "docx": _write_docx, "pptx": _write_pptx, "xlsx": _write_xlsx, "pdf": _write_pdf}
