"""Vectors that are stored already, so that what was moved, renamed or edited embeds only what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..knowledge.knowledge_base import KnowledgeBase
from .embedding import Vector
from .identity import Plan, Task


class Reuse:
    """Finds vectors by what was embedded, in the documents that are likely to have them.

    These are: its own earlier version, documents with the same content anywhere in the collection, and documents of
    the same name or inode that are gone.
    """

    def __init__(self, kb: KnowledgeBase, plan: Plan) -> None:
        self._kb = kb
        self._by_digest: dict[str, list[str]] = {}
        self._gone: dict[str, list[str]] = {}
        claimed = {task.document_id for task in plan.tasks}
        for one in plan.stored:
            document_id = one.summary.document_id
            if not one.summary.chunk_count:
                continue
            self._by_digest.setdefault(one.state.digest, []).append(document_id)
            if document_id not in claimed:
                for trait in _traits(one.state.path, one.state.stamp):
                    self._gone.setdefault(trait, []).append(document_id)

    async def vectors(self, task: Task, digest: str) -> Mapping[str, Vector]:
        """What is known, by `KnowledgeBase.known_vectors`' keys; may hold more than the document needs."""
        if not self._kb.atomic or self._kb.embedding_model is None:
            return {}
        own = [task.document_id] if not task.is_new else []
        same = self._by_digest.get(digest, [])[:1]
        traits = [] if same else _traits(task.item.key, task.item.stamp or "")
        gone = [one for trait in traits for one in self._gone.get(trait, [])[:1]]
        candidates: Sequence[str] = list(dict.fromkeys([*own, *same, *gone]))
        return await self._kb.known_vectors(candidates) if candidates else {}


def _traits(path: str, stamp: str) -> list[str]:
    """By what a moved file is recognised although it was edited: its name, its inode."""
    inode = stamp.rpartition(":")[2]
    return [f"name:{path.rpartition('/')[2]}", *([f"inode:{inode}"] if inode not in ("", "0") else [])]
