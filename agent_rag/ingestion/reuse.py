"""Vectors that are stored already, so that what was moved, renamed or edited embeds only what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..documents import Chunk
from ..knowledge.document import PART_CHUNKS
from ..knowledge.knowledge_base import KnowledgeBase
from ..knowledge.stored_vectors import StoredVectors
from .embedding import Vector
from .identity import Plan, Task


@dataclass(frozen=True)
class Known:
    """Vectors for one document, by `KnowledgeBase.known_vectors`' keys."""

    vectors: Mapping[str, Vector]
    stored: StoredVectors | None

    async def of(self, chunks: Sequence[Chunk]) -> dict[str, Vector]:
        """What is known for `chunks`; may hold more."""
        return {**self.vectors, **(await self.stored.of(chunks) if self.stored is not None else {})}


class Reuse:
    """Finds vectors by what was embedded, in the documents that are likely to have them.

    These are: its own earlier version, documents with the same content anywhere in the collection, and documents of
    the same name or inode that are gone.
    """

    def __init__(self, kb: KnowledgeBase, plan: Plan) -> None:
        self._kb = kb
        self._by_digest: dict[str, list[str]] = {}
        self._gone: dict[str, list[str]] = {}
        self._large: set[str] = set()
        claimed = {task.document_id for task in plan.tasks}
        for one in plan.stored:
            document_id = one.summary.document_id
            if not one.summary.chunk_count:
                continue
            if one.summary.chunk_count > PART_CHUNKS:
                self._large.add(document_id)
            self._by_digest.setdefault(one.state.digest, []).append(document_id)
            if document_id not in claimed:
                for trait in _traits(one.state.path, one.state.stamp):
                    self._gone.setdefault(trait, []).append(document_id)

    async def known(self, task: Task, digest: str) -> Known:
        """What is known for a document. Of large documents only what is asked for is read."""
        if not self._kb.atomic or self._kb.embedding_model is None:
            return Known({}, None)
        own = [task.document_id] if not task.is_new else []
        same = self._by_digest.get(digest, [])[:1]
        traits = [] if same else _traits(task.item.key, task.item.stamp or "")
        gone = [one for trait in traits for one in self._gone.get(trait, [])[:1]]
        candidates = list(dict.fromkeys([*own, *same, *gone]))
        is_large = task.known is not None and task.known.summary.chunk_count > PART_CHUNKS
        large = [one for one in candidates if one in self._large or (is_large and one in own)]
        small = [one for one in candidates if one not in large]
        return Known(
            await self._kb.known_vectors(small) if small else {},
            await self._kb.stored_vectors(large) if large else None,
        )


def _traits(path: str, stamp: str) -> list[str]:
    """By what a moved file is recognised although it was edited: its name, its inode."""
    inode = stamp.rpartition(":")[2]
    return [f"name:{path.rpartition('/')[2]}", *([f"inode:{inode}"] if inode not in ("", "0") else [])]
