"""What is laid over a PDF page: values of form fields, text typed onto it, comments."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_MAX_ANNOTATIONS = 1_000
_HIDDEN = 2 | 32
"""Flags Hidden and NoView (ISO 32000-1, table 165)."""
_SHOWS_TEXT = re.compile(r"T[jJ]\b|['\"]\s|/\S+\s+Do\b")
_TECHNICAL = re.compile(r"[\[\]#]|\w\.\w")
_MAX_CHARS = 100_000


@dataclass
class Annotations:
    """Of one page."""

    to_draw: bool = False
    """Some have looks of their own, which are drawn into the page before it is read."""
    lines: list[tuple[str, str, bool]] = field(default_factory=list)
    """(label or "", text, whether its own looks show some text), of fields and of text typed onto the page."""
    comments: list[str] = field(default_factory=list)


def read_annotations(raw: Any, form: Any, page: Any) -> Annotations:
    """Read those of a page.

    Args:
        raw: `pypdfium2.raw`.
        form: The document's form environment; None where it has no form.
    """
    found = Annotations()
    typed = (raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP)
    silent = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)
    measured = (raw.FPDF_ANNOT_LINE, raw.FPDF_ANNOT_POLYLINE, raw.FPDF_ANNOT_POLYGON)
    for annotation in _each(raw, page):
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
            continue
        if kind == raw.FPDF_ANNOT_WIDGET:
            found.to_draw = True
            if form is not None:
                found.lines += _field(raw, form, annotation)
            continue
        found.to_draw |= kind in typed or (kind in measured and _shows_text(raw, annotation))
        text = "" if kind in silent else _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
        if text and kind in typed:
            found.lines.append(("", text, _shows_text(raw, annotation)))
        elif text:
            author = _text(raw.FPDFAnnot_GetStringValue, annotation, b"T")
            found.comments.append(f"{author}: {text}" if author else text)
    return found


def with_missing(text: str, found: Annotations) -> str:
    """The page's text and, below it, what its annotations say and it does not."""
    letters = _letters(text)
    missing = [
        f"{label}: {value}" if label else value
        for label, value, is_shown in found.lines
        if not is_shown or _letters(value) not in letters
    ]
    return "\n".join([text, *dict.fromkeys(missing)]) if text and missing else text or "\n".join(missing)


def _each(raw: Any, page: Any) -> Iterator[Any]:
    for position in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, position)
        if annotation:
            try:
                yield annotation
            finally:
                raw.FPDFPage_CloseAnnot(annotation)


def _field(raw: Any, form: Any, annotation: Any) -> Iterator[tuple[str, str, bool]]:
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        value = "; ".join(_chosen(raw, form, annotation)) or _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    elif kind == raw.FPDF_FORMFIELD_TEXTFIELD:
        value = _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    elif kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        is_drawn = _text(raw.FPDFAnnot_GetAP, annotation, raw.FPDF_ANNOT_APPEARANCEMODE_NORMAL)
        if is_drawn or not raw.FPDFAnnot_IsChecked(form, annotation):
            return
        value = _text(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation) or "\u2612"
    else:
        return
    if value:
        yield _label(raw, form, annotation), value, _shows_text(raw, annotation)


def _chosen(raw: Any, form: Any, annotation: Any) -> Iterator[str]:
    for index in range(min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MAX_ANNOTATIONS)):
        if raw.FPDFAnnot_IsOptionSelected(form, annotation, index):
            yield _text(raw.FPDFAnnot_GetOptionLabel, form, annotation, index)


def _label(raw: Any, form: Any, annotation: Any) -> str:
    """What the form calls the field before a reader; its name where that is one for readers too."""
    shown = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    name = _text(raw.FPDFAnnot_GetFormFieldName, form, annotation)
    return (shown or ("" if _TECHNICAL.search(name) else name)).rstrip(" :")


def _shows_text(raw: Any, annotation: Any) -> bool:
    looks = _text(raw.FPDFAnnot_GetAP, annotation, raw.FPDF_ANNOT_APPEARANCEMODE_NORMAL)
    return _SHOWS_TEXT.search(looks) is not None


def _text(function: Callable[..., int], *arguments: Any) -> str:
    """What one of pdfium's functions writes as UTF-16 into a buffer."""
    size = min(function(*arguments, None, 0), 2 * _MAX_CHARS)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    text = buffer.raw.decode("utf-16-le", "ignore").partition("\0")[0]
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _letters(text: str) -> str:
    return "".join(text.split()).casefold()
