"""Small ONNX models, written by hand, so that no test needs weights or the package that builds graphs.

Source: onnx.proto3 of the ONNX project: numbers of fields and of types.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog", "pump", "valve"]
_FLOAT, _INT64 = 1, 7
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def save_encoder(folder: Path, *, size: int = 8, pooling: str | None = "mean_tokens", tokens: int = 8) -> None:
    """A model whose state of a token is the row of its word in the unit matrix; `size` is 8, one for each word."""
    rows = [[1.0 if column == row else 0.0 for column in range(size)] for row in range(len(WORDS))]
    _save(folder, "last_hidden_state", ["batch", "tokens", size], rows, reduce=False, tokens=tokens)
    _write(folder / "config.json", {"hidden_size": size})
    if pooling is not None:
        _write(folder / "1_Pooling/config.json", {"word_embedding_dimension": size, f"pooling_mode_{pooling}": True})


def save_cross_encoder(folder: Path, *, scores: Sequence[float]) -> None:
    """A model whose score of a pair is the sum of the scores of its words, those of `WORDS` in order."""
    _save(folder, "logits", ["batch", 1], [[score] for score in scores], reduce=True, tokens=16)
    _write(folder / "config.json", {})


def _save(
    folder: Path, output: str, shape: Sequence[str | int], rows: Sequence[Sequence[float]], *, reduce: bool, tokens: int
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = _field(1, len(rows)) + _field(1, len(rows[0])) + _field(2, _FLOAT) + _field(8, "words")
    table += _field(9, struct.pack(f"<{len(rows) * len(rows[0])}f", *(number for row in rows for number in row)))
    states = "states" if reduce else output
    nodes = [_node("Gather", ["words", "input_ids"], [states])]
    if reduce:  # the states of padding are zero, as its word has the score 0
        axis = _field(1, 1) + _field(2, _INT64) + _field(8, "axis") + _field(9, struct.pack("<q", 1))
        keep = _field(1, "keepdims") + _field(3, 0) + _field(20, 2)
        nodes.append(_node("ReduceSum", [states, "axis"], [output], keep))
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, "graph") + _field(5, table)
    if reduce:
        graph += _field(5, axis)
    graph += b"".join(_field(11, _value(name, _INT64, ["batch", "tokens"])) for name in _INPUTS)
    graph += _field(12, _value(output, _FLOAT, shape))
    (folder / "model.onnx").write_bytes(_field(1, 8) + _field(7, graph) + _field(8, _field(2, 17)))
    _write(folder / "tokenizer.json", _tokenizer())
    _write(folder / "tokenizer_config.json", {"model_max_length": tokens})


def _tokenizer() -> dict[str, object]:
    special = [
        {"id": number, "content": word, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for number, word in enumerate(WORDS[:4])
    ]  # fmt: skip
    first, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    begin, end = ({"SpecialToken": {"id": word, "type_id": 0}} for word in ("[CLS]", "[SEP]"))
    return {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, first, end],
            "pair": [begin, first, end, second, end],
            "special_tokens": {
                word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }


def _write(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], *attributes: bytes) -> bytes:
    names = b"".join(_field(1, name) for name in inputs) + b"".join(_field(2, name) for name in outputs)
    return names + _field(4, kind) + b"".join(_field(5, attribute) for attribute in attributes)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = b"".join(_field(1, _field(2, one) if isinstance(one, str) else _field(1, one)) for one in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, sizes)))


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
