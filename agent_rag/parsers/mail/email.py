"""E-mail messages with their attachments."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import ClassVar

from ...documents import Section
from ...errors import MissingExtraError, ParseError
from ...workers import is_isolated
from ..base import ParserBase
from ..file import MIB, FileIsolation, FileParser, check_size, is_large, parse_errors, read_bytes
from ..pool import parse_in_shared_pool
from .message import Attachment, Opened, opened
from .mime import PartReader, headers_of, parsed

logger = logging.getLogger(__name__)


class EmailParser(FileParser):
    """A Section with the headers and the body, then the Sections of each attachment.

    The body is every text that is shown in the message itself, in its order; HTML becomes Markdown, and of
    alternatives the one that says the most is read. Attachments, attached messages too, are read by what `parser_for`
    gives. The first Section has metadata ``{"title": subject}``, those of an attachment also
    ``{"attachment": its name}``. What is not read is listed, with the reason, in the first Section's `warnings`, and an
    attachment also under its ``"skipped_attachments"``.

    Args:
        max_attachments: Further ones are skipped.
        max_depth: Messages attached to messages are followed this far.
        max_attachment_bytes: A larger one is skipped.
    """

    format_name = "e-mail"
    version: ClassVar[int] = 3
    supported_media_types: ClassVar[list[str]] = ["message/rfc822"]

    def __init__(
        self,
        *,
        max_attachments: int = 100,
        max_depth: int = 3,
        max_attachment_bytes: int = 64 * MIB,
        max_file_bytes: int = 256 * MIB,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        self.max_attachments = max_attachments
        self.max_depth = max_depth
        self.max_attachment_bytes = max_attachment_bytes

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".eml"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        if is_isolated():
            message = self._opened(file, filename)
        elif self.isolation == "process" or (self.isolation == "auto" and is_large(file, self.largest_in_thread)):
            return await parse_in_shared_pool(self, file, filename)
        else:
            message = await asyncio.to_thread(self._opened, file, filename)
        return await self._with_attachments(message, filename)

    def read(self, data: bytes, filename: str) -> list[Section]:
        """Headers and body, without attachments."""
        return [self.open(data, filename).first]

    def open(self, data: bytes, filename: str) -> Opened:
        """The message, its attachments not yet read."""
        message = parsed(data, filename)
        if not message.keys():
            raise ParseError(f"{filename}: this is no e-mail message; it has no header fields")
        return opened(headers_of(message), PartReader(self.max_attachments).contents(message), filename)

    def _opened(self, file: bytes | str | Path, filename: str) -> Opened:
        data = read_bytes(file, filename, self.max_file_bytes)
        with parse_errors(filename, self.format_name):
            return self.open(data, filename)

    async def _with_attachments(self, message: Opened, filename: str) -> list[Section]:
        sections, skipped = [message.first], list(message.skipped)
        for attachment in message.attachments:
            try:
                found = await self._attached(attachment, filename)
            except (ParseError, MissingExtraError) as error:
                logger.warning("%s: attachment %r is skipped: %s", filename, attachment.name, error)
                skipped.append(f"{attachment.name}: {error}"[:300])
                continue
            for section in found:
                section.source = filename
                section.metadata = {
                    **section.metadata,
                    "attachment": section.metadata.get("attachment", attachment.name),
                }
            sections += found
        if skipped:
            message.first.metadata["skipped_attachments"] = skipped
            message.first.warnings += [f"attachment {text}" for text in skipped]
        return sections

    async def _attached(self, attachment: Attachment, filename: str) -> list[Section]:
        if attachment.message is not None:
            return await self._inner()._with_attachments(attachment.message, filename)
        check_size(len(attachment.content), attachment.name, self.max_attachment_bytes)
        return await self._parser(attachment).parse(attachment.content, attachment.name)

    def _parser(self, attachment: Attachment) -> ParserBase:
        from ..registry import parser_for

        if attachment.media_type.startswith("multipart/"):  # how Outlook keeps a signed message
            return self._inner()
        parser = parser_for(attachment.name, attachment.media_type, attachment.content)
        return self._inner(type(parser)) if isinstance(parser, EmailParser) else parser

    def _inner(self, kind: type[EmailParser] | None = None) -> EmailParser:
        """The parser of a message inside the message."""
        if self.max_depth < 1:
            raise ParseError(f"messages inside messages go deeper than max_depth={self.max_depth}")
        return (kind or EmailParser)(
            max_attachments=self.max_attachments,
            max_depth=self.max_depth - 1,
            max_attachment_bytes=self.max_attachment_bytes,
            max_file_bytes=self.max_file_bytes,
        )
