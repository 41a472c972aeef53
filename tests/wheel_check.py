"""Run by `scripts/test wheel` outside the checkout, with the built wheel installed: the main job, typed, offline."""

import asyncio
import importlib.metadata
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import agent_rag
from agent_rag import ExtractiveChatModel, KnowledgeBase, LocalEmbeddingModel, QdrantStore, RAGMiddleware, ingest
from agent_rag.middleware.loop import run_agent

UNWANTED = ("torch", "transformers", "pandas", "pymilvus", "asyncpg", "langchain", "pytest")


async def main_job(folder: Path) -> None:
    docs = folder / "docs"
    docs.mkdir()
    (docs / "gateway.md").write_text("# Gateway\n\nThe gateway timeout is thirty seconds.\n")
    async with QdrantStore(path=folder / "store") as store:
        kb = KnowledgeBase("docs", "Docs.", LocalEmbeddingModel(), store, "docs")
        report = await ingest(kb, docs)
        assert report.counts == {"added": 1}, report
        run = await run_agent(ExtractiveChatModel(), "What is the gateway timeout?", middleware=RAGMiddleware([kb]))
    assert "thirty seconds" in run.text, run.text


def missing(name: str) -> str | None:
    """Why a public name cannot be used; None when it can."""
    try:
        getattr(agent_rag, name)
    except ImportError as error:
        return str(error)
    return None


def main() -> None:
    package = Path(agent_rag.__file__).parent
    assert "site-packages" in package.parts, f"the checkout is imported, not the wheel: {package}"
    assert (package / "py.typed").is_file()
    assert not [name for name in UNWANTED if importlib.util.find_spec(name)]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main_job(Path(folder)))
    command = Path(sys.executable).parent / "agent-rag"
    doctor = subprocess.run([command, "doctor", "--json"], capture_output=True, text=True)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    for name in agent_rag.__all__:
        problem = missing(name)
        assert problem is None or "pip install 'agent-rag-middleware[" in problem, (name, problem)
    print(f"wheel of version {importlib.metadata.version('agent-rag-middleware')} works")


if __name__ == "__main__":
    main()
