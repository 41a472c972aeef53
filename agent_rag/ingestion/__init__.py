"""From a source to a knowledge base: what is new is parsed, what is gone is pruned, and the report says so."""

from .ingest import ingest, sync
from .manage import SourceSummary, list_sources, reload_source, remove_source
from .options import IngestOptions, SyncOptions
from .report import Estimate, FileReport, IngestReport, Outcome
from .service import Ingestor
from .watch import watch

__all__ = [
    "Estimate",
    "FileReport",
    "IngestOptions",
    "IngestReport",
    "Ingestor",
    "Outcome",
    "SourceSummary",
    "SyncOptions",
    "ingest",
    "list_sources",
    "reload_source",
    "remove_source",
    "sync",
    "watch",
]
