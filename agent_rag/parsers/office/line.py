"""A paragraph of a document while it is read, with what stands in it and below it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..blocks import Block


@dataclass
class Line:
    """A paragraph being read."""

    text: list[str] = field(default_factory=list)
    asides: list[tuple[str, str]] = field(default_factory=list)
    """(words of the text, what belongs to them): the address of a link, the reading of a ruby."""
    below: list[Block] = field(default_factory=list)
    """Text boxes, charts and images, which stand after the paragraph."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """(kind, id) of notes and comments."""

    def add(self, other: Line) -> None:
        self.text += other.text
        self.asides += other.asides
        self.below += other.below
        self.notes += other.notes

    def __bool__(self) -> bool:
        return bool(self.text or self.below or self.notes)

    def finished_text(self) -> str:
        """The text with its asides at the end, where they break no phrase."""
        text = "".join(self.text).strip()
        asides = dict.fromkeys((label.strip(), extra) for label, extra in self.asides if extra not in text)
        notes = "; ".join(extra if label in ("", text) else f"{label}: {extra}" for label, extra in asides)
        return f"{text} ({notes})" if notes and text else text or notes
