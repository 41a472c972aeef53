"""What every shipped parser does around reading: open, check, leave the event loop, name the errors."""

from __future__ import annotations

import asyncio
import io
import os
import re
import zipfile
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal

from .._util.extras import DISTRIBUTION
from ..documents import Section
from ..errors import AgentRAGError, EmptyFileError, MissingExtraError, ParseError, ParseLimitError
from ..workers import Isolation, is_isolated
from .base import ParserBase
from .pool import parse_in_shared_pool

MIB = 1024 * 1024
DEFAULT_MAX_FILE_BYTES = 512 * MIB
_LARGE_INFLATED_BYTES = 8 * MIB
_SMALL_ZIP_BYTES = 64 * 1024

FileIsolation = Isolation | Literal["auto"]


class FileParser(ParserBase):
    """A parser that takes the whole file as bytes: implement `read`.

    Args:
        isolation: "auto" reads a small file in a thread, and a large one (over `largest_in_thread`, or 8 MiB unpacked)
            in a worker process of the shared `ParserPool`: in a thread its millions of objects would stop the event
            loop for garbage collection, up to 640 ms at 1 MB of Markdown. "process" and "none" (a thread) decide it
            for any size.
    """

    format_name: ClassVar[str] = "file"
    """What the format is called in errors."""
    largest_in_thread: ClassVar[int] = MIB
    """Bytes of a file, or characters of a text, that "auto" still reads in a thread."""
    version: ClassVar[int] = 1
    """Raised when the same file and options would give other Sections; part of the fingerprint."""

    def __init__(self, *, max_file_bytes: int = DEFAULT_MAX_FILE_BYTES, isolation: FileIsolation = "auto") -> None:
        self.max_file_bytes = max_file_bytes
        self.isolation: FileIsolation = isolation

    @property
    def fingerprint(self) -> str:
        """Class, version and options, without secrets and without what does not change the Sections."""
        options = {name: value for name, value in sorted(vars(self).items()) if name not in ("password", "isolation")}
        return f"{type(self).__name__}:{self.version}:{re.sub(r' at 0x[0-9a-fA-F]+', '', repr(options))}"

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        """Read a file off the event loop, where `isolation` says."""
        if is_isolated():
            return self.parse_here(file, filename)
        if self.isolation == "process" or (self.isolation == "auto" and is_large(file, self.largest_in_thread)):
            return await parse_in_shared_pool(self, file, filename)
        return await asyncio.to_thread(self.parse_here, file, filename)

    def parse_here(self, file: bytes | str | Path, filename: str) -> list[Section]:
        """`parse` in this thread."""
        data = read_bytes(file, filename, self.max_file_bytes)
        with parse_errors(filename, self.format_name):
            return self.read(data, filename)

    @abstractmethod
    def read(self, data: bytes, filename: str) -> list[Section]:
        """Turn the content into Sections. Any exception becomes a `ParseError` that names the file."""


def is_large(file: bytes | str | Path, most: int = MIB) -> bool:
    """Whether `file` has more than `most` bytes or unpacks to more than 8 MiB: too much to be read in a thread."""
    try:
        size = os.stat(file).st_size if isinstance(file, str | os.PathLike) else len(file)
        if size > most:
            return True
        if size < _SMALL_ZIP_BYTES or not _starts_as_zip(file):
            return False
        with zipfile.ZipFile(file if isinstance(file, str | os.PathLike) else io.BytesIO(file)) as archive:
            return sum(entry.file_size for entry in archive.infolist()) > _LARGE_INFLATED_BYTES
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False  # reading will say what is wrong


def _starts_as_zip(file: bytes | str | Path) -> bool:
    if not isinstance(file, str | os.PathLike):
        return file[:2] == b"PK"
    with open(file, "rb") as stream:
        return stream.read(2) == b"PK"


def read_bytes(file: bytes | str | Path, filename: str, max_file_bytes: int) -> bytes:
    """The content of `file`, a path or the content itself.

    Raises: FileNotFoundError; EmptyFileError; ParseLimitError: over `max_file_bytes`; ParseError: not readable.
    """
    if isinstance(file, str | os.PathLike):
        data = _read_path(Path(file), filename, max_file_bytes)
    else:
        data = bytes(file)
        check_size(len(data), filename, max_file_bytes)
    if not data:
        raise EmptyFileError(f"{filename}: the file is empty (0 bytes)")
    return data


def check_size(size: int, filename: str, max_file_bytes: int) -> None:
    """Raises: ParseLimitError: `size` is over `max_file_bytes`."""
    if size > max_file_bytes:
        raise ParseLimitError(
            f"{filename}: {size:,} bytes is over the limit max_file_bytes={max_file_bytes:,}; "
            "split the file, or raise max_file_bytes of its parser"
        )


@contextmanager
def parse_errors(filename: str, format_name: str) -> Iterator[None]:
    """Turn whatever a library raises into a `ParseError` that names the file, chained to the original."""
    try:
        yield
    except AgentRAGError:
        raise
    except ImportError as error:
        raise MissingExtraError(
            f"{filename}: reading {format_name} needs the package {error.name!r} of the default install: "
            f"pip install '{DISTRIBUTION}' (import failed with: {error})"
        ) from error
    except MemoryError as error:
        raise ParseLimitError(f"{filename}: reading this {format_name} needs more memory than there is") from error
    except (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        raise
    except BaseException as error:  # pyo3's PanicException is no Exception
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ParseError(f"{filename}: cannot be read as {format_name} ({reason}); is it damaged?") from error


def _read_path(path: Path, filename: str, max_file_bytes: int) -> bytes:
    try:
        if not path.is_file() and path.exists():
            raise ParseError(f"{filename}: {path} is not a regular file")
        check_size(path.stat().st_size, filename, max_file_bytes)
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ParseError(f"{filename}: {path} cannot be opened: {error.strerror or error}") from error
