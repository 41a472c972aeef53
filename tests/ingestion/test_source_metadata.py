"""Metadata that a source gives its documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_rag import DirectorySource, FileSource, KnowledgeBase, MemoryStore, TextSource, sync
from agent_rag.errors import ConfigurationError
from agent_rag.sources import SourceBase
from agent_rag.testing import HashEmbedding


def year_of(document_id: str) -> dict[str, Any]:
    return {"year": int(document_id.split("-")[0])}


@pytest.mark.parametrize("kind", ["directory", "files", "texts"])
async def test_metadata_may_differ_by_document(kind: str, tmp_path: Path) -> None:
    """A function from the document's id gives each its own."""
    paths = [tmp_path / "2023-a.txt", tmp_path / "2024-b.txt"]
    for path in paths:
        path.write_text("text")
    sources: dict[str, SourceBase] = {
        "directory": DirectorySource(tmp_path, metadata=year_of),
        "files": FileSource(paths, metadata=year_of),
        "texts": TextSource({path.name: "text" for path in paths}, metadata=year_of),
    }

    listing = await sources[kind].list()

    assert {item.document_id: item.metadata for item in listing.items} == {
        "2023-a.txt": {"year": 2023},
        "2024-b.txt": {"year": 2024},
    }


async def test_metadata_may_be_the_same_for_all(tmp_path: Path) -> None:
    """A mapping is copied for each document."""
    given = {"year": 2024}

    items = (await TextSource({"a": "x", "b": "y"}, metadata=given).list()).items

    assert [item.metadata for item in items] == [given, given]
    assert items[0].metadata is not given


async def test_a_path_is_no_source() -> None:
    """`sync` deletes what is gone, so a path must say whether it is a directory to mirror."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb")

        for given in ("docs", ["docs"]):
            with pytest.raises(ConfigurationError, match=r"got 'docs'; pass DirectorySource"):
                await sync(kb, given)  # type: ignore[arg-type]
