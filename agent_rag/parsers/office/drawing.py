"""DrawingML, which all three Office formats share: paragraphs of shapes, charts, SmartArt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..tables import TableFormat, render_table
from .omml import equation_text
from .ooxml import CX, DGM, MC, A, C, Element, M, Package, R, decode_escapes
from .sheets.cells import DateFormats, date_text, number_text

_RUN_TEXT, _RUN_PROPERTIES = f"{A}t", f"{A}rPr"
_BREAK = re.compile(r"[\v\r]")


def alternative_text(properties: Element | None) -> str:
    """What the description and the title of a picture or shape say; older programs fill in only the title."""
    if properties is None:
        return ""
    texts = (" ".join(properties.get(name, "").split()) for name in ("title", "descr"))
    title, description = texts
    return description if title in description else f"{title}: {description}" if description else title


class TextBody:
    """Reads the paragraphs of a shape.

    Args:
        link: Gives the URL of a relationship id, "" where it has none.
    """

    def __init__(self, link: Callable[[str], str]) -> None:
        self._link = link
        self._links: dict[str, str] = {}

    def lines(self, body: Element, *, skip_fields: tuple[str, ...] = ()) -> list[str]:
        """The paragraphs' texts with list markers and indentation; blank ones are left out."""
        counters: dict[int, int] = {}
        lines = (self._paragraph(item, counters, skip_fields) for item in body.iter(f"{A}p"))
        return [line for line in lines if line.strip()]

    def _paragraph(self, paragraph: Element, counters: dict[int, int], skip_fields: tuple[str, ...]) -> str:
        self._links = {}
        text = _BREAK.sub("\n", decode_escapes("".join(self._runs(paragraph, skip_fields)))).strip()
        level, marker = _bullet(paragraph, counters)
        links = "; ".join(f"{label}: {url}" if label != text else url for url, label in self._links.items())
        text += f" ({links})" if links else ""
        return f"{'  ' * level}{marker}{text}" if text else ""

    def _runs(self, parent: Element, skip_fields: tuple[str, ...]) -> Iterator[str]:
        for child in parent:
            if child.tag == f"{A}r":
                yield self._run(child)
            elif child.tag == f"{A}br":
                yield "\n"
            elif child.tag == f"{A}fld":
                yield "" if child.get("type") in skip_fields else child.findtext(f"{A}t", "")
            elif child.tag in (f"{M}oMath", f"{M}oMathPara"):
                yield equation_text(child)
            elif child.tag == f"{MC}AlternateContent":
                yield next(
                    ("".join(text) for text in (list(self._runs(b, skip_fields)) for b in child) if any(text)), ""
                )
            elif isinstance(child.tag, str) and child.tag.endswith("}m"):
                yield from self._runs(child, skip_fields)

    def _run(self, run: Element) -> str:
        text = ""
        url = ""
        for child in run:
            if child.tag == _RUN_TEXT:
                text = child.text or ""
            elif child.tag == _RUN_PROPERTIES and len(child):
                link = child.find(f"{A}hlinkClick")
                url = self._link(link.get(f"{R}id", "")) if link is not None else ""
        if url and url != text.strip():
            self._links[url] = (self._links.get(url, "") + text).strip()
        return text


def _bullet(paragraph: Element, counters: dict[int, int]) -> tuple[int, str]:
    properties = paragraph.find(f"{A}pPr")
    level = 0 if properties is None else _int(properties.get("lvl"))
    for deeper in [other for other in counters if other > level]:
        del counters[deeper]
    number = None if properties is None else properties.find(f"{A}buAutoNum")
    if number is not None:
        counters[level] = counters.get(level, _int(number.get("startAt"), 1) - 1) + 1
        return level, f"{counters[level]}. "
    counters.pop(level, None)
    has_bullet = properties is not None and properties.find(f"{A}buChar") is not None
    return level, "- " if has_bullet else ""


def plain_text(element: Element | None) -> str:
    """All paragraphs of a title or label, on one line."""
    if element is None:
        return ""
    paragraphs = ("".join(t.text or "" for t in p.iter(f"{A}t")) for p in element.iter(f"{A}p"))
    return " ".join(" ".join(paragraphs).split())


