"""Measure retrieval and answers on questions of your own, compare settings, and prove what is better."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answering import TRPC, AnsweredQuestion, AnswerReport, RecordingBase, answer_questions
    from .bootstrap import Difference, paired_differences
    from .configurations import Configuration, configuration_from
    from .make import MadeQuestions, make_questions
    from .metrics import ndcg, recall, reciprocal_rank
    from .questions import Place, Question, read_questions, split_of, write_questions
    from .ragas import score_answers
    from .report import ConfigurationResult, EvaluationReport
    from .review import read_reviewed, write_review
    from .run import evaluate
    from .tuning import TuneReport, tune

_LAZY = {
    "AnswerReport": "answering",
    "AnsweredQuestion": "answering",
    "Configuration": "configurations",
    "ConfigurationResult": "report",
    "Difference": "bootstrap",
    "EvaluationReport": "report",
    "MadeQuestions": "make",
    "Place": "questions",
    "Question": "questions",
    "RecordingBase": "answering",
    "TRPC": "answering",
    "TuneReport": "tuning",
    "answer_questions": "answering",
    "configuration_from": "configurations",
    "evaluate": "run",
    "make_questions": "make",
    "ndcg": "metrics",
    "paired_differences": "bootstrap",
    "read_questions": "questions",
    "read_reviewed": "review",
    "recall": "metrics",
    "reciprocal_rank": "metrics",
    "score_answers": "ragas",
    "split_of": "questions",
    "tune": "tuning",
    "write_questions": "questions",
    "write_review": "review",
}

__all__ = [
    "TRPC",
    "AnswerReport",
    "AnsweredQuestion",
    "Configuration",
    "ConfigurationResult",
    "Difference",
    "EvaluationReport",
    "MadeQuestions",
    "Place",
    "Question",
    "RecordingBase",
    "TuneReport",
    "answer_questions",
    "configuration_from",
    "evaluate",
    "make_questions",
    "ndcg",
    "paired_differences",
    "read_questions",
    "read_reviewed",
    "recall",
    "reciprocal_rank",
    "score_answers",
    "split_of",
    "tune",
    "write_questions",
    "write_review",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
