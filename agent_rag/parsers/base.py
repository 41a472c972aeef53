"""The contract of a parser: file in, Sections out."""

from __future__ import annotations

import mimetypes
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from ..documents import Section


class ParserBase(ABC):
    """Splits one file into its natural parts.

    Subclass it, name the media types, implement `parse`. Parsing the same bytes twice gives equal Sections, a Section
    never fetches anything, and whatever a library raises comes out as a `ParseError` that names the file.
    """

    supported_media_types: ClassVar[list[str]] = []
    """IANA media types, most typical first."""

    @classmethod
    def supported_extensions(cls) -> list[str]:
        """File name endings with the dot, lower case, sorted. The default looks them up from the media types."""
        found = {
            ext for kind in cls.supported_media_types for ext in mimetypes.guess_all_extensions(kind, strict=False)
        }
        return sorted(found)

    @property
    def fingerprint(self) -> str:
        """Changes when this parser would read a file differently; ingestion re-parses then."""
        return type(self).__name__

    @abstractmethod
    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        """Read a file.

        Args:
            file: The content as bytes, or a path as str or Path. (`TextParser` takes a str that names no existing file
                as the text itself, as the seed does; `parse_text` never looks at the disk.)
            filename: Name to show; it becomes `Section.source`.

        Raises: ParseError: and its subclasses; FileNotFoundError: the path does not exist.
        """
