"""Tables of documents as tables: read with their types, kept in SQLite files, asked in SQL."""

from .catalog import CatalogTable
from .extract import extract_tables
from .folder import TableFolder
from .model import Column, Table, TableInfo
from .query import QueryLimits, TableAnswer, TableCitation

__all__ = [
    "CatalogTable",
    "Column",
    "QueryLimits",
    "Table",
    "TableAnswer",
    "TableCitation",
    "TableFolder",
    "TableInfo",
    "extract_tables",
]
