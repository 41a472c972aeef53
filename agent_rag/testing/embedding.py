"""An embedding model without weights."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

from ..content import Base64Source, DataBlock, TextBlock
from ..embeddings.base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse
from ..retrieval.lexical import tokenize


class HashEmbedding(EmbeddingModelBase):
    """Bag of hashed tokens: deterministic, offline, and texts that share words are near each other.

    Counts what it is asked, so that a test can say what was embedded.
    """

    coverage_weighting = False  # its vectors are words too

    def __init__(self, dimensions: int = 64, *, supports_multimodal: bool = False, name: str = "hash") -> None:
        """
        Args:
            name: Part of the fingerprint, to stand for another model of the same size.
        """
        self.dimensions = dimensions
        self.supports_multimodal = supports_multimodal
        self.name = name
        self.calls = 0
        """Number of calls."""
        self.texts: list[str] = []
        """Every text embedded, in order; for data its caption, or its bytes in base64."""

    @property
    def fingerprint(self) -> str:
        return f"{self.name}:{self.dimensions}"

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        """Raises: ValueError: a text is blank, or data came to a model that is text only."""
        texts = [self._text(item) for item in inputs]
        self.calls += 1
        self.texts += texts
        return EmbeddingResponse(embeddings=[self.vector(text) for text in texts])

    def vector(self, text: str) -> list[float]:
        """The vector of one text, of length 1."""
        numbers = [0.0] * self.dimensions
        for token in tokenize(text) or [text]:
            code = zlib.crc32(token.encode("utf-8", "surrogatepass"))
            numbers[code % self.dimensions] += 1.0 if code & 0x80000000 else -1.0
        size = math.sqrt(sum(number * number for number in numbers))
        if size == 0:  # two tokens cancelled each other
            numbers[0] = size = 1.0
        return [number / size for number in numbers]

    def _text(self, item: EmbeddingInput) -> str:
        if isinstance(item, DataBlock):
            if not self.supports_multimodal:
                raise ValueError("this HashEmbedding is text only; use HashEmbedding(supports_multimodal=True)")
            source = item.source
            return item.caption or (source.data if isinstance(source, Base64Source) else str(source.url))
        text = item.text if isinstance(item, TextBlock) else item
        if not text.strip():
            raise ValueError("a text to embed is blank; leave it out")
        return text
