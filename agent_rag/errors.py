"""Every error this package raises, in one tree.

::

    AgentRAGError
    ├── ConfigurationError          (ValueError)       options that cannot work together
    ├── MissingExtraError           (ImportError)      an optional dependency is not installed
    ├── LimitExceededError          (ValueError)       an input is larger than a limit; names the limit
    ├── ParseError                  (ValueError)       a file cannot be read; names the file
    │   ├── UnsupportedFormatError                     no parser for this content
    │   ├── EmptyFileError                             no bytes, or nothing in them
    │   ├── EncryptedFileError                         a password is needed or wrong
    │   ├── ParseLimitError         (LimitExceededError)  size, inflated size, pages, cells, pixels
    │   ├── ParseTimeoutError       (TimeoutError)     the time limit of a worker is over
    │   └── ParserCrashedError                         a native library ended its worker process
    ├── ChunkError                  (ValueError)       a chunker broke its contract
    ├── EmbeddingError              (RuntimeError)     the embedding model answered wrongly or not at all
    │   ├── EmbeddingAuthError      (PermissionError)  the provider refused the key
    │   ├── EmbeddingUnavailableError (ConnectionError)  away, or refuses everything: quota, billing
    │   └── EmbeddingTimeoutError   (TimeoutError)
    ├── ChatError                   (RuntimeError)     the chat model answered wrongly or not at all
    │   └── ChatTimeoutError        (TimeoutError)
    ├── RerankError                 (RuntimeError)     a reranker answered wrongly or not at all
    ├── FilterError                 (ValueError)       a metadata filter is malformed
    ├── QuestionError               (ValueError)       a file of questions is wrong; names file and line
    ├── PatternError                (ValueError)       a text pattern cannot be looked for, or takes too long
    ├── TableQueryError             (ValueError)       a query of tables that is not answered; names what is nearest
    ├── SourceError                 (OSError)          a path or URL to ingest cannot be read
    └── StoreError                  (RuntimeError)     a vector store failed
        ├── CollectionNotFoundError (LookupError)
        ├── DimensionMismatchError  (ValueError)       vectors of another size than the collection's
        ├── ModelMismatchError      (ValueError)       same size, another embedding model
        ├── RecordError             (ValueError)       a record that cannot be stored
        ├── StoreClosedError                           used outside its ``async with`` block
        ├── StoreDamagedError                          what is stored is missing, torn or changed; names what
        ├── StoreFullError          (OSError)          the disk is full; nothing that was acknowledged is lost
        ├── StoreReadOnlyError      (PermissionError)  the file or folder cannot be written
        ├── StoreLockedError        (OSError)          another process or object holds the store; says who
        └── StoreUnavailableError   (ConnectionError)  the server does not answer

Each class also inherits the builtin a caller would guess, so ``except ValueError`` works. A message says
what happened, with which values, and what to do.
"""

from __future__ import annotations

import re

__all__ = [
    "AgentRAGError",
    "ChatError",
    "ChatTimeoutError",
    "ChunkError",
    "CollectionNotFoundError",
    "ConfigurationError",
    "DimensionMismatchError",
    "EmbeddingAuthError",
    "EmbeddingError",
    "EmbeddingTimeoutError",
    "EmbeddingUnavailableError",
    "EmptyFileError",
    "EncryptedFileError",
    "FilterError",
    "LimitExceededError",
    "MissingExtraError",
    "ModelMismatchError",
    "ParseError",
    "ParseLimitError",
    "ParseTimeoutError",
    "ParserCrashedError",
    "PatternError",
    "QuestionError",
    "RecordError",
    "RerankError",
    "SourceError",
    "StoreClosedError",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "TableQueryError",
    "UnsupportedFormatError",
]


class AgentRAGError(Exception):
    """Root of all errors of this package."""

    @property
    def page(self) -> str:
        """Where the documentation says what to do: ``docs/errors.md#storelockederror``."""
        return f"docs/errors.md#{self._documented().__name__.lower()}"

    @classmethod
    def _documented(cls) -> type[AgentRAGError]:
        """This class, or the nearest base that is part of this module."""
        return next(kind for kind in cls.__mro__ if kind.__module__ == __name__ and kind.__name__ in __all__)


class ConfigurationError(AgentRAGError, ValueError):
    """Options that are missing, wrong, or cannot work together."""


class MissingExtraError(AgentRAGError, ImportError):
    """An optional dependency is not installed; the message holds the exact install line."""


