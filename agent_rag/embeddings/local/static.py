"""The default: static word-piece vectors, the mean of which is the vector of a text."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._util.extras import data_file
from ...errors import MissingExtraError
from ..base import EmbeddingMode

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TOKENIZED = 16
"""Texts at a time: the tokenizer makes a small allocation for each token, and 100,000 of them leave holes."""

Matrix = npt.NDArray[np.float32]


class StaticEncoder:
    """The MIT-licensed weights that the wordllama wheel carries. All instances share them."""

    dimensions = 256
    fingerprint = "wordllama/l2_supercat_256"
    keyword_weight = None
    neural = False
    batch_size = 256
    parallel = 1

    def encode(self, texts: list[str], mode: EmbeddingMode) -> list[list[float]]:
        tokenizer, weights = _load()
        out = np.zeros((len(texts), weights.shape[1]), np.float32)
        for start in range(0, len(texts), _TOKENIZED):
            part = texts[start : start + _TOKENIZED]
            for row, encoding in enumerate(tokenizer.encode_batch_fast(part, add_special_tokens=False), start):
                if encoding.ids:
                    weights.take(encoding.ids, axis=0).mean(axis=0, out=out[row])
        out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        rows: list[list[float]] = out.tolist()
        return rows


_lock = threading.Lock()
_loaded: tuple[Any, Matrix] | None = None


def _load() -> tuple[Any, Matrix]:
    global _loaded
    with _lock:
        if _loaded is None:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            # The package itself is not imported: its loader looks for the tokenizer in the wrong folder and downloads.
            try:
                weights, words = data_file("wordllama", _WEIGHTS), data_file("wordllama", _TOKENIZER)
            except ImportError as error:
                raise MissingExtraError(
                    "LocalEmbeddingModel needs the weights of the package 'wordllama': pip install 'wordllama>=0.4.0', "
                    f"or choose another embedding model ({error})"
                ) from error
            # Shared by all threads: encoding only reads it. Padding and truncation, which write to it, are set once.
            tokenizer = Tokenizer.from_file(str(words))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            _loaded = tokenizer, next(iter(load_file(weights).values())).astype(np.float32)
        return _loaded
