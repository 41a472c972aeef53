"""The file in which a person says which made questions are good."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import QuestionError
from .make import MadeQuestion
from .questions import Question, read_questions, review_path

_BOX = re.compile(r"^\s*[-*] \[(?P<mark>.?)\] `(?P<id>[^`]+)`", re.MULTILINE)
_HEAD = """# Review of {name}

Take the x out of a box to leave a question out: `agent-rag eval {name}` reads this file. Is the question clear without
its passage, would somebody ask it, and does the quote answer it?
"""


def write_review(path: str | Path, made: Sequence[MadeQuestion]) -> Path:
    """Write the review file beside the questions `path`, all boxes ticked. Returns its path."""
    file = review_path(path)
    parts = [_HEAD.format(name=Path(path).name)]
    for one in made:
        question = one.question
        lines = [f"- [x] `{question.id}` {_line(question.question)}", f"  - from {one.chunk_id}, {question.split}"]
        lines += [f"  - quote: {_line(quote)}" for quote in question.quotes]
        lines += [f"  - answer: {_line(question.answer)}"] if question.answer else []
        parts.append("\n".join(lines) + "\n")
    file.write_text("\n".join(parts), "utf-8")
    return file


def read_reviewed(path: str | Path) -> tuple[list[Question], int]:
    """The questions of a file without those that its review file, where there is one, leaves out, and their number.

    Raises: QuestionError: as `read_questions`; the review leaves nothing, or cannot be read.
    """
    questions = read_questions(path)
    file = review_path(path)
    if not file.exists():
        return questions, 0
    try:
        boxes = list(_BOX.finditer(file.read_text("utf-8-sig")))
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionError(f"{file}: cannot be read: {error}") from error
    out = {box["id"] for box in boxes if not box["mark"].strip()}
    kept = [question for question in questions if question.id not in out]
    if not kept:
        raise QuestionError(f"{file}: leaves out every question; tick the boxes of those that are good")
    return kept, len(questions) - len(kept)


def _line(text: str) -> str:
    return " ".join(text.split())
