"""One library in its own process: reads file paths from standard input, answers with seconds and the text found."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path


def _agent_rag() -> Callable[[str], str]:
    from agent_rag.parsers import parser_for

    loop = asyncio.new_event_loop()

    def read(path: str) -> str:
        sections = loop.run_until_complete(parser_for(path, data=Path(path)).parse(Path(path), path))
        return "\n".join(section.text for section in sections)

    return read


def _agentscope() -> Callable[[str], str]:
    from agentscope import rag

    parsers = {
        ".pdf": rag.PDFParser,
        ".docx": rag.WordParser,
        ".pptx": rag.PPTParser,
        ".xlsx": rag.ExcelParser,
        ".html": rag.TextParser,
    }
    loop = asyncio.new_event_loop()

    def read(path: str) -> str:
        sections = loop.run_until_complete(parsers[Path(path).suffix]().parse(path, path))
        return "\n".join(getattr(section.content, "text", "") for section in sections)

    return read


def _markitdown() -> Callable[[str], str]:
    from markitdown import MarkItDown

    converter = MarkItDown()
    return lambda path: converter.convert(path).text_content


def _kreuzberg() -> Callable[[str], str]:
    from kreuzberg import extract_file_sync

    return lambda path: extract_file_sync(path).content


LIBRARIES = {
    "agent_rag": _agent_rag,
    "agentscope": _agentscope,
    "markitdown": _markitdown,
    "kreuzberg": _kreuzberg,
}


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr
    read = LIBRARIES[sys.argv[1]]()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        try:
            text, error = read(line.strip()), ""
        except Exception as failure:
            text, error = "", type(failure).__name__
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "text": text, "error": error}), file=answers, flush=True)


if __name__ == "__main__":
    main()
