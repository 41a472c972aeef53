"""File in, Sections out. One file per format; `parser_for` chooses by content. Nothing heavy loads at import."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import ParserBase
from .registry import parser_for, register_parser, supported_extensions

if TYPE_CHECKING:
    from ._isolation import ParserPool
    from .code import CodeParser
    from .csv import CSVParser
    from .docling import DoclingParser
    from .email import EmailParser
    from .epub import EPUBParser
    from .excel import ExcelParser
    from .html import HTMLParser
    from .image import ImageParser
    from .json import JSONParser
    from .markdown import MarkdownParser
    from .msg import MSGParser
    from .notebook import NotebookParser
    from .ocr import OCREngine, OCRText, TesseractOCR
    from .opendocument import ODPParser, ODTParser
    from .pdf import PDFParser
    from .powerpoint import PPTParser
    from .rst import RSTParser
    from .rtf import RTFParser
    from .text import TextParser, parse_text
    from .word import WordParser
    from .xml import XMLParser
    from .yaml import YAMLParser

_LAZY = {
    "CSVParser": "csv",
    "CodeParser": "code",
    "DoclingParser": "docling",
    "EPUBParser": "epub",
    "EmailParser": "email",
    "ExcelParser": "excel",
    "HTMLParser": "html",
    "ImageParser": "image",
    "JSONParser": "json",
    "MSGParser": "msg",
    "MarkdownParser": "markdown",
    "NotebookParser": "notebook",
    "OCREngine": "ocr",
    "OCRText": "ocr",
    "ODPParser": "opendocument",
    "ODTParser": "opendocument",
    "PDFParser": "pdf",
    "PPTParser": "powerpoint",
    "ParserPool": "_isolation",
    "RSTParser": "rst",
    "RTFParser": "rtf",
    "TesseractOCR": "ocr",
    "TextParser": "text",
    "WordParser": "word",
    "XMLParser": "xml",
    "YAMLParser": "yaml",
    "parse_text": "text",
}

__all__ = [
    "CSVParser",
    "CodeParser",
    "DoclingParser",
    "EPUBParser",
    "EmailParser",
    "ExcelParser",
    "HTMLParser",
    "ImageParser",
    "JSONParser",
    "MSGParser",
    "MarkdownParser",
    "NotebookParser",
    "OCREngine",
    "OCRText",
    "ODPParser",
    "ODTParser",
    "PDFParser",
    "PPTParser",
    "ParserBase",
    "ParserPool",
    "RSTParser",
    "RTFParser",
    "TesseractOCR",
    "TextParser",
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
