"""Is what an answer says in the passages that it cites? Sentence by sentence, without a model."""

from .check import check_answer
from .judge import judge_rest
from .results import CheckedAnswer, Outcome, Quotable, Sentence, Support, Verdict

__all__ = ["CheckedAnswer", "Outcome", "Quotable", "Sentence", "Support", "Verdict", "check_answer", "judge_rest"]
