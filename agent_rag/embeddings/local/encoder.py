"""What each local model is to `LocalEmbeddingModel`."""

from __future__ import annotations

from typing import Protocol

from ..base import EmbeddingMode


class Encoder(Protocol):
    """Texts to vectors, in the calling thread. Making one reads nothing large; the weights load with the first text.

    Safe to use from several threads.
    """

    @property
    def dimensions(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Names the vector space."""
        ...

    @property
    def keyword_weight(self) -> float | None:
        """Share of the keyword score in hybrid search, in [0, 1], as measured with this model; None: the default."""
        ...

    @property
    def neural(self) -> bool:
        """Whether it finds texts that share no word with the query; static vectors hardly do."""
        ...

    @property
    def batch_size(self) -> int:
        """Texts of one thread job, so that a cancelled call ends soon."""
        ...

    @property
    def parallel(self) -> int:
        """Thread jobs at a time that are worth it."""
        ...

    def encode(self, texts: list[str], mode: EmbeddingMode) -> list[list[float]]:
        """A unit vector for each text, in order. Raises: MissingExtraError, ConfigurationError: no weights."""
        ...
