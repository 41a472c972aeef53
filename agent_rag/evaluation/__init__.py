"""Measure retrieval and answers on questions of your own, compare settings, and prove what is better."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bootstrap import Difference, paired_differences
    from .configurations import Configuration, configuration_from
    from .metrics import ndcg, recall, reciprocal_rank
    from .questions import Place, Question, read_questions, split_of, write_questions
    from .report import ConfigurationResult, EvaluationReport
    from .run import evaluate

_LAZY = {
    "Configuration": "configurations",
    "ConfigurationResult": "report",
    "Difference": "bootstrap",
    "EvaluationReport": "report",
    "Place": "questions",
    "Question": "questions",
    "configuration_from": "configurations",
    "evaluate": "run",
    "ndcg": "metrics",
    "paired_differences": "bootstrap",
    "read_questions": "questions",
    "recall": "metrics",
    "reciprocal_rank": "metrics",
    "split_of": "questions",
    "write_questions": "questions",
}

__all__ = [
    "Configuration",
    "ConfigurationResult",
    "Difference",
    "EvaluationReport",
    "Place",
    "Question",
    "configuration_from",
    "evaluate",
    "ndcg",
    "paired_differences",
    "read_questions",
    "recall",
    "reciprocal_rank",
    "split_of",
    "write_questions",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
