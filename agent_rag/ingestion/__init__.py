"""From a source to a knowledge base: what is new is parsed, what is gone is pruned, and the report says so."""

from .contextual import ContextWriter
from .ingest import ingest, sync
from .manage import SourceSummary, list_sources, reload_source, remove_source
from .options import IngestOptions, SyncOptions
from .report import Estimate, FileReport, IngestReport, Outcome
from .service import Ingestor
from .transforms import CharDedup, CharFilter, CleanText, Edit, RemoveBoilerplate, TransformBase, edited
from .watch import watch

__all__ = [
    "CharDedup",
    "CharFilter",
    "CleanText",
    "ContextWriter",
    "Edit",
    "Estimate",
    "FileReport",
    "IngestOptions",
    "IngestReport",
    "Ingestor",
    "Outcome",
    "RemoveBoilerplate",
    "SourceSummary",
    "SyncOptions",
    "TransformBase",
    "edited",
    "ingest",
    "list_sources",
    "reload_source",
    "remove_source",
    "sync",
    "watch",
]
