"""Equations of Office documents (OMML) as one line of text."""

from __future__ import annotations

from .ooxml import Element, M

_PROPERTIES = "Pr"


def equation_text(element: Element) -> str:
    """An equation in reading order: ``(a+b)/2``, ``x^2``, ``a_i``, ``√(x)``; letters and operators as they stand."""
    return "".join(_parts(element))


def _parts(element: Element) -> list[str]:
    return [_part(child) for child in element if isinstance(child.tag, str)]


def _part(element: Element) -> str:
    name = element.tag.removeprefix(M) if element.tag.startswith(M) else ""
    if name == "t":
        return element.text or ""
    if name.endswith(_PROPERTIES):
        return ""
    writer = _WRITERS.get(name)
    return writer(element) if writer else equation_text(element)


def _group(element: Element, name: str) -> str:
    """A child in brackets where it is longer than one symbol."""
    text = _child(element, name)
    return text if len(text) < 2 or text.isalnum() else f"({text})"


def _child(element: Element, name: str) -> str:
    found = element.find(f"{M}{name}")
    return "" if found is None else equation_text(found)


def _property(element: Element, group: str, name: str, default: str) -> str:
    found = element.find(f"{M}{group}/{M}{name}")
    return default if found is None else found.get(f"{M}val", "")


def _fraction(element: Element) -> str:
    return f"{_group(element, 'num')}/{_group(element, 'den')}"


def _scripts(element: Element) -> str:
    below, above = _group(element, "sub"), _group(element, "sup")
    return _child(element, "e") + (f"_{below}" if below else "") + (f"^{above}" if above else "")


def _radical(element: Element) -> str:
    degree = _child(element, "deg")
    return f"{degree}√({_child(element, 'e')})"


def _operator(element: Element) -> str:
    symbol = _property(element, "naryPr", "chr", "∫")
    below, above = _group(element, "sub"), _group(element, "sup")
    return symbol + (f"_{below}" if below else "") + (f"^{above}" if above else "") + f" {_child(element, 'e')}"


def _delimited(element: Element) -> str:
    begin = _property(element, "dPr", "begChr", "(")
    end = _property(element, "dPr", "endChr", ")")
    between = _property(element, "dPr", "sepChr", "|")
    return begin + between.join(equation_text(item) for item in element.findall(f"{M}e")) + end


def _matrix(element: Element) -> str:
    rows = [[equation_text(cell) for cell in row.findall(f"{M}e")] for row in element.findall(f"{M}mr")]
    return "[" + "; ".join(", ".join(row) for row in rows) + "]"


_WRITERS = {
    "f": _fraction,
    "sSub": _scripts,
    "sSup": _scripts,
    "sSubSup": _scripts,
    "rad": _radical,
    "nary": _operator,
    "d": _delimited,
    "m": _matrix,
}
