"""What an ingestion did, file by file."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

Outcome = Literal["added", "replaced", "unchanged", "skipped", "failed", "pruned"]
"""What became of a file."""


class FileReport(BaseModel):
    """What happened to one file."""

    document_id: str
    uri: str
    outcome: Outcome
    reason: str | None = None
    """Why it was skipped or failed."""
    chunks: int = 0
    warnings: list[str] = Field(default_factory=list)
    """What is missing from an otherwise good document: scanned pages, images without text."""


class IngestReport(BaseModel):
    """What an ingestion did."""

    files: list[FileReport] = Field(default_factory=list)
    """By document id."""
    embedded: int = 0
    """Vectors computed; vectors of unchanged text were reused."""
    seconds: float = 0.0

    def of(self, outcome: Outcome) -> list[FileReport]:
        """The files with this outcome."""
        return [file for file in self.files if file.outcome == outcome]

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return not self.of("failed")

    @property
    def counts(self) -> dict[str, int]:
        """Outcome -> number of files, without zeros."""
        counts: dict[str, int] = {}
        for file in self.files:
            counts[file.outcome] = counts.get(file.outcome, 0) + 1
        return counts

    def __str__(self) -> str:
        told = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items()) or "no files"
        return f"{told}; {self.embedded} chunks embedded in {self.seconds:.1f} s"
