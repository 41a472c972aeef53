"""What the stores hold and are asked: 800-character texts, their 256-dimensional vectors, metadata, questions.

Texts are sentences of the SciFact abstracts, so that terms and their frequencies are those of a real corpus. A document
of 20 chunks has a theme of six abstracts; a chunk takes its sentences from two of them. Vectors are what
`LocalEmbeddingModel` makes of the texts, and questions are SciFact's claims: short, and not distributed like the texts,
which is harder for an approximate index than gaussians around centres.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _common import ROOT, SHARED

from agent_rag import F, LocalEmbeddingModel
from agent_rag.documents import DocumentSummary, VectorRecord
from agent_rag.testing.records import record

DIMENSIONS, PER_DOCUMENT, CHARACTERS, TOP_K = 256, 20, 800, 10
QUESTIONS = 300
FOLDER = ROOT / "benchmarks" / "data"
FILTERS = ("1 %", "1 % range", "10 %", "50 %")
LANGUAGES = ("en", "de")
Metadata = dict[str, Any]


@dataclass
class Corpus:
    """The first `size` chunks; a document's metadata is that of its chunks."""

    texts: Sequence[str]
    vectors: npt.NDArray[np.float32]
    """Unit length."""
    questions: Sequence[str]
    asked: npt.NDArray[np.float32]
    """A unit vector per question."""

    @property
    def size(self) -> int:
        return len(self.texts)

    @cached_property
    def metadata(self) -> list[Metadata]:
        """One per document; every 100 documents in a row have each customer once, so shares are exact."""
        rng = np.random.default_rng(2)
        found: list[Metadata] = []
        for _ in range(-(-self.size // PER_DOCUMENT // 100)):
            customers, regions, languages, days = (rng.permutation(100) for _ in range(4))
            found += [
                {
                    "customer": f"c{customers[n]}",
                    "region": f"r{regions[n] % 10}",
                    "language": LANGUAGES[languages[n] % 2],
                    "day": int(days[n]) * 10 + int(rng.integers(10)),
                    "author": f"Author {rng.integers(10_000)}",
                }
                for n in range(100)
            ]
        return found[: -(-self.size // PER_DOCUMENT)]

    def document_id(self, document: int) -> str:
        return f"doc-{document:06}"

    def records(self, start: int, stop: int, name: str = "") -> list[VectorRecord]:
        """Chunks from `start` up to `stop`; under a document id of its own with `name`."""
        return [
            record(
                name or self.document_id(index // PER_DOCUMENT),
                index % PER_DOCUMENT,
                self.texts[index],
                vector=self.vectors[index].tolist(),
                metadata=self.metadata[index // PER_DOCUMENT] | {"page": index % PER_DOCUMENT},
                total=PER_DOCUMENT,
            )
            for index in range(start, stop)
        ]

    def summary(self, document: int, name: str = "") -> DocumentSummary:
        return DocumentSummary(
            document_id=name or self.document_id(document),
            source="file.txt",
            chunk_count=PER_DOCUMENT,
            metadata=self.metadata[document],
        )

    def condition(self, kind: str, query: int) -> Metadata | Any:
        """The filter of a query; the values take turns."""
        if kind == "1 %":
            return {"customer": f"c{query % 100}"}
        if kind == "10 %":
            return {"region": f"r{query % 10}"}
        if kind == "50 %":
            return {"language": LANGUAGES[query % 2]}
        return F("day").between(10 * (query % 100), 10 * (query % 100) + 9)

    def kept(self, kind: str, query: int) -> npt.NDArray[np.bool_]:
        """Which chunks the filter of a query keeps."""
        field, value = {
            "1 %": ("customer", f"c{query % 100}"),
            "1 % range": ("day", query % 100),
            "10 %": ("region", f"r{query % 10}"),
            "50 %": ("language", LANGUAGES[query % 2]),
        }[kind]
        values = [row[field] // 10 if field == "day" else row[field] for row in self.metadata]
        return np.repeat(np.array([one == value for one in values]), PER_DOCUMENT)[: self.size]


class Truth:
    """The ten most similar chunks of each question and filter, by numpy."""

    def __init__(self, corpus: Corpus, queries: int) -> None:
        scores = corpus.vectors @ corpus.asked[:queries].T
        self._corpus = corpus
        self._least = {
            kind: [
                float(np.partition(scores[self._allowed(kind, query), query], -TOP_K)[-TOP_K])
                for query in range(queries)
            ]
            for kind in ("plain", *FILTERS)
        }
        """Score of the tenth."""

    def recall(self, kind: str, query: int, found: Sequence[int]) -> float:
        """Share of the ten that are in `found`, with equal scores alike. A hit that the filter drops is an error."""
        rows = np.array(sorted(set(found)), dtype=int)
        assert self._allowed(kind, query)[rows].all(), f"a hit does not match the filter {kind!r} of query {query}"
        scores = self._corpus.vectors[rows] @ self._corpus.asked[query]
        return float((scores >= self._least[kind][query] - 1e-5).sum() / TOP_K)

    def _allowed(self, kind: str, query: int) -> npt.NDArray[np.bool_]:
        return np.ones(self._corpus.size, dtype=bool) if kind == "plain" else self._corpus.kept(kind, query)


def index_of(document_id: str, chunk_index: int) -> int:
    return int(document_id.removeprefix("doc-")) * PER_DOCUMENT + chunk_index


def load(size: int) -> Corpus:
    """From the folder that `make` wrote."""
    folder = _folder(size)
    with (folder / "texts.json").open(encoding="utf-8") as file:
        texts = json.load(file)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    return Corpus(texts["texts"][:size], vectors[:size], texts["questions"], np.load(folder / "asked.npy"))


def make(size: int) -> None:
    """Write the corpus of the largest size, unless it is there; smaller ones are its beginning."""
    folder = _folder(size)
    if (folder / "asked.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    print(f"making {size:,} texts and vectors in {folder.relative_to(ROOT)} ...", flush=True)
    with (SHARED / "ir" / "scifact_train" / "queries.jsonl").open(encoding="utf-8") as file:
        questions = [json.loads(line)["text"] for line in file][:QUESTIONS]
    texts = _texts(size)
    (folder / "texts.json").write_text(json.dumps({"texts": texts, "questions": questions}), encoding="utf-8")
    np.save(folder / "vectors.npy", _embedded(texts))
    np.save(folder / "asked.npy", _embedded(questions))


def _folder(size: int) -> Path:
    """The smallest corpus that is at least as large; its name follows from how it is made."""
    recipe = hashlib.sha256((inspect.getsource(_texts) + inspect.getsource(_embedded)).encode()).hexdigest()[:8]
    made = sorted(int(path.name.split("-")[1]) for path in FOLDER.glob(f"stores-*-{recipe}") if path.is_dir())
    whole = [one for one in made if one >= size and (FOLDER / f"stores-{one}-{recipe}" / "asked.npy").exists()]
    return FOLDER / f"stores-{whole[0] if whole else size}-{recipe}"


def _texts(size: int) -> list[str]:
    with (SHARED / "ir" / "scifact_train" / "corpus.jsonl").open(encoding="utf-8") as file:
        abstracts = [re.split(r"(?<=[.?!]) +", json.loads(line)["text"]) for line in file]
    rng = np.random.default_rng(1)
    texts = []
    for number in range(size):
        if number % PER_DOCUMENT == 0:
            theme = rng.integers(len(abstracts), size=6)
        first, second = rng.choice(theme, 2, replace=False)
        sentences = np.array([*abstracts[first], *abstracts[second]], dtype=object)
        rng.shuffle(sentences)
        text = " ".join(sentences)
        texts.append(f"{text} {text}"[:CHARACTERS] if len(text) < CHARACTERS else text[:CHARACTERS])
    return texts


def _embedded(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    async def embed() -> list[list[float]]:
        model = LocalEmbeddingModel()
        found: list[list[float]] = []
        for start in range(0, len(texts), 1_000):
            found += (await model(list(texts[start : start + 1_000]))).embeddings
        return found

    vectors: npt.NDArray[np.float32] = np.array(asyncio.run(embed()), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors
