"""What a search gives: a list that notebooks show as passages."""

from __future__ import annotations

from collections.abc import Mapping

from ..documents import VectorSearchResult


class Hits(list[VectorSearchResult]):
    """Hits, best first. A list in every other respect."""

    corrected: Mapping[str, str] = {}
    """Word of the query that the collection does not have -> the word one letter away that was asked for beside it."""

    def _repr_html_(self) -> str:
        """For notebooks: one passage below the other, with file, place and scores."""
        return "".join(hit._repr_html_() for hit in self) or "<p>nothing found</p>"
