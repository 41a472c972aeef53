"""One library bringing one folder into one store, in a process of its own; prints what it has, as JSON.

Each goes the way that its documentation shows first. All embed with the same model, so that no model is compared.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agent_rag import LocalEmbeddingModel, run_sync


class Embeddings:
    """The offline model of agent_rag for the others: LangChain's and Chroma's interface."""

    def __init__(self) -> None:
        self._model = LocalEmbeddingModel()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        kept = [text if text.strip() else "blank" for text in texts]
        return run_sync(self._model(kept)).embeddings

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def agent_rag(folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """`sync` of a DirectorySource into the default store."""
    from agent_rag import DirectorySource, KnowledgeBase, SQLiteStore, sync

    async with SQLiteStore(store / "store.db") as opened:
        kb = KnowledgeBase("bench", "files", LocalEmbeddingModel(), opened, "bench")
        report = await sync(kb, DirectorySource(folder, include_generated=True))
        found = [word for word in words if word in " ".join(hit.chunk.text for hit in await kb.search(word, top_k=5))]
        documents = {summary.source for summary in await kb.list_documents()}
    told = {file.document_id for file in (*report.of("skipped"), *report.of("failed"))}
    return {"found": found, "documents": sorted(documents), "reported": sorted(told), "counts": report.counts}


async def kreuzberg(folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """`batch_extract_files` with its chunking, then `upsert` into a persistent Chroma collection."""
    import chromadb
    from kreuzberg import ChunkingConfig, ExtractionConfig, batch_extract_files

    collection = chromadb.PersistentClient(str(store)).get_or_create_collection("bench")
    paths = files_of(folder)
    config = ExtractionConfig(chunking=ChunkingConfig(max_chars=1000, max_overlap=200))
    embeddings, documents, reported = Embeddings(), set(), set()
    for start in range(0, len(paths), 64):
        part = paths[start : start + 64]
        for path, result in zip(part, await batch_extract_files(part, config=config), strict=True):
            name = path.relative_to(folder).as_posix()
            chunks = [getattr(chunk, "content", chunk) for chunk in (result.chunks or [result.content])]
            chunks = [chunk for chunk in chunks if isinstance(chunk, str) and chunk.strip()]
            if not chunks:
                reported.add(name)
                continue
            documents.add(name)
            collection.upsert(
                ids=[f"{name}:{number}" for number in range(len(chunks))],
                documents=chunks,
                embeddings=embeddings.embed_documents(chunks),
            )
    return {
        **_chroma_found(collection, embeddings, words),
        "documents": sorted(documents),
        "reported": sorted(reported),
    }


async def langchain(folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """TextLoader and PyPDFLoader, RecursiveCharacterTextSplitter, Chroma, `index` with a record manager."""
    from langchain_chroma import Chroma
    from langchain_classic.indexes import SQLRecordManager
    from langchain_community.document_loaders import PyPDFLoader, TextLoader
    from langchain_core.indexing import index
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    embeddings, documents, reported = Embeddings(), set(), set()
    chroma = Chroma("bench", embeddings, persist_directory=str(store))  # type: ignore[arg-type]
    records = SQLRecordManager("bench", db_url=f"sqlite:///{store}/records.db")
    records.create_schema()
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
    loaded: list[Any] = []
    for path in files_of(folder):
        name = path.relative_to(folder).as_posix()
        try:
            loader: Any = PyPDFLoader(str(path)) if path.suffix == ".pdf" else TextLoader(str(path))
            parts = splitter.split_documents(loader.load())
        except Exception:
            reported.add(name)
            continue
        loaded += parts
        documents |= {name} if parts else set()
    await asyncio.to_thread(index, loaded, records, chroma, cleanup="full", source_id_key="source")
    return {
        **_chroma_found(chroma._collection, embeddings, words),
        "documents": sorted(documents),
        "reported": sorted(reported),
    }


async def llama_index(folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """SimpleDirectoryReader, IngestionPipeline with SentenceSplitter and a persisted docstore, Chroma."""
    import chromadb
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.vector_stores.chroma import ChromaVectorStore

    embeddings = Embeddings()

    class Model(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return embeddings.embed_query(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return embeddings.embed_query(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return embeddings.embed_query(text)

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embeddings.embed_documents(texts)

    collection = chromadb.PersistentClient(str(store / "chroma")).get_or_create_collection("bench")
    kept = store / "docstore.json"
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), Model(embed_batch_size=64)],
        vector_store=ChromaVectorStore(chroma_collection=collection),
        docstore=SimpleDocumentStore.from_persist_path(str(kept)) if kept.exists() else SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    loaded = SimpleDirectoryReader(str(folder), recursive=True, filename_as_id=True).load_data()
    await asyncio.to_thread(lambda: pipeline.run(documents=[one for one in loaded if one.text.strip()]))
    pipeline.docstore.persist(str(kept))
    documents = {Path(one.metadata["file_path"]).relative_to(folder).as_posix() for one in loaded if one.text.strip()}
    return {**_chroma_found(collection, embeddings, words), "documents": sorted(documents), "reported": []}


async def haystack(folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """MultiFileConverter, DocumentSplitter, an embedder, DocumentWriter that overwrites, Chroma."""
    from haystack import Document, Pipeline, component
    from haystack.components.converters import MultiFileConverter
    from haystack.components.preprocessors import DocumentSplitter
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.types import DuplicatePolicy
    from haystack_integrations.document_stores.chroma import ChromaDocumentStore

    embeddings, found = Embeddings(), set()

    @component
    class Embedder:
        def __init__(self) -> None:
            component.set_input_types(self, documents=list[Document])

        @component.output_types(documents=list[Document])
        def run(self, **given: Any) -> dict[str, Any]:
            kept = [one for one in given["documents"] if (one.content or "").strip()]
            for one, vector in zip(kept, embeddings.embed_documents([str(one.content) for one in kept]), strict=True):
                one.embedding = vector
                found.add(str(one.meta.get("file_path", "")))
            return {"documents": kept}

    target = ChromaDocumentStore("bench", persist_path=str(store))
    pipeline = Pipeline()
    pipeline.add_component("convert", MultiFileConverter())
    pipeline.add_component("split", DocumentSplitter())
    pipeline.add_component("embed", Embedder())
    pipeline.add_component("write", DocumentWriter(target, policy=DuplicatePolicy.OVERWRITE))
    for one, other in (("convert", "split"), ("split", "embed"), ("embed", "write")):
        pipeline.connect(f"{one}.documents", f"{other}.documents")
    done = pipeline.run({"convert": {"sources": files_of(folder)}}, include_outputs_from={"convert"})
    by_name = {path.name: path.relative_to(folder).as_posix() for path in files_of(folder)}
    reported = {by_name[Path(str(one)).name] for one in done["convert"].get("unclassified", [])}
    return {
        **_chroma_found(target._collection, embeddings, words),
        "documents": sorted(by_name[Path(one).name] for one in found if Path(one).name in by_name),
        "reported": sorted(reported),
    }


async def agentscope(folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """Its parser for each ending, ApproxTokenChunker, `insert_document` into Qdrant in memory: nothing stays."""
    from agentscope import rag
    from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse

    model = Embeddings()

    class Model(EmbeddingModelBase[str]):
        def __init__(self) -> None:
            self.dimensions, self.supports_multimodal = 256, False

        async def __call__(self, inputs: list[Any], **_: Any) -> Any:
            texts = [one if isinstance(one, str) else getattr(one, "text", "") for one in inputs]
            vectors = await asyncio.to_thread(model.embed_documents, texts)
            return EmbeddingResponse(embeddings=vectors)

    parsers = {
        ".pdf": rag.PDFParser, ".docx": rag.WordParser, ".xlsx": rag.ExcelParser, ".pptx": rag.PPTParser,
        ".png": rag.ImageParser,
    }  # fmt: skip
    chunker, documents, reported = rag.ApproxTokenChunker(), set(), set()
    async with rag.QdrantStore(location=":memory:") as opened:
        kb = rag.KnowledgeBase("bench", "files", Model(), opened, "bench")
        for path in files_of(folder):
            name = path.relative_to(folder).as_posix()
            try:
                sections = await parsers.get(path.suffix, rag.TextParser)().parse(path.read_bytes(), path.name)
                chunks = [one for one in await chunker.chunk(sections) if getattr(one.content, "text", "").strip()]
                if chunks:
                    await kb.insert_document(chunks)
                    documents.add(name)
            except Exception:
                reported.add(name)
        found = []
        for word in words:
            hits = await kb.search([word], top_k=5)
            found += [word] if word in " ".join(getattr(hit.chunk.content, "text", "") for hit in hits) else []
    return {"found": found, "documents": sorted(documents), "reported": sorted(reported)}


def files_of(folder: Path) -> list[Path]:
    """Every file below, sorted."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _chroma_found(collection: Any, embeddings: Embeddings, words: list[str]) -> dict[str, Any]:
    found = []
    for word in words:
        answer = collection.query(query_embeddings=[embeddings.embed_query(word)], n_results=5)
        found += [word] if word in " ".join(answer["documents"][0]) else []
    return {"found": found}


if __name__ == "__main__":
    name, folder, store, words = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4])
    store.mkdir(parents=True, exist_ok=True)
    library = {
        "agent_rag": agent_rag, "kreuzberg": kreuzberg, "langchain": langchain, "llama_index": llama_index,
        "haystack": haystack, "agentscope": agentscope,
    }[name]  # fmt: skip
    print(json.dumps(asyncio.run(library(folder, store, words))))
