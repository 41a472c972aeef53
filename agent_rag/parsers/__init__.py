"""File in, Sections out. One file per format; `parser_for` chooses by content. Nothing heavy loads at import."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import ParserBase
from .registry import parser_for, register_parser, supported_extensions

if TYPE_CHECKING:
    from .docling import DoclingParser
    from .images.image import ImageParser
    from .images.ocr import OCREngine, OCRText, TesseractOCR
    from .mail.email import EmailParser
    from .mail.msg import MSGParser
    from .office.legacy import LegacyOfficeParser
    from .office.opendocument import ODPParser, ODTParser
    from .office.powerpoint import PPTParser
    from .office.rtf import RTFParser
    from .office.sheets.excel import ExcelParser
    from .office.word import WordParser
    from .pdf.pdf import PDFParser
    from .pool import ParserPool
    from .text.code import CodeParser
    from .text.csv import CSVParser
    from .text.json import JSONParser
    from .text.markdown import MarkdownParser
    from .text.markup import AsciiDocParser, LaTeXParser, OrgParser
    from .text.notebook import NotebookParser
    from .text.plain import TextParser, parse_text
    from .text.rst import RSTParser
    from .text.transcript import TranscriptParser
    from .text.xml import XMLParser
    from .text.yaml import YAMLParser
    from .web.epub import EPUBParser
    from .web.html import HTMLParser

_LAZY = {
    "AsciiDocParser": "text.markup",
    "CSVParser": "text.csv",
    "CodeParser": "text.code",
    "DoclingParser": "docling",
    "EPUBParser": "web.epub",
    "EmailParser": "mail.email",
    "ExcelParser": "office.sheets.excel",
    "HTMLParser": "web.html",
    "ImageParser": "images.image",
    "JSONParser": "text.json",
    "LaTeXParser": "text.markup",
    "LegacyOfficeParser": "office.legacy",
    "MSGParser": "mail.msg",
    "MarkdownParser": "text.markdown",
    "NotebookParser": "text.notebook",
    "OCREngine": "images.ocr",
    "OCRText": "images.ocr",
    "ODPParser": "office.opendocument",
    "ODTParser": "office.opendocument",
    "OrgParser": "text.markup",
    "PDFParser": "pdf.pdf",
    "PPTParser": "office.powerpoint",
    "ParserPool": "pool",
    "RSTParser": "text.rst",
    "RTFParser": "office.rtf",
    "TesseractOCR": "images.ocr",
    "TextParser": "text.plain",
    "WordParser": "office.word",
    "TranscriptParser": "text.transcript",
    "XMLParser": "text.xml",
    "YAMLParser": "text.yaml",
    "parse_text": "text.plain",
}

__all__ = [
    "AsciiDocParser",
    "CSVParser",
    "CodeParser",
    "DoclingParser",
    "EPUBParser",
    "EmailParser",
    "ExcelParser",
    "HTMLParser",
    "ImageParser",
    "JSONParser",
    "LaTeXParser",
    "LegacyOfficeParser",
    "MSGParser",
    "MarkdownParser",
    "NotebookParser",
    "OCREngine",
    "OCRText",
    "ODPParser",
    "ODTParser",
    "OrgParser",
    "PDFParser",
    "PPTParser",
    "ParserBase",
    "ParserPool",
    "RSTParser",
    "RTFParser",
    "TesseractOCR",
    "TextParser",
    "TranscriptParser",
    "WordParser",
    "XMLParser",
    "YAMLParser",
    "parse_text",
    "parser_for",
    "register_parser",
    "supported_extensions",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
