"""Contracts and fakes, shipped so that third-party backends run the same suites. The contracts need pytest."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapter_contract import AdapterContract, Outcome
    from .chat import ScriptedChatModel
    from .chunker_contract import ChunkerContract
    from .embedding import HashEmbedding
    from .embedding_contract import EmbeddingContract
    from .knowledge import FactBase
    from .parser_contract import ParserContract
    from .records import record
    from .seven_method_store import SevenMethodStore
    from .store_contract import StoreContract, assert_congruent

_CONTRACTS = {
    "AdapterContract": "adapter_contract",
    "Outcome": "adapter_contract",
    "ChunkerContract": "chunker_contract",
    "EmbeddingContract": "embedding_contract",
    "ParserContract": "parser_contract",
    "StoreContract": "store_contract",
    "assert_congruent": "store_contract",
}
_FAKES = {
    "FactBase": "knowledge",
    "ScriptedChatModel": "chat",
    "HashEmbedding": "embedding",
    "SevenMethodStore": "seven_method_store",
    "record": "records",
}

__all__ = [
    "AdapterContract",
    "ChunkerContract",
    "EmbeddingContract",
    "FactBase",
    "HashEmbedding",
    "Outcome",
    "ParserContract",
    "ScriptedChatModel",
    "SevenMethodStore",
    "StoreContract",
    "assert_congruent",
    "record",
]


def __getattr__(name: str) -> Any:
    module = _CONTRACTS.get(name) or _FAKES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _CONTRACTS and f"{__name__}.{module}" not in sys.modules:
        # Before the first import, so that a failing contract shows the compared values.
        importlib.import_module("pytest").register_assert_rewrite(f"{__name__}.{module}")
    return getattr(importlib.import_module(f".{module}", __name__), name)
