"""JSONChunker keeps JSON valid, exact and findable."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from agent_rag.chunkers import JSONChunker, token_length
from agent_rag.documents import Chunk, text_section

from .test_cases import byte_level_tokenizer


async def chunks_of(text: str, **options: Any) -> list[Chunk]:
    return await JSONChunker(**options).chunk([text_section(text, "t.json", format="json")])


def shown(chunks: list[Chunk]) -> list[tuple[str, dict[str, Any]]]:
    return [(chunk.text, {key: chunk.metadata[key] for key in chunk.metadata if key != "format"}) for chunk in chunks]


async def test_a_text_that_fits_stays_as_it_is() -> None:
    """White space and number forms are untouched, and the chunk has a span."""
    text = '{\n  "a": 1.10\n}'

    (chunk,) = await chunks_of(text)

    assert (chunk.text, chunk.span, chunk.metadata["key_path"]) == (text, (0, 15), [])


async def test_members_are_packed_under_their_keys() -> None:
    """Each chunk repeats the keys above it; array positions are told, from 0."""
    text = '{"shop": {"name": "Lumo", "items": ["lamp", "bulb", "wire", "plug"]}, "n": 1}'

    chunks = await chunks_of(text, chunk_size=42)

    assert shown(chunks) == [
        ('{"shop": {"name": "Lumo"}}', {"key_path": ["shop"]}),
        ('{"shop": {"items": ["lamp", "bulb"]}}', {"key_path": ["shop", "items"], "items": [0, 1]}),
        ('{"shop": {"items": ["wire", "plug"]}}', {"key_path": ["shop", "items"], "items": [2, 3]}),
        ('{"n": 1}', {"key_path": []}),
    ]


async def test_nothing_passes_through_floats() -> None:
    """Duplicate keys, NaN, long integers, 1.10 and 1E400 come out as written."""
    members = ['"a": 1', '"a": 2', '"b": NaN', '"c": 123456789012345678901234567890', '"d": 1.10', '"e": 1E400']

    chunks = await chunks_of("{" + ", ".join(members) + "}", chunk_size=42)

    assert [chunk.text[1:-1] for chunk in chunks] == [", ".join(members[:3]), members[3], ", ".join(members[4:])]


async def test_a_long_string_is_divided_into_strings() -> None:
    """Parts are cut at words, numbered from 1, and put together again they are the value."""
    value = 'He said "yes" and \n left. ' * 10

    chunks = await chunks_of(json.dumps({"note": value}), chunk_size=60)

    assert "".join(json.loads(chunk.text)["note"] for chunk in chunks) == value
    assert [chunk.metadata["part"] for chunk in chunks] == [[n, len(chunks)] for n in range(1, len(chunks) + 1)]
    assert all(chunk.metadata["key_path"] == ["note"] for chunk in chunks)


async def test_clusters_and_escapes_stay_whole() -> None:
    """A family emoji is not divided; half a surrogate pair stays an escape."""
    text = json.dumps(["👩‍👩‍👧" * 20, "\ud800" + "x" * 60])

    chunks = await chunks_of(text, chunk_size=30)

    assert "".join(json.loads(chunk.text)[0] for chunk in chunks) == "👩‍👩‍👧" * 20 + "\ud800" + "x" * 60
    assert all(len(chunk.text) <= 30 and chunk.text.encode() for chunk in chunks)
    assert all(json.loads(chunk.text)[0].count("👩") % 2 == 0 for chunk in chunks)


@pytest.mark.parametrize(
    "text", ['"' + "word " * 30 + '"', "1" * 200, '["' + "x" * 200 + '"]', '{"' + "k" * 200 + '": 5}']
)
async def test_single_values_that_are_too_long_are_divided(text: str) -> None:
    """A top-level string, a number, an element and even a key keep the size and their characters."""
    chunks = await chunks_of(text, chunk_size=40)

    assert all(len(chunk.text) <= 40 for chunk in chunks)
    assert all(json.loads(chunk.text) is not None for chunk in chunks)
    for letter in ("w", "1", "x", "k", "5"):
        assert sum(chunk.text.count(letter) for chunk in chunks) == text.count(letter)


async def test_json_lines_are_an_array_of_values() -> None:
    """Each chunk is one JSON array of whole records."""
    chunks = await chunks_of('{"a": 1}\n\n{"b": "cc"}\n{"d": 3}\n', chunk_size=24)

    assert shown(chunks) == [
        ('[{"a": 1}, {"b": "cc"}]', {"key_path": [], "items": [0, 1]}),
        ('[{"d": 3}]', {"key_path": [], "items": [2, 2]}),
    ]


@pytest.mark.parametrize(
    "text", ['{"a": 1, and then it breaks off', "plain words, no JSON", "[" * 5000, '{"a":' * 3000]
)
async def test_what_is_no_json_is_cut_as_text(text: str) -> None:
    """Broken JSON, and JSON nested deeper than can be followed, lose nothing."""
    chunks = await chunks_of(text, chunk_size=20)

    assert "".join(chunk.text for chunk in chunks) == text
    assert all(chunk.span is not None and len(chunk.text) <= 20 for chunk in chunks)


async def test_deep_paths_keep_the_inner_keys() -> None:
    """Where the keys above take more than half of the size, the outer ones stand in the metadata only."""
    text = '{"one":{"two":{"three":{"four":["' + '","'.join("abcdefgh") + '"]}}}}'

    chunks = await chunks_of(text, chunk_size=40)

    assert [chunk.text for chunk in chunks] == ['{"four": ["a", "b", "c", "d", "e", "f"]}', '{"four": ["g", "h"]}']
    assert all(chunk.metadata["key_path"] == ["one", "two", "three", "four"] for chunk in chunks)


@pytest.mark.parametrize("seed", range(40))
async def test_random_values_come_out_whole(seed: int) -> None:
    """Every chunk is valid and small enough; the scalars come out in order; two runs agree."""
    chosen = random.Random(seed)

    def value(depth: int) -> Any:
        kind = chosen.randrange(6 if depth < 5 else 4)
        if kind == 4:
            return [value(depth + 1) for _ in range(chosen.randrange(6))]
        if kind == 5:
            return {f"k{chosen.randrange(99)}": value(depth + 1) for _ in range(chosen.randrange(6))}
        return [chosen.randrange(10**6), "s" * chosen.randrange(8), None, True][kind]

    text = json.dumps([value(0) for _ in range(8)])
    size = chosen.randrange(30, 200)

    chunks = await chunks_of(text, chunk_size=size)

    assert all(len(chunk.text) <= size for chunk in chunks)
    assert scalars([json.loads(chunk.text) for chunk in chunks]) == scalars(json.loads(text))
    assert chunks == await chunks_of(text, chunk_size=size)


def scalars(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [scalar for child in value.values() for scalar in scalars(child)]
    if isinstance(value, list):
        return [scalar for child in value for scalar in scalars(child)]
    return [value]


async def test_sizes_in_tokens_hold() -> None:
    """Any length function bounds the written chunk, keys and quotes included."""
    length = token_length(byte_level_tokenizer())

    chunks = await chunks_of(json.dumps({"日本": ["東京" * 30, "x", "y" * 90]}), chunk_size=64, length=length)

    assert all(length(chunk.text) <= 64 for chunk in chunks)
    assert all(json.loads(chunk.text) for chunk in chunks)


async def test_large_arrays_take_linear_time() -> None:
    """100,000 members are written a few times each, not once per chunk."""
    calls: list[int] = []

    def counted(text: str) -> int:
        calls.append(len(text))
        return len(text)

    text = json.dumps([[number] * 3 for number in range(30_000)])

    await chunks_of(text, chunk_size=1000, length=counted)

    assert sum(calls) < 20 * len(text)
