"""What every embedding model does with its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from ..content import DataBlock, TextBlock
from .base import EmbeddingInput


def texts_of(inputs: Sequence[EmbeddingInput]) -> list[str]:
    """The text of each input; for data its caption.

    Raises: ValueError: `inputs` is a single string, or an input is blank. (Providers answer a blank with an error for
        the whole batch, and a vector of nothing would match everything a little.)
    """
    if isinstance(inputs, str):
        raise ValueError("inputs is a list of texts; wrap a single text in a list")
    texts = []
    for position, item in enumerate(inputs):
        text = item if isinstance(item, str) else item.text if isinstance(item, TextBlock) else item.caption or ""
        if not text.strip():
            kind = "an image without a caption" if isinstance(item, DataBlock) else "blank"
            raise ValueError(f"embedding input {position} of {len(inputs)} is {kind}; leave it out")
        texts.append(text)
    return texts
