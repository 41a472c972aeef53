"""Chunkers: Sections in, Chunks out, never across Sections."""

from ._text import SizedChunker, SizeParameters, TextChunker
from .approx_token import ApproxTokenChunker
from .auto import AutoChunker, chunker_for
from .base import ChunkerBase, chunker_from
from .code import CodeChunker
from .fixed_size import FixedSizeChunker
from .function import FunctionChunker, from_function
from .json import JSONChunker
from .lengths import LengthFunction, approx_tokens, register_length, token_length
from .markdown import MarkdownChunker
from .recursive import RecursiveChunker

__all__ = [
    "ApproxTokenChunker",
    "AutoChunker",
    "ChunkerBase",
    "CodeChunker",
    "FixedSizeChunker",
    "FunctionChunker",
    "JSONChunker",
    "LengthFunction",
    "MarkdownChunker",
    "RecursiveChunker",
    "SizeParameters",
    "SizedChunker",
    "TextChunker",
    "approx_tokens",
    "chunker_for",
    "chunker_from",
    "from_function",
    "register_length",
    "token_length",
]
