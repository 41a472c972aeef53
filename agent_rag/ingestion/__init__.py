"""From a source to a knowledge base: what is new is parsed, what is gone is pruned, and the report says so."""

from .ingest import ingest, sync
from .report import FileReport, IngestReport, Outcome

__all__ = ["FileReport", "IngestReport", "Outcome", "ingest", "sync"]
