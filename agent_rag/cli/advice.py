"""Messages that advise a Python option, with the key of agent-rag.toml that says the same."""

from __future__ import annotations

import re

_KEYS = (
    (re.compile(r"\b[A-Z]\w*Parser\((\w+)=(?:\.\.\.|True)\)"), "parser_options.{}"),
    (re.compile(r"\bParserPool\((workers|timeout_s|memory_mb)=\.\.\."), "ingest.{}"),
    (re.compile(r"\bTesseractOCR\((\w+)=\.\.\."), "ocr_options.{}"),
    (re.compile(r"\bLimits\((\w+)=\.\.\."), "limits.{}"),
    (re.compile(r"\bpass (max_file_bytes|max_chunks)="), "ingest.{}"),
    (re.compile(r"\bpass (dimensions|base_url)="), "{}"),
    (re.compile(r"\bkeyword=(False|True)"), "store_options.keyword"),
    (re.compile(r"\b(setup_schema)="), "store_options.{}"),
)


def with_keys(message: str) -> str:
    """`message`, and for each Python option that it names the key of agent-rag.toml.

    ``pass PDFParser(max_pages=...)`` gets `` (agent-rag.toml: parser_options.max_pages)``.
    """
    keys = [key.format(found[1]) for pattern, key in _KEYS for found in pattern.finditer(message)]
    return f"{message} (agent-rag.toml: {', '.join(dict.fromkeys(keys))})" if keys else message
