"""What an ingestion did, file by file."""

from __future__ import annotations

from html import escape
from typing import Literal

from pydantic import BaseModel, Field

Outcome = Literal["added", "replaced", "unchanged", "skipped", "failed", "pruned"]
"""What became of a file."""


_SHOWN: tuple[Outcome, ...] = ("failed", "skipped", "added", "replaced", "pruned")
_MOST_ROWS = 100


class FileReport(BaseModel):
    """What happened to one file."""

    document_id: str
    uri: str
    outcome: Outcome
    reason: str | None = None
    """Why it was skipped, failed or pruned, and why it was replaced where its content did not change."""
    chunks: int = 0
    warnings: list[str] = Field(default_factory=list)
    """What is missing from an otherwise good document: scanned pages, images without text."""
    also: list[str] = Field(default_factory=list)
    """Further paths that reach the same file; it is indexed once."""
    source: str = ""
    """Name of its source."""


class Estimate(BaseModel):
    """What a run would embed."""

    chunks: int = 0
    """Chunks without a vector so far."""
    tokens: int = 0
    """About as many tokens, by `approx_tokens`; no tokenizer is asked."""
    requests: int = 0
    """Requests to the embedding model, if none is refused."""
    context_requests: int = 0
    """Lines of context that a chat model would be asked for (`ContextWriter`), one request each."""
    context_tokens: int = 0
    """About as many tokens would be sent for them."""
    context_shared_tokens: int = 0
    """Of these in the beginning of a request that an earlier one had: cheaper where the provider caches prompts."""

    def add_contexts(self, requests: int, tokens: int, shared_tokens: int) -> None:
        """Count what the lines of context of one document would cost."""
        self.context_requests += requests
        self.context_tokens += tokens
        self.context_shared_tokens += shared_tokens


class IngestReport(BaseModel):
    """What an ingestion did; of a dry run, what it would do."""

    files: list[FileReport] = Field(default_factory=list)
    """By document id."""
    embedded: int = 0
    """Vectors computed; vectors of unchanged text were reused."""
    seconds: float = 0.0
    notes: list[str] = Field(default_factory=list)
    """What concerns no single file: settings kept from an earlier run, a path that was given twice."""
    sources: list[str] = Field(default_factory=list)
    """Names of the sources, as they are stored."""
    dry_run: bool = False
    estimate: Estimate | None = None
    """Of a dry run."""

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

    def _repr_html_(self) -> str:
        """For notebooks: the sentence of `str`, and a row for each file that is not unchanged, failures first."""
        shown = [file for outcome in _SHOWN for file in self.of(outcome)]
        rows = "".join(
            f"<tr><td>{escape(file.document_id)}</td><td>{file.outcome}</td><td>{file.chunks or ''}</td>"
            f"<td>{escape('; '.join([*([file.reason] if file.reason else []), *file.warnings]))}</td></tr>"
            for file in shown[:_MOST_ROWS]
        )
        more = f"<p>and {len(shown) - _MOST_ROWS} more</p>" if len(shown) > _MOST_ROWS else ""
        head = "<tr><th>document</th><th>outcome</th><th>chunks</th><th>note</th></tr>"
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(str(self))}</p>{notes}" + (f"<table>{head}{rows}</table>{more}" if rows else "")

    def __str__(self) -> str:
        told = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items()) or "no files"
        if self.estimate is not None:
            cost = self.estimate
            embedding = f"{cost.chunks} chunks to embed, ~{cost.tokens} tokens, {cost.requests} requests"
            if cost.context_requests:
                embedding += (
                    f"; {cost.context_requests} lines of context to write, ~{cost.context_tokens} tokens, of these "
                    f"~{cost.context_shared_tokens} in a shared beginning"
                )
            return f"would be: {told}; {embedding}"
        return f"{told}; {self.embedded} chunks embedded in {self.seconds:.1f} s"
