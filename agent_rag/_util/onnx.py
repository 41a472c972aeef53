"""A transformer in ONNX with its tokenizer, from a folder as sentence-transformers and optimum write it.

Nothing is fetched: the folder holds all of it.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import ConfigurationError
from .extras import needs

_MODELS = ("model.onnx", "onnx/model.onnx")
_TOKENIZER = "tokenizer.json"
_DEFAULT_TOKENS = 512
_UNBOUNDED = 1_000_000
"""Tokenizers without a bound write 10^30."""
_SAMPLES, _SAMPLE_BYTES = 64, 65_536


class Encoded(NamedTuple):
    """What the model gives for a batch, and which positions count."""

    outputs: dict[str, npt.NDArray[Any]]
    mask: npt.NDArray[np.int64]
    """1 where a token is, 0 for padding; shape (rows, tokens)."""
    owners: list[int]
    """The input that each row belongs to: a long one has several, its windows."""


class OnnxFolder:
    """The files of a model; opened with the first input. Safe to use from several threads.

    Args:
        folder: Holds a model (``model.onnx``, ``onnx/model.onnx`` or the only .onnx file) and ``tokenizer.json``.
        model: The file of the model, where there are several, relative to `folder`.
        tokenizer: The file of the tokenizer, where it lies elsewhere.
        extra: Names the extra to install where onnxruntime is missing.
        max_tokens: Longest input, with its special tokens; None: as the folder says, else 512.
        threads: Of the engine; None: one for each core.

    Raises: ConfigurationError: the folder lacks a file, or has several models.
    """

    def __init__(
        self,
        folder: Path,
        *,
        model: str | None = None,
        tokenizer: Path | None = None,
        extra: str = "onnx",
        max_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        if not folder.is_dir():
            raise ConfigurationError(f"{folder} is no folder; give one that holds a model.onnx and a {_TOKENIZER}")
        self.folder = folder
        self.model = _model_file(folder, model)
        self.tokenizer = tokenizer or folder / _TOKENIZER
        if not self.tokenizer.is_file():
            raise ConfigurationError(
                f"{folder} has no {_TOKENIZER}; save the tokenizer there with `tokenizer.save_pretrained(folder)`"
            )
        self.max_tokens = max_tokens or self._stated_tokens()
        self._extra = extra
        self._threads = threads
        self._lock = threading.Lock()
        self._opened: tuple[Any, Any] | None = None

    def config(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder; empty where there is none.

        Raises: ConfigurationError: it is no JSON object.
        """
        path = self.folder / name
        if not path.is_file():
            return {}
        try:
            found = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise ConfigurationError(f"{path} is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise ConfigurationError(f"{path} holds no JSON object")
        return found

    def digest(self) -> str:
        """Tells models apart: of the sizes of the model's files, and 64 pieces of each (a whole GB takes a second)."""
        found = hashlib.sha256()
        for path in (*sorted(self.model.parent.glob(f"{self.model.name}*")), self.tokenizer):
            size = path.stat().st_size
            found.update(f"{path.name}:{size};".encode())
            with path.open("rb") as file:
                for part in range(_SAMPLES):
                    file.seek(part * max(0, size - _SAMPLE_BYTES) // (_SAMPLES - 1))
                    found.update(file.read(_SAMPLE_BYTES))
                    if size <= _SAMPLE_BYTES:
                        break
        return found.hexdigest()[:16]

    @property
    def output_shapes(self) -> dict[str, list[Any]]:
        """Name -> shape of each output, as the model declares them; opens it."""
        session, _ = self._open()
        return {output.name: list(output.shape) for output in session.get_outputs()}

    def run(self, inputs: Sequence[str] | Sequence[tuple[str, str]], *, windows: bool = False) -> Encoded:
        """Run the model.

        Args:
            inputs: Texts, or pairs of texts.
            windows: A long input becomes several rows, which together hold all of it; else it is cut.
        """
        session, tokenizer = self._open()
        rows, owners = [], []
        for owner, encoding in enumerate(tokenizer.encode_batch(list(inputs))):
            for row in (encoding, *(encoding.overflowing if windows else ())):
                rows.append(row)
                owners.append(owner)
        width = max(len(row.ids) for row in rows)
        columns = {
            "input_ids": _padded([row.ids for row in rows], width, self._padding),
            "attention_mask": _padded([row.attention_mask for row in rows], width, 0),
            "token_type_ids": _padded([row.type_ids for row in rows], width, 0),
        }
        wanted = [one.name for one in session.get_inputs()]
        if missing := sorted(set(wanted) - columns.keys()):
            raise ConfigurationError(f"{self.model} wants the inputs {', '.join(missing)}, which no tokenizer makes")
        names = [output.name for output in session.get_outputs()]
        answers = session.run(names, {name: columns[name] for name in wanted})
        return Encoded(dict(zip(names, answers, strict=True)), columns["attention_mask"], owners)

    def _open(self) -> tuple[Any, Any]:
        with self._lock:
            if self._opened is None:
                engine = needs(self._extra, "onnxruntime", purpose=f"the model in {self.folder}")
                from tokenizers import Tokenizer

                options = engine.SessionOptions()
                options.intra_op_num_threads = self._threads or 0
                try:
                    tokenizer = Tokenizer.from_file(str(self.tokenizer))
                    session = engine.InferenceSession(str(self.model), options, providers=["CPUExecutionProvider"])
                except Exception as error:  # both libraries raise their own classes, and plain Exception
                    raise ConfigurationError(f"the model in {self.folder} cannot be opened: {error}") from error
                padding = tokenizer.padding or {}
                self._padding = int(padding.get("pad_id", self.config("config.json").get("pad_token_id") or 0))
                tokenizer.no_padding()
                tokenizer.enable_truncation(self.max_tokens)
                self._opened = session, tokenizer
            return self._opened

    def _stated_tokens(self) -> int:
        stated = (
            self.config("sentence_bert_config.json").get("max_seq_length"),
            self.config("tokenizer_config.json").get("model_max_length"),
            self.config("config.json").get("max_position_embeddings"),
        )
        found = [int(number) for number in stated if isinstance(number, int | float) and 0 < number < _UNBOUNDED]
        return min(found, default=_DEFAULT_TOKENS)


def batches(inputs: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Parts of `inputs`, in order."""
    for start in range(0, len(inputs), size):
        yield inputs[start : start + size]


def _model_file(folder: Path, given: str | None) -> Path:
    if given is not None:
        if not (folder / given).is_file():
            raise ConfigurationError(f"{folder / given} is not there; name a file of the folder")
        return folder / given
    for name in _MODELS:
        if (folder / name).is_file():
            return folder / name
    found = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found)
        has = f"several models ({names}); name one" if found else "no .onnx file; export the model to ONNX first"
        raise ConfigurationError(f"{folder} has {has}")
    return found[0]


def _padded(rows: Sequence[Sequence[int]], width: int, value: int) -> npt.NDArray[np.int64]:
    out = np.full((len(rows), width), value, np.int64)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out
