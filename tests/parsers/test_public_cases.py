"""Files beside the checkout, public ones and made ones, read as their cases say (shared/cases/README)."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from agent_rag import Section
from agent_rag.errors import ParseError
from agent_rag.parsers import ImageParser, ParserBase, PDFParser, PPTParser, TextParser, WordParser, parser_for
from tests.cpu import cpu_seconds

SHARED = Path(__file__).resolve().parents[2] / "../shared/cases"
FOLDERS = [SHARED / "parse", SHARED / "parse_made"]

pytestmark = pytest.mark.skipif(
    not FOLDERS[0].is_dir(), reason="put the folder `shared` beside the checkout to run this"
)


def _rows() -> list[dict[str, Any]]:
    files = [folder / "cases.jsonl" for folder in FOLDERS if folder.is_dir()]
    lines = [(file.parent, line) for file in files for line in file.read_text("utf-8").splitlines()]
    return [{**json.loads(line), "path": folder / "files" / json.loads(line)["file"]} for folder, line in lines]


def _parser(case: dict[str, Any]) -> ParserBase:
    """The parser that the case names; workbooks and pages of HTML by the registry, as ingestion reads them."""
    named: dict[str, type[ParserBase]] = {"pdf": PDFParser, "pptx": PPTParser, "docx": WordParser, "image": ImageParser}
    return named[case["parser"]]() if case["parser"] in named else parser_for(case["file"])


def _plain(text: str) -> str:
    """NFC, white space collapsed, Markdown backslashes undone: as the cases are to be compared."""
    return " ".join(re.sub(r"\\([\\|`*_{}\[\]()#+.!-])", r"\1", unicodedata.normalize("NFC", text)).split())


def _matching(sections: list[Section], expected: dict[str, Any]) -> list[Section]:
    return [s for s in sections if all(s.metadata.get(key) == value for key, value in expected.items())]


def _table_rows(text: str) -> list[list[str]]:
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    return [[_plain(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def _check(case: dict[str, Any], sections: list[Section]) -> None:
    matching = _matching(sections, case["metadata_expect"])
    text = _plain("\n".join(section.text for section in matching))
    assert matching
    for phrase in case["must_contain"]:
        assert _plain(phrase) in text
    for phrase in case["must_not_contain"]:
        assert _plain(phrase) not in text
    for phrase, times in case.get("count", {}).items():
        assert text.count(phrase) == times
    if "sections" in case:
        assert len([s for s in sections if s.content.type == "text"]) == case["sections"]
    assert len([s for s in sections if s.content.type == "text"]) >= case.get("sections_text_min", 0)
    assert len(sections) >= case.get("sections_min", 0)
    if "images" in case:
        assert len([s for s in matching if s.content.type == "data"]) == case["images"]
    for slide, number in case.get("images_by_slide", {}).items():
        assert len([s for s in sections if s.content.type == "data" and s.metadata["slide"] == int(slide)]) == number
    if row := case.get("table_row"):
        assert row in [found[: len(row)] for found in _table_rows("\n".join(s.text for s in matching))]
    if case.get("text_empty"):
        assert not any(section.text.strip() for section in sections)


@pytest.mark.parametrize("case", _rows(), ids=lambda case: case["file"])
async def test_a_public_file_reads_as_its_case_says(case: dict[str, Any]) -> None:
    """Text, places, counts, images, tables and errors are those that an independent tool confirmed."""
    started = cpu_seconds()

    if "expect_error" in case:
        with pytest.raises(ParseError, match=f"(?i){case['expect_error']}"):
            await _parser(case).parse(case["path"], case["file"])
        return
    try:
        sections = await _parser(case).parse(case["path"], case["file"])
    except ParseError:
        assert case.get("any_outcome")
        sections = []

    assert cpu_seconds() - started < case.get("ends_within_s", 20)
    if not case.get("any_outcome"):
        _check(case, sections)


@pytest.mark.parametrize("case", [c for c in _rows() if c["parser"] == "text"], ids=lambda case: case["file"])
async def test_the_text_parser_reads_them_as_one_section(case: dict[str, Any]) -> None:
    """`TextParser` decodes what is not UTF-8 too, and keeps its one Section."""
    sections = await TextParser().parse(case["path"], case["file"])

    assert len(sections) == 1
    _check(case, sections)
