"""The file of questions: what it may say, and which line is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_rag.errors import QuestionError
from agent_rag.evaluation import Place, Question, read_questions, split_of, write_questions
from agent_rag.evaluation.questions import in_split


def file_with(folder: Path, *rows: Any) -> Path:
    """A file of these rows; text stands as it is."""
    path = folder / "questions.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")
    return path


def test_a_line_names_documents_quotes_places_and_an_answer(tmp_path: Path) -> None:
    """Documents are a list or a mapping to grades; blank lines and a byte order mark are nothing."""
    path = file_with(
        tmp_path,
        "\ufeff" + json.dumps({"question": "a?", "documents": ["x.md"], "answer": "yes"}),
        "",
        {"question": "b?", "documents": {"x.md": 2}, "quotes": ["word for word"], "id": "b"},
        {"question": "c?", "places": [{"document": "y.pdf", "page": 4}], "split": "test"},
    )

    first, second, third = read_questions(path)

    assert first == Question(question="a?", documents={"x.md": 1}, answer="yes")
    assert (len(first.id), second.id) == (8, "b")
    assert (second.documents, second.quotes) == ({"x.md": 2}, ["word for word"])
    assert third.places == [Place.model_validate({"document": "y.pdf", "page": 4})]
    assert third.places[0].fields == {"page": 4}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Only what is not the default is written."""
    questions = [
        Question(question="a?", quotes=["x"], origin="heading"),
        Question.model_validate({"question": "b?", "places": [{"document": "y.md", "lines": [1, 9]}]}),
    ]

    write_questions(tmp_path / "q.jsonl", questions)

    assert read_questions(tmp_path / "q.jsonl") == questions
    assert '"split"' not in (tmp_path / "q.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("{broken", "line 2: is no JSON"),
        ("[1]", "line 2: is a JSON list"),
        ({"question": "a?"}, "line 2: question: Value error, nothing says what is right"),
        ({"question": "  ", "documents": ["x"]}, "line 2: question: Value error, the question is blank"),
        ({"question": "a?", "quotes": [" "]}, "a quote is blank"),
        ({"question": "a?", "documents": {"x": 0}}, "line 2: documents: Value error, the grade of 'x' is 0"),
        ({"question": "a?", "document": "x"}, "line 2: document: Extra inputs are not permitted"),
        ({"question": "a?", "places": [{"document": "x", "pge": 4}]}, "places.0: Value error, a place has unknown"),
        ({"question": "a?", "places": [{"document": "x"}]}, "nothing beside the document"),
        ({"question": "first?", "quotes": ["x"]}, "line 2: has the id '"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(tmp_path: Path, row: Any, told: str) -> None:
    """The error names the file, the line and what is wrong."""
    path = file_with(tmp_path, {"question": "first?", "quotes": ["x"]}, row)

    with pytest.raises(QuestionError) as caught:
        read_questions(path)

    assert told in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_a_file_without_questions_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    """Missing, empty, or no UTF-8."""
    path = tmp_path / "q.jsonl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(QuestionError, match=r"q\.jsonl: (cannot be read|has no question)"):
        read_questions(path)


def test_the_split_is_fixed_by_the_question() -> None:
    """About half on each side; the same question is on the same side, wherever it stands and however it is spaced."""
    questions = [Question(question=f"what is number {number}?", quotes=["x"]) for number in range(400)]

    train = in_split(questions, "train")

    assert 150 < len(train) < 250
    assert in_split(reversed(questions), "train") == train[::-1]
    assert {q.id for q in train} | {q.id for q in in_split(questions, "test")} == {q.id for q in questions}
    assert split_of(Question(question="a  b", quotes=["x"])) == split_of(Question(question="a b", quotes=["y"]))
    assert split_of(Question(question="a", quotes=["x"], split="test")) == "test"
