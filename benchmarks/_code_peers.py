"""Other libraries that cut code, as functions from (text, language) to the texts of their chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Cut = Callable[[str, str], Sequence[str]]
PEERS = ("chonkie", "llama-index-core", "langchain-text-splitters", "astchunk", "tree-sitter-language-pack")
_LANGCHAIN = {"javascript": "js", "typescript": "ts"}


def peers(size: int) -> dict[str, Cut]:
    """By name, those that are installed; each with `size` characters a chunk and as little overlap as it
    allows, its defaults else."""
    found: dict[str, Cut] = {}
    for name, make in _MAKERS.items():
        try:
            found[name] = make(size)
        except ImportError as error:
            print(f"{name} is left out: {error}")
    return found


def spans_of(text: str, chunks: Sequence[str]) -> list[tuple[int, int]]:
    """Where each chunk stands; one that is not in the text as it is (stripped, written anew) is left out."""
    spans: list[tuple[int, int]] = []
    behind = 0
    for chunk in chunks:
        start = text.find(chunk, behind)
        if start >= 0:
            spans.append((start, start + len(chunk)))
            behind = start + 1
    return spans


def _chonkie(size: int) -> Cut:
    from chonkie import CodeChunker  # pyright: ignore

    @cache
    def chunker(language: str) -> Any:
        return CodeChunker(chunk_size=size, language=language)

    return lambda text, language: [chunk.text for chunk in chunker(language).chunk(text)]


def _llama_index(size: int) -> Cut:
    from llama_index.core.node_parser import CodeSplitter  # pyright: ignore
    from tree_sitter_language_pack import get_parser  # pyright: ignore

    @cache
    def splitter(language: str) -> Any:
        return CodeSplitter(language, max_chars=size, chunk_lines_overlap=1, parser=get_parser(language))

    return lambda text, language: splitter(language).split_text(text)


def _langchain(size: int) -> Cut:
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter  # pyright: ignore

    @cache
    def splitter(language: str) -> Any:
        known = Language(_LANGCHAIN.get(language, language))
        return RecursiveCharacterTextSplitter.from_language(known, chunk_size=size, chunk_overlap=0)

    return lambda text, language: splitter(language).split_text(text)


def _astchunk(size: int) -> Cut:
    from astchunk import ASTChunkBuilder  # pyright: ignore

    @cache
    def builder(language: str) -> Any:
        return ASTChunkBuilder(max_chunk_size=size, language=language, metadata_template="none")

    return lambda text, language: [chunk["content"] for chunk in builder(language).chunkify(text)]


_MAKERS: dict[str, Callable[[int], Cut]] = {
    "chonkie": _chonkie, "llama-index": _llama_index, "langchain": _langchain, "astchunk": _astchunk,
}  # fmt: skip
