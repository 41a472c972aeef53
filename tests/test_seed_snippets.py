"""The seed's snippets run here with only the import lines changed, one after the other as its page shows them."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

from agent_rag import VectorStoreBase
from agent_rag.testing import HashEmbedding
from tests.shared import ROOT, SHARED, needs_shared

pytestmark = needs_shared

_BLOCK = re.compile(r"^( *)```python([^\n]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_MODULES = {
    "agentscope.rag": "agent_rag",
    "agentscope.message": "agent_rag",
    "agentscope.middleware": "agent_rag",
    "agentscope.credential": "stubs",
    "agentscope.embedding": "stubs",
    "agentscope.model": "stubs",
    "agentscope.tool": "stubs",
}


class DashScopeCredential:
    def __init__(self, api_key: str) -> None: ...


class DashScopeEmbeddingModel(HashEmbedding):
    """Stands in for the vendor's model."""

    def __init__(self, credential: DashScopeCredential, model: str, dimensions: int) -> None:
        super().__init__(dimensions=dimensions)


class DashScopeChatModel:
    """Stands in for the vendor's model."""

    def __init__(self, credential: DashScopeCredential, model: str) -> None:
        self.model = model

    async def generate_structured_output(self, messages: Any, structured_model: Any) -> Any:
        return types.SimpleNamespace(content={"ids": []})


class Toolkit:
    """Stands in for the framework's class."""

    def __init__(self, tools: list[Any] | None = None) -> None:
        self.tools = tools or []


def snippets() -> list[str]:
    text = (SHARED / "seeds/agentscope-rag.txt").read_text("utf-8")
    blocks = ["\n".join(line[len(indent) :] for line in code.split("\n")) for indent, _, code in _BLOCK.findall(text)]
    for old, new in _MODULES.items():
        blocks = [re.sub(rf"\bfrom {re.escape(old)} import", f"from {new} import", block) for block in blocks]
    return blocks


