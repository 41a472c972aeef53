"""The parts of examples/custom_parts.py pass the shipped contracts, so a reader may copy them."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from agent_rag.testing import ChunkerContract, EmbeddingContract, ParserContract, StoreContract
from tests.shared import ROOT


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("custom_parts", ROOT / "examples/custom_parts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


parts: Any = _load()


class TestLogParser(ParserContract):
    @pytest.fixture
    def parser(self):
        return parts.LogParser()

    @pytest.fixture
    def sample(self):
        return b"Monday\npump started\n\nTuesday\nvalve replaced", "week.daylog"


class TestLineChunker(ChunkerContract):
    has_spans = False

    @pytest.fixture
    def chunker(self):
        return parts.LineChunker(lines=3)


class TestWordCountModel(EmbeddingContract):
    @pytest.fixture
    def model(self):
        return parts.WordCountModel()


class TestListStore(StoreContract):
    native = False
    max_loop_pause_s = 1.0  # plain Python, without threads

    @pytest.fixture
    def make_store(self):
        return parts.ListStore
