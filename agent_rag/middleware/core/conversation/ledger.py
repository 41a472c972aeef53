"""What the earlier messages of a conversation say about its citation numbers, so that they survive a restart."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ....chat import ChatMessage
from ....retrieval.fence import FENCED
from ..citation import Citation, PassageKey, collected, excerpts, remembered

logger = logging.getLogger("agent_rag")

_HEADER = re.compile(r"^\[(\d{1,9})\] (\(source: .*\))$", re.MULTILINE)
_ANY_HEADER = re.compile(r"^\[(\d{1,9})\] \(source: ", re.MULTILINE)
# A year or an index such as [2024] is no citation of ours: conversations with more passages than this are rare.
_MARKER = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")


@dataclass
class Above:
    """What a conversation has shown so far."""

    highest: int = 0
    """The highest number in use; 0 for none."""
    shown: list[tuple[Citation, list[PassageKey]]] = field(default_factory=list)
    """Of the fences that stand in the messages and that this process remembers."""
    entries: dict[str, int] = field(default_factory=dict)
    """Numbers of the passages that stand in other fences, by header and text; see `entry_key`."""
    stored: list[tuple[Citation, list[PassageKey]]] = field(default_factory=list)
    """What has a number and does not stand in the messages: what the framework stores beside them, with its chunks as
    far as this process remembers them, and passages of which only lines were shown."""

    @property
    def visible(self) -> set[PassageKey]:
        """Chunks whose text stands in the messages."""
        return {key for _, keys in self.shown for key in keys}


def read_above(messages: Sequence[ChatMessage]) -> Above:
    """What `messages` hold: fences with passages, markers in answers, and citations in their artifacts."""
    above = Above(highest=highest_number(messages))
    for message in messages:
        for fence in FENCED.finditer(message.text):
            known = remembered.of(fence[1])
            (above.stored if excerpts.of(fence[1]) else above.shown).extend(known or ())
            if known is None:
                above.entries.update(_entries(fence[0]))
    for citation in _stored_with(messages):
        known = remembered.of(citation.fence) or []
        above.stored.append((citation, [key for one, keys in known if one.number == citation.number for key in keys]))
        above.highest = max(above.highest, citation.number)
    return above


def highest_number(messages: Iterable[ChatMessage]) -> int:
    """The highest citation number that `messages` use; 0 for none.

    Counted are the headers of hits in every message, and markers such as ``[3]`` or ``[1, 3]`` up to 999 in what
    models and other tools wrote: outside of fences, where they are somebody else's.
    """
    highest = 0
    for message in messages:
        text = message.text
        found = [int(number) for number in _ANY_HEADER.findall(text)]
        if message.role in ("assistant", "tool"):
            markers = _MARKER.findall(FENCED.sub("", text))
            found += [int(number) for marker in markers for number in re.findall(r"\d+", marker)]
        highest = max([highest, *found])
    return highest


def entry_key(entry: str) -> str:
    """What is equal for two showings of one passage: its header without the number, and its text, whatever blanks a
    framework has changed."""
    _, _, rest = entry.partition("] ")
    return " ".join(rest.split())


def _entries(fenced: str) -> dict[str, int]:
    inside = fenced.partition("\n")[2].rpartition("\n")[0]
    parts = _HEADER.split(inside)
    return {
        entry_key(f"[{number}] {head}\n{body}"): int(number)
        for number, head, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    }


def _stored_with(messages: Iterable[ChatMessage]) -> list[Citation]:
    """Of each `ToolResult`, `Hint`, or list of citations as plain JSON that a framework stored beside a message."""
    # Each answer has those of all answers before it: of ten thousand most are read already.
    fresh: dict[str, Any] = {}
    for message in messages:
        found: Any = getattr(message.artifact, "citations", message.artifact)
        for item in found if isinstance(found, list | tuple) else ():
            fields = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
            ids = fields.get("chunk_ids")
            fresh.setdefault(f"{fields.get('number')} {list(ids) if isinstance(ids, tuple) else ids}", item)
    citations: list[Citation] = []
    for item in fresh.values():
        try:
            citations += collected([item])
        except (ValidationError, TypeError) as error:
            logger.warning("a citation that is stored with a message cannot be read: %s", error)
    return collected(citations)
