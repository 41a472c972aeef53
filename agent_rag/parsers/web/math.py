"""Formulas in a page: MathML, and the TeX that it was made from."""

from __future__ import annotations

from collections.abc import Mapping

_SIGNS = {"msup": ("^",), "msub": ("_",), "msubsup": ("_", "^"), "mfrac": ("/",), "munder": ("_",), "mover": ("^",),
          "munderover": ("_", "^")}  # fmt: skip


class Formula:
    """Collects one ``<math>``: its TeX where an annotation or `alttext` has it, else its signs in one line."""

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self._tex = attributes.get("alttext", "")
        self._is_block = attributes.get("display") == "block"
        self._open: list[tuple[str, int]] = []
        """(tag, children so far) of each open element."""
        self._text: list[str] = []
        self._annotation: list[str] | None = None
        self._passing = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        is_tex = tag == "annotation" and "tex" in attributes.get("encoding", "tex").lower()
        if self._passing or (tag.startswith("annotation") and not is_tex):
            self._passing += 1
            return
        if self._open:
            parent, count = self._open[-1]
            signs = _SIGNS.get(parent, ())
            if 0 < count <= len(signs):
                self._text.append(signs[count - 1])
            self._open[-1] = (parent, count + 1)
        if is_tex:
            self._annotation = []
        elif tag == "msqrt":
            self._text.append("√")
        self._open.append((tag, 0))

    def end(self) -> None:
        if self._passing:
            self._passing -= 1
        elif self._open and self._open.pop()[0] == "annotation" and self._annotation is not None:
            self._tex = "".join(self._annotation)
            self._annotation = None

    def data(self, text: str) -> None:
        if self._passing:
            return
        (self._text if self._annotation is None else self._annotation).append(text)

    def written(self) -> str:
        """``$x^2$``, or the signs themselves where there is no TeX."""
        if tex := " ".join(self._tex.split()):
            return in_dollars(tex, is_block=self._is_block)
        return "".join("".join(self._text).split())


def in_dollars(tex: str, *, is_block: bool) -> str:
    """TeX as Markdown has it."""
    return f"$${tex}$$" if is_block else f"${tex}$"