async def run(code: str, names: dict[str, Any]) -> None:
    """Execute a snippet with top-level await."""
    compiled = compile(code, "<snippet>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = types.FunctionType(compiled, names)()
    if inspect.isawaitable(result):
        await result


def containing(*words: str) -> str:
    (found,) = [block for block in snippets() if all(word in block for word in words)]
    return found


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Global names of the snippets, with the stubs importable."""
    import sys

    stubs = types.ModuleType("stubs")
    for stub in (DashScopeCredential, DashScopeEmbeddingModel, DashScopeChatModel, Toolkit):
        setattr(stubs, stub.__name__, stub)
    monkeypatch.setitem(sys.modules, "stubs", stubs)
    return {"__builtins__": __builtins__, "__name__": "snippet"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the snippets name."""
    handbook = ROOT / "examples/handbook"
    for name, original in {
        "report.pdf": "products/warranty-terms.pdf",
        "deck.pptx": "products/sales-kickoff-2025.pptx",
        "doc.docx": "policies/people-guide.docx",
        "table.xlsx": "finance/budget-2025.xlsx",
        "cat.png": "offices/linkoping-evacuation-map.png",
    }.items():
        (tmp_path / name).write_bytes((handbook / original).read_bytes())
    (tmp_path / "cats.md").write_text("# Cats\nCats sleep 12-16 hours per day.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_parsing_snippets(names: dict[str, Any], files: Path) -> None:
    """Each parser takes bytes and paths, and gives the sections and metadata that the page promises."""
    await run(containing("import TextParser", "cats.md"), names)
    assert [section.content.text for section in names["sections"]] == ["# Cats\nCats sleep 12-16 hours per day.\n"]

    await run(containing("import PDFParser"), names)
    assert [section.metadata["page"] for section in names["sections"]] == [1, 2]

    await run(containing("import PPTParser"), names)
    slides = [section for section in names["sections"] if section.content.type == "text"]
    assert [section.metadata["slide"] for section in slides][:2] == [1, 2]
    assert slides[0].content.text.startswith("<slide index=1>")

    await run(containing("import WordParser"), names)
    assert {section.content.type for section in names["sections"]} == {"text", "data"}

    await run(containing("import ExcelParser"), names)
    assert len(names["sections"]) == 1
    assert names["sections"][0].metadata == {}

    await run(containing("import ImageParser", "cat.png"), names)
    (image,) = names["sections"]
    assert image.content.source.media_type == image.metadata["media_type"] == "image/png"


async def test_sheets_are_named_when_separate(files: Path) -> None:
    """With separate_sheet=True each section's metadata contains its sheet."""
    from agent_rag import ExcelParser

    sections = await ExcelParser(separate_sheet=True).parse(file="./table.xlsx", filename="table.xlsx")

    assert [section.metadata["sheet"] for section in sections] == ["Budget", "Capex", "Headcount"]


async def test_the_whole_flow(names: dict[str, Any], files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parse, chunk, insert, search, list, delete, and a second tenant, in the page's order."""
    await run(containing("import TextParser", "cats.md"), names)
    await run(containing("chunks = await chunker.chunk(sections)"), names)
    await run(containing("import KnowledgeBase, QdrantStore"), names)
    await run(containing("When do cats sleep?"), names)
    assert names["results"][0].document_id == names["document_id"]
    assert "Cats sleep" in names["results"][0].chunk.content.text
    store = names["store"]

    async with store:
        await run(containing("list_documents()", "delete_document(document_id)"), names)
    (summary,) = names["summaries"]
    assert (summary.source, summary.chunk_count, summary.metadata["filename"]) == ("cats.md", 1, "cats.md")

    await run(containing("tenant-a-kb"), names)
    async with store:
        document_id = await names["knowledge"].insert_document(names["chunks"])
        (found,) = await names["knowledge"].search(["cats"])
    assert found.document_id == document_id
    assert found.chunk.metadata["tenant_id"] == "tenant-a"
    capsys.readouterr()


async def test_middleware_parameters(names: dict[str, Any], files: Path) -> None:
    """The middleware is built in all three modes, and with a rerank model, as on the page."""
    names["knowledge"] = types.SimpleNamespace(name="kb", description="toy", search=lambda *a, **k: None)
    for words in (("static_mw = RAGMiddleware(", "static-agent"), ("agentic-agent",), ("hybrid-agent",)):
        code = containing(*words)
        await run(code[: code.index("agent = Agent(")], names)
    assert [tool.name for tool in await names["agentic_mw"].list_tools()] == ["search_knowledge"]

    await run(containing("rerank_candidate_k=10"), names)


async def test_custom_parser_and_chunker(names: dict[str, Any]) -> None:
    """The page's own parser and chunker work in the pipeline and in the registry."""
    from agent_rag import chunker_from, parser_for, register_parser
    from agent_rag.parsers import registry

    await run(containing("class MyMarkdownParser"), names)
    await run(containing("class FixedCharChunker"), names)
    sections = await names["MyMarkdownParser"]().parse(b"# A\n## B\nbody", "a.md")
    chunks = await names["FixedCharChunker"]({"chunk_size": 4}).chunk(sections)

    assert [section.metadata for section in sections] == [{"index": 0}, {"index": 1}]
    assert "".join(chunk.content.text for chunk in chunks) == "# A" + "B\nbody"
    assert {chunk.total_chunks for chunk in chunks} == {len(chunks)}
    rebuilt = chunker_from("fixed_char", '{"chunk_size": 4}')
    assert await rebuilt.chunk(sections) == chunks

    known = list(registry._custom)
    try:
        register_parser(names["MyMarkdownParser"])
        assert type(parser_for("x.md")).__name__ == "MyMarkdownParser"
    finally:
        registry._custom[:] = known


async def test_custom_store_signature(names: dict[str, Any]) -> None:
    """The page's store class is concrete: its methods are all that a store must have."""
    await run(containing("class MyVectorStore"), names)

    assert isinstance(names["MyVectorStore"](), VectorStoreBase)


def test_capability_attributes() -> None:
    """The page's interpreter sessions print what it shows."""
    blocks = [block.replace("agentscope.rag", "agent_rag") for block in snippets() if block.startswith(">>> from")]
    assert len(blocks) == 1
    flags = doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(blocks[0], {}, "seed", None, 0)
    result = doctest.DocTestRunner(optionflags=flags).run(test)

    assert result.failed == 0


def test_optional_stores_are_constructed_as_on_the_page(names: dict[str, Any], files: Path) -> None:
    """Milvus, MongoDB and Elasticsearch constructors take the page's arguments; nothing connects yet."""
    for name, extra in (
        ("MilvusLiteStore", "pymilvus"),
        ("MongoDBStore", "pymongo"),
        ("ElasticsearchStore", "elasticsearch"),
    ):
        pytest.importorskip(extra, reason=f"install the extra of {name}")
        exec(containing(f"import {name}"), names)
        assert type(names["store"]).__name__ == name
