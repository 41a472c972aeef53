"""Questions with what answers them: the file that an evaluation reads, one JSON object a line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..errors import QuestionError
from ..places import PLACE_FIELDS

Split = Literal["train", "test"]
_MESSAGES = 3
"""Problems of one line that its error names."""


class Place(BaseModel):
    """A place in a document: a hit there is relevant. Fields beside `document` are those of a citation: ``page``,
    ``slide``, ``sheet``, ``lines``, ``rows`` ...; a number is equal, a pair ``[first, last]`` overlaps."""

    model_config = ConfigDict(extra="allow", frozen=True)

    document: str
    """Id of the document, or the end of its path."""

    @model_validator(mode="after")
    def _known_fields(self) -> Place:
        unknown = sorted(set(self.fields) - set(PLACE_FIELDS))
        if unknown or not self.fields:
            told = f"unknown field {unknown[0]!r}" if unknown else "nothing beside the document"
            raise ValueError(f"a place has {told}; use {', '.join(PLACE_FIELDS)}, or `documents` for whole documents")
        return self

    @property
    def fields(self) -> dict[str, Any]:
        """What it says beside the document."""
        return dict(self.__pydantic_extra__ or {})


class Question(BaseModel):
    """A question, and what a search for it should find."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1)
    id: str = ""
    """Default: a digest of the question, so that it stays when lines are moved."""
    documents: dict[str, int] = Field(default_factory=dict)
    """Relevant document -> grade; a list in the file means grade 1. A document is named by its id, or by the end of
    its path."""
    quotes: list[str] = Field(default_factory=list)
    """Texts, word for word, that answer the question together."""
    places: list[Place] = Field(default_factory=list)
    answer: str | None = None
    """A right answer, for the metrics of answers."""
    split: Split | None = None
    """Default: `split_of`."""
    origin: str | None = None
    """Who made it, such as "heading" or the name of a model."""

    @field_validator("documents", mode="before")
    @classmethod
    def _graded(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {value: 1}
        return dict.fromkeys(value, 1) if isinstance(value, list) else value

    @field_validator("documents")
    @classmethod
    def _positive(cls, value: dict[str, int]) -> dict[str, int]:
        if wrong := [name for name, grade in value.items() if grade < 1]:
            raise ValueError(f"the grade of {wrong[0]!r} is {value[wrong[0]]}; leave out what is not relevant")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Question:
        if not self.question.strip():
            raise ValueError("the question is blank")
        if any(not quote.strip() for quote in self.quotes):
            raise ValueError("a quote is blank")
        if not (self.documents or self.quotes or self.places or self.answer):
            raise ValueError("nothing says what is right; give documents, quotes, places or an answer")
        self.id = self.id or digest_of(self.question)
        return self

    @property
    def searchable(self) -> bool:
        """Whether it says what a search should find."""
        return bool(self.documents or self.quotes or self.places)


def digest_of(question: str) -> str:
    """Eight hexadecimal digits that stand for a question."""
    return hashlib.sha256(" ".join(question.split()).encode("utf-8", "replace")).hexdigest()[:8]


def split_of(question: Question) -> Split:
    """ "train" or "test": what the file says, else a fixed half each by the digest of the question, so that a question
    stays on its side when others come and go."""
    if question.split is not None:
        return question.split
    return "train" if int(digest_of(question.question), 16) % 2 else "test"


def in_split(questions: Iterable[Question], split: Split | Literal["all"]) -> list[Question]:
    """The questions of one side, or all."""
    return [question for question in questions if split in ("all", split_of(question))]


def read_questions(path: str | Path) -> list[Question]:
    """The questions of a file of JSON lines; blank lines are left out.

    Raises: QuestionError: the file cannot be read, has no question, or a line is wrong; names file and line.
    """
    file = Path(path)
    try:
        lines = file.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionError(f"{file}: cannot be read: {error}; it is UTF-8 text, one JSON object a line") from error
    questions: list[Question] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        question = _parsed(line, f"{file}, line {number}")
        if question.id in seen:
            raise QuestionError(
                f"{file}, line {number}: has the id {question.id!r} of line {seen[question.id]}; "
                "ask each question once, or give an `id`"
            )
        seen[question.id] = number
        questions.append(question)
    if not questions:
        raise QuestionError(f"{file}: has no question; a line is like {_EXAMPLE}")
    return questions


def review_path(path: str | Path) -> Path:
    """``questions.review.md`` of ``questions.jsonl``."""
    return Path(path).with_suffix(".review.md")


def write_questions(path: str | Path, questions: Sequence[Question]) -> None:
    """Write a file of JSON lines that `read_questions` reads."""
    rows = (question.model_dump(mode="json", exclude_defaults=True) for question in questions)
    Path(path).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


_EXAMPLE = '{"question": "How long is the timeout?", "quotes": ["The timeout is thirty seconds."]}'


def _parsed(line: str, where: str) -> Question:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"{where}: is no JSON: {error}; a line is like {_EXAMPLE}") from error
    if not isinstance(row, Mapping):
        raise QuestionError(f"{where}: is a JSON {type(row).__name__}; a line is an object like {_EXAMPLE}")
    try:
        return Question.model_validate(row)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc'])) or 'question'}: {one['msg']}" for one in error.errors()]
        raise QuestionError(f"{where}: {'; '.join(problems[:_MESSAGES])}") from error
