"""What is compared: ways to search what is stored, and other ways to cut and embed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from ..embeddings.base import EmbeddingModelLike
from ..errors import ConfigurationError
from ..knowledge.search import SearchMode
from ..retrieval import RerankerBase
from ..retrieval.rank import Fusion

_MODES = ("hybrid", "semantic", "keyword")
_FUSIONS = ("convex", "rrf", "dbsf")


class IndexSettings(NamedTuple):
    """What decides the stored chunks and vectors; None is what the knowledge base has."""

    chunk_size: int | None = None
    overlap: int | None = None
    embedding: str | EmbeddingModelLike | None = None

    @property
    def changed(self) -> bool:
        """Whether the documents must be read anew for it."""
        return self != IndexSettings()


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One way to search. What is None stays as the knowledge base has it."""

    name: str
    mode: SearchMode | None = None
    top_k: int | None = None
    """Hits that a search gives; None: as many as the metrics look at."""
    keyword_weight: float | None = None
    """Share of the keyword score in hybrid search, in [0, 1]."""
    fusion: Fusion | None = None
    score_threshold: float | None = None
    reranker: RerankerBase | str | None = None
    """Orders the hits anew; by name: ``cross-encoder:FOLDER``, or ``cohere``, ``jina``, ``voyage`` with ``:MODEL``."""
    chunk_size: int | None = None
    """This and those below need the documents read anew into an index of their own."""
    overlap: int | None = None
    embedding: str | EmbeddingModelLike | None = None
    """A model, or its name as in agent-rag.toml."""

    def __post_init__(self) -> None:
        """Raises: ConfigurationError: a value is out of range."""
        if self.mode not in (None, *_MODES):
            raise ConfigurationError(f"{self.name}: mode {self.mode!r} is unknown; use {', '.join(_MODES)}")
        if self.fusion not in (None, *_FUSIONS):
            raise ConfigurationError(f"{self.name}: fusion {self.fusion!r} is unknown; use {', '.join(_FUSIONS)}")
        if self.keyword_weight is not None and not 0 <= self.keyword_weight <= 1:
            raise ConfigurationError(f"{self.name}: keyword_weight is {self.keyword_weight}; it is from 0 to 1")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigurationError(f"{self.name}: top_k is {self.top_k}; it is at least 1")

    @property
    def index(self) -> IndexSettings:
        """What its index must be like."""
        return IndexSettings(self.chunk_size, self.overlap, self.embedding)

    @property
    def settings(self) -> dict[str, str | int | float]:
        """What it changes, for reports."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "name"}
        return {
            name: value if isinstance(value, str | int | float) else type(value).__name__
            for name, value in given.items()
            if value is not None
        }


def configuration_from(text: str) -> Configuration:
    """The configuration that ``keyword_weight=.8,chunk_size=600`` describes; ``name=...`` names it, else its settings.

    Raises: ConfigurationError: a setting is unknown or wrong.
    """
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or name not in _READERS:
            raise ConfigurationError(f"{part!r} is no setting; use NAME=VALUE with {', '.join(_READERS)}")
        try:
            given[name] = _READERS[name](value)
        except ValueError as error:
            raise ConfigurationError(f"{part!r}: {value!r} is no {_READERS[name].__name__}") from error
    if not given:
        raise ConfigurationError("a configuration is empty; write it as mode=keyword or keyword_weight=.8,top_k=5")
    given.setdefault("name", text.replace(" ", ""))
    return Configuration(**given)


def reranker_from(name: str | RerankerBase | None) -> RerankerBase | None:
    """The reranker of a name.

    Raises: ConfigurationError: it is unknown. MissingExtraError: its package is not installed.
    """
    if name is None or isinstance(name, RerankerBase):
        return name
    kind, _, model = name.partition(":")
    if kind == "cross-encoder" and model:
        from ..retrieval import CrossEncoderReranker

        return CrossEncoderReranker(model)
    if kind in ("cohere", "jina", "voyage"):
        from ..retrieval import HTTPReranker

        return HTTPReranker(kind, model=model or None)  # type: ignore[arg-type]
    raise ConfigurationError(f"reranker {name!r} is unknown; use cross-encoder:FOLDER, cohere, jina or voyage")


_READERS: Mapping[str, Any] = {
    "name": str,
    "mode": str,
    "top_k": int,
    "keyword_weight": float,
    "fusion": str,
    "score_threshold": float,
    "reranker": str,
    "chunk_size": int,
    "overlap": int,
    "embedding": str,
}
