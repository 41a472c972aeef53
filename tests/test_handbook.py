"""Twenty questions over the handbook, and facts made up while the test runs, through the whole chain."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_rag import (
    ExtractiveChatModel,
    KnowledgeBase,
    LocalEmbeddingModel,
    QdrantStore,
    RAGMiddleware,
    TextSource,
    ingest,
    sync,
)
from agent_rag.middleware.loop import run_agent
from tests.shared import ROOT

in_one_loop = pytest.mark.asyncio(loop_scope="module")
QUESTIONS = [
    json.loads(line) for line in (ROOT / "tests/data/handbook_questions.jsonl").read_text("utf-8").splitlines() if line
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kb(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KnowledgeBase]:
    """The handbook in an embedded store on disk, ingested once."""
    async with QdrantStore(path=tmp_path_factory.mktemp("store")) as store:
        kb = KnowledgeBase("handbook", "The company handbook.", LocalEmbeddingModel(), store, "handbook")
        report = await ingest(kb, ROOT / "examples/handbook")
        assert report.ok, report.of("failed")
        yield kb


async def ask(kb: KnowledgeBase, question: str) -> Any:
    rag = RAGMiddleware([kb], RAGMiddleware.Parameters(mode="agentic", top_k=5))
    return await run_agent(ExtractiveChatModel(), question, middleware=rag)


@in_one_loop
@pytest.mark.parametrize("row", [row for row in QUESTIONS if row["answerable"]], ids=lambda row: row["id"])
async def test_answerable(kb: KnowledgeBase, row: dict[str, Any]) -> None:
    """The answer quotes the fact and cites the file and place that hold it."""
    run = await ask(kb, row["question"])

    cited = [citation for citation in run.citations if f"[{citation.number}]" in run.text]
    spoken = re.sub(r"\s+", " ", run.text)
    assert all(fact in spoken for fact in row["answer_contains"]), run.text
    right = [citation for citation in cited if citation.source == row["file"]]
    assert right, [citation.label for citation in cited]
    assert any(row["location"].items() <= citation.location.items() for citation in right)


@in_one_loop
@pytest.mark.parametrize("row", [row for row in QUESTIONS if not row["answerable"]], ids=lambda row: row["id"])
async def test_unanswerable(kb: KnowledgeBase, row: dict[str, Any]) -> None:
    """What the handbook does not say is not found, and nothing is cited."""
    run = await ask(kb, row["question"])

    assert "not found" in run.text.lower(), run.text
    assert not re.search(r"\[\d+\]", run.text)


async def test_facts_made_up_now(tmp_path: Path) -> None:
    """Facts that no one could have prepared for are found by name, and a name that is not there is not."""
    names = random.Random().sample([f"{a}{b}" for a in ("Bra", "Kel", "Tor", "Vin") for b in ("dax", "mir", "sul")], 8)
    facts = {name: random.randrange(1_000, 9_999) for name in names[:7]}
    texts = {
        f"{name}.md": f"# {name}\n\nThe {name} compressor is made in hall four.\n\nThe oil charge of the {name} "
        f"compressor is {grams} grams.\n\nIt is painted grey."
        for name, grams in facts.items()
    }
    async with QdrantStore(location=":memory:") as store:
        kb = KnowledgeBase("facts", "Compressors.", LocalEmbeddingModel(), store, "facts")
        await sync(kb, TextSource(texts))

        for name, grams in facts.items():
            run = await ask(kb, f"What is the oil charge of the {name} compressor?")
            assert f"{grams} grams" in run.text
            assert any(
                citation.document_id == f"{name}.md" for citation in run.citations if f"[{citation.number}]" in run.text
            )
        missing = await ask(kb, f"What is the licence fee of the {names[7]} software?")
        assert "not found" in missing.text.lower()


@in_one_loop
async def test_a_second_ingest_embeds_nothing(kb: KnowledgeBase) -> None:
    """Everything is unchanged, except the picture, which has no text."""
    report = await ingest(kb, ROOT / "examples/handbook")

    assert report.embedded == 0
    assert set(report.counts) == {"unchanged", "skipped"}


def test_the_corpus_is_what_the_readme_says() -> None:
    """At least 12 varied files, 2 MB or more together."""
    files = [path for path in (ROOT / "examples/handbook").rglob("*") if path.is_file()]

    assert len(files) >= 12
    assert sum(path.stat().st_size for path in files) >= 2_000_000
    assert len({path.suffix for path in files}) >= 9
