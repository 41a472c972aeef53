"""Which paths of a tree a source takes; for trees that are no folder of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import pathspec

from ..parsers.registry import supported_extensions
from .base import Listing


class Patterns:
    """`include` and `exclude` as in .gitignore, and the endings that a parser takes."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = pathspec.PathSpec.from_lines("gitignore", include) if include else None
        self._exclude = pathspec.PathSpec.from_lines("gitignore", exclude) if exclude else None

    def chosen(self, paths: Iterable[str], listing: Listing) -> list[str]:
        """Those of `paths` that are taken, sorted; what no parser takes is reported in `listing`."""
        endings = frozenset(supported_extensions())
        taken = []
        for path in sorted(paths):
            if any(part.startswith(".") for part in path.split("/")):
                continue
            if self._exclude is not None and self._exclude.match_file(path):
                continue
            if self._include is not None:
                if self._include.match_file(path):
                    taken.append(path)
                continue
            ending = os.path.splitext(path)[1].lower()
            if ending in endings:
                taken.append(path)
            else:
                listing.skipped.append((path, f"no parser for {ending or 'a file without extension'}"))
        return taken
