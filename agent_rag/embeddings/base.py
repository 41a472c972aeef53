"""The contract of an embedding model: texts and images in, vectors out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from ..content import DataBlock, TextBlock

EmbeddingInput = str | TextBlock | DataBlock
"""What a model embeds: text, or an image where it takes them."""
EmbeddingMode = Literal["document", "query"]
"""What the vectors are for: some models embed questions and passages differently."""


_NAME_ATTRIBUTES = ("model", "model_name", "model_id", "name")


class EmbeddingResponse(BaseModel):
    """One vector per input, in order."""

    embeddings: list[list[float]]
    tokens: int | None = None
    """Tokens the provider counted."""


class EmbeddingModelLike(Protocol):
    """What a KnowledgeBase needs of an embedding model; `EmbeddingModelBase` has it, and so may a class of your own.

    `supports_multimodal`, `keyword_weight`, `coverage_weighting`, `fingerprint` and a keyword argument `mode` are used
    where they are there.
    """

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    async def __call__(self, inputs: list[Any], /) -> Any:
        """Embed `inputs`: something with `embeddings`, one vector per input, in order."""
        ...


class EmbeddingModelBase(ABC):
    """Turns texts (and images, if `supports_multimodal`) into vectors.

    Subclass it, set the attributes and implement `__call__`. Safe to call concurrently. A model that only has
    `dimensions`, `supports_multimodal` and ``await model(inputs)`` giving `.embeddings` works too.
    """

    dimensions: int
    """Length of every vector."""
    supports_multimodal: bool = False
    """Whether a DataBlock can be embedded."""
    keyword_weight: float | None = None
    """Share of the keyword score in hybrid search, in [0, 1]; None: `DEFAULT_KEYWORD_WEIGHT` of `retrieval.fusion`."""

    coverage_weighting: bool = True
    """Whether the keyword share shrinks with the part of a question that the collection has no word of. (With neural
    models German questions over English text gain .12 nDCG@10, same languages 0 to .006; static vectors gain nothing.)
    """

    @property
    def fingerprint(self) -> str:
        """Names the vector space: two models with the same fingerprint give comparable vectors.

        The default is made of the class, the size, and the name of the model where the object has one; a model with
        settings that change its vectors says so in a `fingerprint` of its own.
        """
        return default_fingerprint(self, self.dimensions)

    @abstractmethod
    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        """Embed `inputs`.

        Args:
            inputs: Non-blank texts or blocks.
            mode: Some models embed questions and passages differently.

        Returns: `len(inputs)` finite vectors of `dimensions` numbers, in order.
        Raises: EmbeddingError: and its subclasses. ValueError: an input is blank.
        """


def default_fingerprint(model: object, dimensions: int) -> str:
    """Class, name and size of a model that names no vector space itself."""
    named = (getattr(model, attribute, None) for attribute in _NAME_ATTRIBUTES)
    name = next((value for value in named if isinstance(value, str) and value), "")
    return f"{type(model).__name__}{f'/{name}' if name else ''}:{dimensions}"
