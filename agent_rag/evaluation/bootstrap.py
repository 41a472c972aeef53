"""How far the difference of two configurations can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, computed_field

RESAMPLES = 10_000
_LEVEL = 0.95
_SEED = 1993


class Difference(BaseModel):
    """How much higher one configuration is than another in one metric, over the same questions."""

    model_config = ConfigDict(frozen=True)

    mean: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    better: int
    """Questions on which it is higher."""
    worse: int
    questions: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]{'*' if self.significant else ''}"


def paired_differences(
    ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]
) -> dict[str, Difference]:
    """Paired bootstrap of the mean difference, ours minus theirs, with its 95 % percentile interval.

    Questions are drawn with replacement, 10,000 times, the same draws for both sides and for all calls of one size, so
    that equal figures give equal intervals. One interval in twenty that excludes 0 does so by chance.

    Args:
        ours: Metric -> one value for each question.
        theirs: The same questions in the same order.

    Raises: ValueError: the lists of a metric differ in length, or are empty.
    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 6 and 13; for rankings Sakai,
        "Evaluating Evaluation Metrics Based on the Bootstrap", SIGIR 2006.
    """
    drawn: dict[str, Difference] = {}
    by_size: dict[int, list[str]] = {}
    for name in ours:
        if not ours[name] or len(ours[name]) != len(theirs[name]):
            raise ValueError(f"{name}: {len(ours[name])} values against {len(theirs[name])}; pass one a question")
        by_size.setdefault(len(ours[name]), []).append(name)
    for size, names in by_size.items():
        values = np.array([np.subtract(ours[name], theirs[name]) for name in names]).T
        lows, highs = _interval(values)
        for position, name in enumerate(names):
            column = values[:, position]
            drawn[name] = Difference(
                mean=float(column.mean()),
                low=float(lows[position]),
                high=float(highs[position]),
                better=int((column > 0).sum()),
                worse=int((column < 0).sum()),
                questions=size,
            )
    return {name: drawn[name] for name in ours}


def _interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval of each column's mean."""
    random = np.random.default_rng(_SEED)
    count = len(values)
    means = np.empty((RESAMPLES, values.shape[1]))
    for draw in range(RESAMPLES):
        # How often each question was drawn: one product instead of a copy of all rows.
        weights = np.bincount(random.integers(count, size=count), minlength=count)
        means[draw] = weights @ values
    tail = 100 * (1 - _LEVEL) / 2
    low, high = np.percentile(means / count, [tail, 100 - tail], axis=0)
    return low, high
