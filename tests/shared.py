"""The cases and data that lie beside the checkout; tests that need them are skipped where they are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="put the folder `shared` beside the checkout to run this")


def behaviour_case(case_id: str) -> dict[str, Any]:
    """A row of cases/behaviour.jsonl."""
    with (SHARED / "cases/behaviour.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            if row["id"] == case_id:
                return row
    raise LookupError(case_id)


def retrieval_set(name: str) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    """Document id -> text, query id -> text, query id -> document id -> grade, of a set under ``shared/ir``."""
    folder = SHARED / "ir" / name
    corpus = {row["_id"]: f"{row.get('title', '')} {row['text']}".strip() for row in _rows(folder / "corpus.jsonl")}
    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        relevant.setdefault(query, {})[document] = int(grade)
    queries = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl") if row["_id"] in relevant}
    return corpus, queries, relevant


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
