"""The transformer of multilingual-e5-small in numpy: sequences of tokens to their mean state.

Sequences of different lengths lie one behind the other, without padding, so what a text becomes does not depend on
the texts beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .e5_file import E5File, Layer, Matrix

_GROUP_TOKENS = 512
"""Tokens of one pass at least. (Measured: 512 to 2,048 take the same time, fewer and more take longer.)"""
_GELU_ROWS = 128
"""So many rows stay in the processor's cache."""


class E5Network:
    """Safe to use from several threads: a pass changes nothing but its own arrays.

    Source: Vaswani et al., "Attention Is All You Need", 2017; Devlin et al., "BERT", 2018.
    """

    def __init__(self, file: E5File) -> None:
        self._file = file
        self._sizes = file.sizes
        self._positions = file.positions()
        self._norm = file.vector("emb.ln.w"), file.vector("emb.ln.b")
        self._layers = [file.layer(number) for number in range(file.sizes.layers)]

    def means(self, sequences: Sequence[Sequence[int]]) -> Matrix:
        """The mean of the last states of each sequence, shape (sequences, hidden); none is longer than `positions`."""
        out = np.empty((len(sequences), self._sizes.hidden), np.float32)
        by_length = sorted(range(len(sequences)), key=lambda place: len(sequences[place]))
        group: list[int] = []
        tokens = 0
        for place in by_length:
            if group and tokens + len(sequences[place]) > _GROUP_TOKENS:
                out[group] = self._pass([sequences[one] for one in group])
                group, tokens = [], 0
            group.append(place)
            tokens += len(sequences[place])
        if group:
            out[group] = self._pass([sequences[one] for one in group])
        return out

    def _pass(self, sequences: Sequence[Sequence[int]]) -> Matrix:
        lengths = [len(sequence) for sequence in sequences]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        states = self._file.words(np.concatenate([np.asarray(one, np.int64) for one in sequences]))
        states += np.concatenate([self._positions[:length] for length in lengths])
        self._normalise(states, *self._norm)
        for layer in self._layers:
            states += self._attention(states, layer, bounds.tolist())
            self._normalise(states, *layer.output_norm)
            wide = states @ layer.widen
            wide += layer.widen_bias
            _gelu(wide)
            states += wide @ layer.narrow
            states += layer.narrow_bias
            self._normalise(states, *layer.narrow_norm)
        sums = np.add.reduceat(states, bounds[:-1], axis=0)
        return np.asarray(sums / np.array(lengths, np.float32)[:, None], np.float32)

    def _attention(self, states: Matrix, layer: Layer, bounds: list[int]) -> Matrix:
        heads = self._sizes.heads
        size = self._sizes.hidden // heads
        projected = states @ layer.attention
        projected += layer.attention_bias
        context = np.empty_like(states)
        for start, stop in pairwise(bounds):
            length = stop - start
            query, key, value = projected[start:stop].reshape(length, 3, heads, size).transpose(1, 2, 0, 3)
            weights = query @ key.transpose(0, 2, 1)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            mixed = weights @ value
            mixed /= weights.sum(axis=-1)[..., None]
            context[start:stop].reshape(length, heads, size)[:] = mixed.transpose(1, 0, 2)
        mixed = context @ layer.output
        mixed += layer.output_bias
        return mixed

    def _normalise(self, states: Matrix, weight: Matrix, bias: Matrix) -> None:
        """Layer normalisation, in place."""
        states -= states.mean(axis=-1, keepdims=True)
        variance = np.einsum("ij,ij->i", states, states)[:, None] / np.float32(states.shape[1])
        states *= weight / np.sqrt(variance + np.float32(self._sizes.epsilon))
        states += bias


def _gelu(states: Matrix) -> None:
    """GELU by the hyperbolic tangent, in place.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.
    """
    scale = np.float32(0.7978845608)
    buffer = np.empty((_GELU_ROWS, states.shape[1]), np.float32)
    for start in range(0, len(states), _GELU_ROWS):
        part = states[start : start + _GELU_ROWS]
        inner = buffer[: len(part)]
        np.multiply(part, part, out=inner)
        inner *= np.float32(0.044715) * scale
        inner += scale
        inner *= part
        np.tanh(inner, out=inner)
        inner += np.float32(1)
        inner *= np.float32(0.5)
        part *= inner
