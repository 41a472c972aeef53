"""Lexical search, fusion of rankings, reranking and query rewriting. Importing this package loads none of it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .rerank import Reranked, RerankerBase, TopKReranker
    from .rerank_cross_encoder import CrossEncoderReranker
    from .rerank_http import HTTPReranker
    from .rerank_llm import LLMReranker
    from .rewrite import LLMQueryRewriter, QueryRewriter, RecentMessages, passthrough
    from .standalone import stands_alone

_LAZY = {
    "CrossEncoderReranker": "rerank_cross_encoder",
    "HTTPReranker": "rerank_http",
    "LLMQueryRewriter": "rewrite",
    "LLMReranker": "rerank_llm",
    "QueryRewriter": "rewrite",
    "RecentMessages": "rewrite",
    "Reranked": "rerank",
    "RerankerBase": "rerank",
    "TopKReranker": "rerank",
    "passthrough": "rewrite",
    "stands_alone": "standalone",
}

__all__ = [
    "CrossEncoderReranker",
    "HTTPReranker",
    "LLMQueryRewriter",
    "LLMReranker",
    "QueryRewriter",
    "RecentMessages",
    "Reranked",
    "RerankerBase",
    "TopKReranker",
    "passthrough",
    "stands_alone",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
