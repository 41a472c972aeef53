"""What both Qdrant engines share: how a collection lies in points.

A chunk is a point with the vectors `DENSE` and `SPARSE`; a document is a point without vectors, its head, which holds
the summary and names the version that counts.
"""

from __future__ import annotations

from typing import Literal

DENSE, SPARSE = "d", "k"
KIND = "t"
"""`HEAD` on heads, missing on chunks."""
HEAD = "head"
SUMMARY = "h"
"""On a head: the DocumentSummary as JSON text."""

Distance = Literal["Cosine", "Dot", "Euclid", "Manhattan"]


def score_of(raw: float, distance: str) -> float:
    """Higher is better: cosine within [-1, 1], distances negated."""
    if distance == "Cosine":
        return min(1.0, max(-1.0, raw))
    return raw if distance == "Dot" else -raw + 0.0