def smartart_lines(data: Element) -> list[str]:
    """The texts of a SmartArt diagram as an indented list, in its order."""
    points = {point.get("modelId"): point for point in data.iter(f"{DGM}pt")}
    children: dict[str, list[tuple[int, str]]] = {}
    for link in data.iter(f"{DGM}cxn"):
        if link.get("type", "parOf") == "parOf":
            children.setdefault(link.get("srcId"), []).append((_int(link.get("srcOrd")), link.get("destId")))
    roots = [key for key, point in points.items() if point.get("type") == "doc"]
    seen: set[str] = set()
    lines: list[str] = []

    def visit(key: str, level: int) -> None:
        if key in seen or key not in points:
            return
        seen.add(key)
        text = "" if points[key].get("type") == "pres" else plain_text(points[key])
        if text:
            lines.append(f"{'  ' * level}- {text}")
        for _, child in sorted(children.get(key, [])):
            visit(child, min(level + bool(text), 8))

    for key in (*roots, *points):
        visit(key, 0)
    return lines


def chart_text(package: Package, part: str, table_format: TableFormat, *, with_values: bool = True) -> str:
    """Titles, series, categories and cached values of a chart; "" when it has none of them."""
    root = package.xml(part)
    if root.tag.startswith(CX):
        return _extended_chart_text(root)
    titles = [_title(item) for item in root.iter(f"{C}title")]
    lines = [f"Chart: {titles[0]}" if root.find(f"{C}chart/{C}title") is not None and titles[0] else "Chart"]
    axes = [title for title in titles[0 if lines[0] == "Chart" else 1 :] if title]
    if axes:
        lines.append(f"Axes: {'; '.join(axes)}")
    series = [_Series(item) for item in root.iter(f"{C}ser")]
    if not with_values:
        names = [item.name for item in series if item.name]
        lines += [f"Series: {'; '.join(names)}"] if names else []
    else:
        lines += [render_table(rows, table_format).rstrip("\n") for rows in _series_tables(series)]
    return "" if lines == ["Chart"] else "\n".join(lines)


class _Series:
    def __init__(self, element: Element) -> None:
        self.name = _cache_text(element.find(f"{C}tx"))
        self.labels = _points(_first(element, "cat", "xVal"))
        self.values = _points(_first(element, "val", "yVal"))


def _series_tables(series: list[_Series]) -> Iterator[list[list[str]]]:
    """One table for neighbouring series over the same categories: a row per category, a column per series."""
    start = 0
    for end in range(1, len(series) + 1):
        if end < len(series) and series[end].labels in (series[start].labels, {}):
            continue
        group = series[start:end]
        start = end
        rows = sorted({index for item in group for index in (*item.labels, *item.values)})
        header = ["", *(item.name for item in group)]
        table = [[group[0].labels.get(i, ""), *(item.values.get(i, "") for item in group)] for i in rows]
        if table or any(header):
            yield [header, *table]


def _title(element: Element) -> str:
    return plain_text(element) or _cache_text(element)


def _cache_text(element: Element | None) -> str:
    if element is None:
        return ""
    return " ".join(" ".join(v.text or "" for v in element.iter(f"{C}v")).split()) or plain_text(element)


def _points(element: Element | None) -> dict[int, str]:
    if element is None:
        return {}
    texts: dict[int, list[str]] = {}
    for cache in element.iter(f"{C}strCache", f"{C}numCache", f"{C}strLit", f"{C}numLit", f"{C}lvl"):
        format_code = cache.findtext(f"{C}formatCode", "")
        kind = DateFormats.kind_of(format_code)
        is_number = cache.tag in (f"{C}numCache", f"{C}numLit")
        for point in cache.findall(f"{C}pt"):
            text = point.findtext(f"{C}v", "")
            if is_number:
                text = date_text(text, kind) if kind else number_text(text)
            texts.setdefault(_int(point.get("idx")), []).append(text)
    return {index: " / ".join(reversed(levels)) for index, levels in texts.items()}


def _extended_chart_text(root: Element) -> str:
    """The newer chart types (waterfall, treemap, ...): title, series, then the data as they stand."""
    title = " ".join(plain_text(item) for item in root.iter(f"{CX}title")).strip()
    lines = [f"Chart: {title}" if title else "Chart"]
    names = [item.text.strip() for item in root.iter(f"{CX}v") if item.text and item.text.strip()]
    lines += [f"Series: {'; '.join(names)}"] if names else []
    for dimension in root.iter(f"{CX}strDim", f"{CX}numDim"):
        points = [point.text or "" for point in dimension.iter(f"{CX}pt")]
        lines += ["; ".join(points)] if points else []
    return "" if lines == ["Chart"] else "\n".join(lines)


def _first(element: Element, *names: str) -> Element | None:
    return next((found for name in names if (found := element.find(f"{C}{name}")) is not None), None)


def _int(text: str | None, default: int = 0) -> int:
    try:
        return int(text) if text is not None else default
    except ValueError:
        return default
