"""One library bringing one folder into one store, in a process of its own; prints what it has, as JSON.

Each goes the way that its documentation shows first. All embed with the same model, so that no model is compared.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any


class Embeddings:
    """The offline model of agent_rag for the others: LangChain's and Chroma's interface."""

    def __init__(self) -> None:
        from agent_rag import LocalEmbeddingModel

        self._model = LocalEmbeddingModel()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        kept = [text if text.strip() else "blank" for text in texts]
        return asyncio.run(self._model(kept)).embeddings

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def agent_rag(folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """`sync` of a DirectorySource into the default store."""
    from agent_rag import DirectorySource, KnowledgeBase, LocalEmbeddingModel, SQLiteStore, sync

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
    """TextLoader and PyPDFLoader, RecursiveCharacterTextSplitter, Chroma; what no loader takes is dropped."""
    from langchain_chroma import Chroma
    from langchain_community.document_loaders import PyPDFLoader, TextLoader
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    embeddings, documents, reported = Embeddings(), set(), set()
    chroma = Chroma("bench", embeddings, persist_directory=str(store))  # type: ignore[arg-type]
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
    for path in files_of(folder):
        name = path.relative_to(folder).as_posix()
        try:
            loader: Any = PyPDFLoader(str(path)) if path.suffix == ".pdf" else TextLoader(str(path))
            parts = splitter.split_documents(loader.load())
        except Exception:
            reported.add(name)
            continue
        if parts:
            ids = [hashlib.sha256(f"{name}:{number}".encode()).hexdigest() for number in range(len(parts))]
            chroma.add_documents(parts, ids=ids)
            documents.add(name)
    return {
        **_chroma_found(chroma._collection, embeddings, words),
        "documents": sorted(documents),
        "reported": sorted(reported),
    }


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
    library = {"agent_rag": agent_rag, "kreuzberg": kreuzberg, "langchain": langchain}[name]
    print(json.dumps(asyncio.run(library(folder, store, words))))
