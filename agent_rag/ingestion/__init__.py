"""From a source to a knowledge base: what is new is parsed, what is gone is pruned, and the report says so."""

from .ingest import ingest, sync
from .options import IngestOptions, SyncOptions
from .report import Estimate, FileReport, IngestReport, Outcome

__all__ = ["Estimate", "FileReport", "IngestOptions", "IngestReport", "Outcome", "SyncOptions", "ingest", "sync"]
