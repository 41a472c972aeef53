"""The arguments of a middleware beside its knowledge bases and parameters."""

from __future__ import annotations

from typing import TypedDict

from ...events import EventCallback
from ...retrieval.rerank import RerankerBase
from ...retrieval.rewrite import QueryRewriter
from .pipeline import Gate, Scope


class Options(TypedDict, total=False):
    """Keyword arguments of `RAGMiddleware`, which every framework's takes too."""

    reranker: RerankerBase | None
    query_rewriter: QueryRewriter | None
    scope: Scope | None
    gate: Gate | None
    on_event: EventCallback | None
