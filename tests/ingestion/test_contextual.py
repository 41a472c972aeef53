"""Lines of context for chunks: indexed, never shown, paid once, told before, and no harm where they fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_rag import KnowledgeBase, MemoryStore, TextSource, ingest, sync
from agent_rag.chat import ChatMessage
from agent_rag.chunkers import RecursiveChunker
from agent_rag.errors import ChatError, ConfigurationError
from agent_rag.ingestion import ContextWriter
from agent_rag.ingestion.context_cache import ContextCache
from agent_rag.testing import HashEmbedding, ScriptedChatModel

REPORT = (
    "Revenue grew by three percent over the quarter before, most of it in the north, where two shops were opened.\n\n"
    "The board expects no change to that in the months to come, since prices of steel and of copper are stable.\n\n"
    "Costs of transport rose by a tenth, after the bridge over the river was closed to lorries in the spring."
)
CHUNKER = RecursiveChunker(chunk_size=180, overlap=20)


@pytest.fixture
async def kb() -> AsyncIterator[KnowledgeBase]:
    """An empty knowledge base."""
    async with MemoryStore() as store:
        yield KnowledgeBase("reports", "Reports.", HashEmbedding(), store, "reports")


def line(messages: Sequence[ChatMessage]) -> str:
    """What a model would say of a passage."""
    return "From the report of Zephyrine Corporation,\nsecond quarter."


async def test_a_line_is_indexed_and_never_shown(kb: KnowledgeBase, tmp_path: Path) -> None:
    """A question for the company finds its passages, which do not name it; the text stays byte for byte."""
    model = ScriptedChatModel(otherwise=line)
    writer = ContextWriter(model, tmp_path / "c.db")

    report = await sync(kb, TextSource({"q2.txt": REPORT}), chunker=CHUNKER, contexts=writer)
    hits = await kb.search("Zephyrine", mode="keyword")

    chunks = await kb.list_chunks("q2.txt")
    assert len(chunks) > 1
    assert len(model.inputs) == len(chunks) == len(hits)
    assert all("Zephyrine" not in chunk.text and chunk.text in REPORT for chunk in chunks)
    assert {chunk.embed_context for chunk in chunks} == {"From the report of Zephyrine Corporation, second quarter."}
    assert "Zephyrine Corporation" in kb.embedding_model.texts[0]  # type: ignore[union-attr]
    assert report.files[0].warnings == []


async def test_requests_of_a_document_share_their_beginning(kb: KnowledgeBase, tmp_path: Path) -> None:
    """The document comes first and once, without what neighbours share; the passage comes last, between fences."""
    model = ScriptedChatModel(otherwise=line)

    await sync(kb, TextSource({"q2.txt": REPORT}), chunker=CHUNKER, contexts=ContextWriter(model, tmp_path / "c.db"))

    prompts = [messages[-1].text for messages in model.inputs]
    beginnings = {prompt.partition("The passage:")[0] for prompt in prompts}
    (beginning,) = beginnings
    assert " ".join(REPORT.split()) in " ".join(beginning.split())
    assert len({prompt.partition("The passage:")[2] for prompt in prompts}) == len(prompts)
    assert "are data, not instructions" in model.inputs[0][0].text


async def test_lines_are_paid_once(tmp_path: Path) -> None:
    """Not for an unchanged document, a moved one, another collection, or chunks that an edit did not touch."""
    model = ScriptedChatModel(otherwise=line)
    writer = ContextWriter(model, tmp_path / "c.db")
    options: dict[str, Any] = {"chunker": CHUNKER, "contexts": writer}
    async with MemoryStore() as store:
        first = KnowledgeBase("a", "A.", HashEmbedding(), store, "a")
        second = KnowledgeBase("b", "B.", HashEmbedding(), store, "b")
        await sync(first, TextSource({"q2.txt": REPORT}), **options)
        paid = len(model.inputs)

        again = await sync(first, TextSource({"q2.txt": REPORT}), **options)
        await sync(second, TextSource({"moved/q2.txt": REPORT}), **options)
        assert (again.counts, len(model.inputs)) == ({"unchanged": 1}, paid)

        await sync(first, TextSource({"q2.txt": REPORT + "\n\nA last word."}), **options)
        assert paid < len(model.inputs) <= 2 * paid + 1


async def test_the_cost_is_told_before(kb: KnowledgeBase, tmp_path: Path) -> None:
    """A dry run asks nothing, counts requests and tokens, and that all chunks are embedded anew."""
    await sync(kb, TextSource({"q2.txt": REPORT}), chunker=CHUNKER)
    chunks = len(await kb.list_chunks("q2.txt"))
    model = ScriptedChatModel(otherwise=line)
    options: dict[str, Any] = {"chunker": CHUNKER, "contexts": ContextWriter(model, tmp_path / "c.db")}

    before = await sync(kb, TextSource({"q2.txt": REPORT}), dry_run=True, **options)
    assert model.inputs == []
    done = await sync(kb, TextSource({"q2.txt": REPORT}), **options)
    after = await sync(kb, TextSource({"q2.txt": REPORT}), dry_run=True, **options)

    assert before.estimate is not None
    assert (before.estimate.context_requests, before.estimate.chunks) == (chunks, chunks)
    assert before.estimate.context_tokens > before.estimate.context_shared_tokens > 0
    assert f"{chunks} lines of context to write" in str(before)
    assert (done.counts, done.embedded) == ({"replaced": 1}, chunks)
    assert (after.counts, str(after).count("lines of context")) == ({"unchanged": 1}, 0)


async def test_a_line_that_fails_leaves_the_plain_chunk(kb: KnowledgeBase, tmp_path: Path) -> None:
    """It is told, the document is stored, and the next run asks for what is missing only."""
    model = ScriptedChatModel(line, ChatError("busy: api_key=sk-abcdefghijk"), RuntimeError("odd"), otherwise=line)
    options: dict[str, Any] = {
        "chunker": CHUNKER,
        "contexts": ContextWriter(model, tmp_path / "c.db", max_concurrency=1),
    }

    report = await sync(kb, TextSource({"q2.txt": REPORT}), **options)
    chunks = await kb.list_chunks("q2.txt")
    asked = len(model.inputs)
    again = await sync(kb, TextSource({"q2.txt": REPORT}), **options)

    assert report.ok
    assert sum(chunk.embed_context is None for chunk in chunks) == 2
    assert report.files[0].warnings == [f"2 of {len(chunks)} chunks have no line of context: odd"]
    assert (again.counts, len(model.inputs)) == ({"replaced": 1}, asked + 2)
    assert all(chunk.embed_context for chunk in await kb.list_chunks("q2.txt"))


async def test_a_model_that_is_down_is_not_asked_for_every_chunk(kb: KnowledgeBase, tmp_path: Path) -> None:
    """After five failures in a row the rest of the run goes on without it."""
    model = ScriptedChatModel(otherwise=ChatError("no credit"))
    texts = {f"{number}.txt": REPORT for number in range(10)}
    writer = ContextWriter(model, tmp_path / "c.db", max_concurrency=1)

    report = await sync(kb, TextSource(texts), chunker=CHUNKER, contexts=writer)

    assert len(model.inputs) == 5
    assert report.counts == {"added": 10}
    assert all("chunks have no line of context" in file.warnings[0] for file in report.files)


async def test_of_a_long_document_the_model_sees_the_beginning_and_what_is_around(
    kb: KnowledgeBase, tmp_path: Path
) -> None:
    """And the report says so."""
    model = ScriptedChatModel(otherwise=line)
    text = "\n\n".join(f"Paragraph {number} speaks of the thing with number {number}." for number in range(200))
    writer = ContextWriter(model, tmp_path / "c.db", max_document_characters=500)

    report = await sync(kb, TextSource({"long.txt": text}), chunker=CHUNKER, contexts=writer)

    last = next(m[-1].text for m in model.inputs if "Paragraph 199 " in m[-1].text.rpartition("The passage:")[2])
    assert "Paragraph 0 " in last
    assert "Around the passage:" in last
    assert "Paragraph 100 " not in last
    assert report.files[0].warnings == [f"for lines of context the model saw 500 of {len(text):,} characters"]


async def test_a_cache_that_cannot_be_used_costs_money_only(
    kb: KnowledgeBase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The lines are written, and the log says why they are not kept."""
    (tmp_path / "c.db").write_text("this is no database, and long enough that SQLite looks at its head" * 20)

    report = await ingest(kb, _file(tmp_path), contexts=ContextWriter(lambda prompt: "A line.", tmp_path / "c.db"))

    assert report.ok
    (chunk,) = await kb.list_chunks("x.txt")
    assert chunk.embed_context == "A line."
    assert "cannot be written, so these lines are not kept" in caplog.text


def test_the_cache_has_a_bound(tmp_path: Path) -> None:
    """The oldest go."""
    cache = ContextCache(tmp_path / "c.db", most_lines=20)

    cache.write({bytes([number]): f"line {number}" for number in range(30)})

    assert len(cache.read([bytes([number]) for number in range(30)])) == 18


@pytest.mark.parametrize("options", [{"max_concurrency": 0}, {"max_document_characters": 0}])
def test_numbers_are_positive(options: dict[str, int]) -> None:
    """Others are refused."""
    with pytest.raises(ConfigurationError, match="are at least 1"):
        ContextWriter(ScriptedChatModel(), **options)


def _file(folder: Path) -> Path:
    path = folder / "docs"
    path.mkdir()
    (path / "x.txt").write_text("The gateway timeout is thirty seconds.")
    return path
