"""The two PDF engines behind one small interface: pages of text, counted from 0."""

from __future__ import annotations

import io
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import EncryptedFileError
from .text import Bookmark, clean

logger = logging.getLogger(__name__)

_MAX_BOOKMARKS = 10_000
_PAGE_S = 5.0
"""Time that pypdf may take for one page; on a fallback it must not cost the whole file."""


@dataclass
class PDFPage:
    """What an engine read from a page."""

    text: str = ""
    has_images: bool = False
    images: list[tuple[bytes, str]] = field(default_factory=list)
    """(content, media type)"""
    unread_texts: int = 0
    """Pieces of text on it that gave no character."""
    comments: list[str] = field(default_factory=list)
    """Of its reviewers."""
    failed: str = ""
    """Why it could not be read; empty when it could."""


class PDFEngine(Protocol):
    """An open document."""

    def page_count(self) -> int: ...
    def page(self, index: int, *, images: bool) -> PDFPage: ...
    def bookmarks(self) -> list[Bookmark]: ...
    def close(self) -> None: ...


class PypdfEngine:
    """pypdf: pure Python, slow, careful with hostile files."""

    def __init__(self, data: bytes, filename: str, password: str | None) -> None:
        import pypdf

        self._reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
        if self._reader.is_encrypted and not self._reader.decrypt(password or ""):
            raise encrypted(filename, password)

    def page_count(self) -> int:
        return len(self._reader.pages)

    def page(self, index: int, *, images: bool) -> PDFPage:
        page = PDFPage()
        try:
            with time_limit(_PAGE_S):
                source = self._reader.pages[index]
                page.text = clean(source.extract_text() or "", join_hyphens=True)
                if images or not page.text:
                    page.images = [(image.data, "") for image in source.images] if images else []
                    page.has_images = bool(page.images) or bool(source.images.keys())
        except MemoryError:
            raise
        except Exception as error:
            page.failed = f"{type(error).__name__}: {error}"
        return page

    def bookmarks(self) -> list[Bookmark]:
        found: list[Bookmark] = []
        try:
            self._collect(self._reader.outline, 1, found)
        except Exception as error:
            logger.debug("the outline cannot be read: %s", error)
        return found

    def _collect(self, entries: Any, level: int, found: list[Bookmark]) -> None:
        for entry in entries:
            if isinstance(entry, list):
                self._collect(entry, level + 1, found)
            elif entry.title and len(found) < _MAX_BOOKMARKS:
                number = self._reader.get_destination_page_number(entry)
                if number is not None:
                    found.append(Bookmark(level, " ".join(str(entry.title).split()), number))

    def close(self) -> None:
        self._reader.close()


def encrypted(filename: str, password: str | None) -> EncryptedFileError:
    """The error for a file that the given password, or none, does not open."""
    if password:
        return EncryptedFileError(f"{filename}: the file is encrypted and the given password is wrong")
    return EncryptedFileError(f"{filename}: the file is encrypted; pass PDFParser(password=...)")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after `seconds`; only where a signal can be used, that is in a worker's main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError(f"took longer than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