class LimitExceededError(AgentRAGError, ValueError):
    """An input is larger than a limit; the message names the limit and the option that raises it."""


class ParseError(AgentRAGError, ValueError):
    """A file cannot be read; the message names the file."""


class UnsupportedFormatError(ParseError):
    """No parser is registered for this content."""


class EmptyFileError(ParseError):
    """The file has no bytes."""


class EncryptedFileError(ParseError):
    """The file needs a password, or the given one is wrong."""


class ParseLimitError(ParseError, LimitExceededError):
    """The file is larger than a limit of its parser."""


class ParseTimeoutError(ParseError, TimeoutError):
    """Parsing took longer than its time limit."""


class ParserCrashedError(ParseError):
    """A native library ended the worker process that parsed the file."""


class ChunkError(AgentRAGError, ValueError):
    """A chunker broke its contract, or made more chunks than allowed."""


class EmbeddingError(AgentRAGError, RuntimeError):
    """The embedding model answered wrongly or not at all."""


class EmbeddingAuthError(EmbeddingError, PermissionError):
    """The provider refused the key."""


class EmbeddingUnavailableError(EmbeddingError, ConnectionError):
    """The provider is away or refuses everything (quota, billing, connection): every further request would fail."""


class EmbeddingTimeoutError(EmbeddingError, TimeoutError):
    """The provider did not answer in time."""


class ChatError(AgentRAGError, RuntimeError):
    """The chat model answered wrongly or not at all."""


class ChatTimeoutError(ChatError, TimeoutError):
    """The chat model did not answer in time."""


class RerankError(AgentRAGError, RuntimeError):
    """A reranker answered wrongly or not at all."""


class FilterError(AgentRAGError, ValueError):
    """A metadata filter is malformed; the message says which part and what is allowed."""


class QuestionError(AgentRAGError, ValueError):
    """A file of questions for an evaluation is wrong; the message names file and line."""


class PatternError(AgentRAGError, ValueError):
    """A text pattern is blank, too long, no regular expression, or takes too long to look for."""


class TableQueryError(AgentRAGError, ValueError):
    """A query of tables is not answered: it is no SELECT, names what is not there, or takes too long."""


class SourceError(AgentRAGError, OSError):
    """A path or URL to ingest cannot be read."""


class StoreError(AgentRAGError, RuntimeError):
    """A vector store failed."""


class CollectionNotFoundError(StoreError, LookupError):
    """The collection does not exist."""


class DimensionMismatchError(StoreError, ValueError):
    """Vectors of another size than the collection holds."""


class ModelMismatchError(StoreError, ValueError):
    """The collection was built with another embedding model of the same vector size."""


class RecordError(StoreError, ValueError):
    """A record that cannot be stored: non-finite vector, metadata that is not JSON, a bad id."""


class StoreClosedError(StoreError):
    """The store is used outside its ``async with`` block."""


class StoreDamagedError(StoreError):
    """What is stored is missing, torn or changed; the message names the document or file and the cure."""


class StoreFullError(StoreError, OSError):
    """The disk is full. What was acknowledged is there and can be read; deleting makes room."""


class StoreReadOnlyError(StoreError, PermissionError):
    """The file or folder of a store cannot be written."""


class StoreLockedError(StoreError, OSError):
    """Another process or object holds an embedded store, or writes to it for longer than the caller waits."""


class StoreUnavailableError(StoreError, ConnectionError):
    """The server of a store does not answer."""


_NAME = r"api[-_]?key|access[-_]?token|token|password|passwd|secret"
_SECRETS = (
    (re.compile(r"(?<=://)[^/\s@]+(?=@)"), "***"),
    (re.compile(r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|apikey)?\s*)[^\s\"',;]+"), r"\1***"),
    # What is left as it is: advice such as ``PDFParser(password=...)``.
    (re.compile(rf"(?i)\b((?:{_NAME})[\"']?\s*[:=]\s*[\"']?)(?!\.\.\.(?:[\s)\],;]|$))[^\s\"',;&]+"), r"\1***"),
    (re.compile(r"(?i)\bbearer\s+[\w.~+/=-]{8,}"), "Bearer ***"),
    (re.compile(r"\b(?:sk|pk|rk|ghp|xox[bp])[-_][\w-]{8,}"), "***"),
)


def redact(text: str) -> str:
    """`text` without what looks like a secret: credentials in URLs, keys, tokens, passwords."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text
