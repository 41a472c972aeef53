"""OpenTelemetry spans: one for each step, with counts and without content."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agent_rag import KnowledgeBase, MemoryStore, ingest
from agent_rag._util import tracing
from agent_rag.errors import EmbeddingError
from agent_rag.sources import SourceDocument
from agent_rag.testing import HashEmbedding
from tests.shared import ROOT

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="pip install opentelemetry-sdk")


async def test_ingestion_and_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading, embedding, writing and searching are spans; no text, name or query is in them."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)  # adapters of frameworks that would phone home set it
    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("agent_rag"))
    async with MemoryStore() as store:
        kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb")
        await ingest(kb, SourceDocument(document_id="secret.txt", content="secret words"))
        await kb.search("secret")
        with pytest.raises(EmbeddingError), tracing.span("embed", inputs=1):
            raise EmbeddingError("secret words")

    spans = exporter.get_finished_spans()
    told = [(span.name, dict(span.attributes or {})) for span in spans]
    assert told == [
        ("agent_rag.read", {"agent_rag.bytes": 12, "agent_rag.parser": "TextParser", "agent_rag.chunks": 1}),
        ("agent_rag.embed", {"agent_rag.inputs": 1}),
        ("agent_rag.replace", {"agent_rag.documents": 1, "agent_rag.chunks": 1}),
        ("agent_rag.embed", {"agent_rag.inputs": 1}),
        ("agent_rag.search", {"agent_rag.mode": "hybrid", "agent_rag.top_k": 5, "agent_rag.results": 1}),
        ("agent_rag.embed", {"agent_rag.inputs": 1, "error.type": "EmbeddingError"}),
    ]
    assert "secret" not in "".join(span.to_json() for span in spans)


def test_without_the_api() -> None:
    """Nothing is needed, and nothing is imported before the first span."""
    code = (
        "import sys; import agent_rag.knowledge.knowledge_base; assert 'opentelemetry' not in sys.modules;"
        "sys.modules['opentelemetry'] = None\n"
        "from agent_rag._util.tracing import span\n"
        "with span('embed', inputs=1) as told: told.set_attribute('x', 1)"
    )

    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
