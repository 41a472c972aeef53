"""E-mail messages with their attachments."""

from __future__ import annotations

import asyncio
import email
import email.policy
import logging
from email.message import EmailMessage
from pathlib import Path
from typing import Any, ClassVar

from ...documents import Section, text_section
from ...errors import MissingExtraError, ParseError
from ...workers import is_isolated
from ..file import MIB, FileIsolation, FileParser, check_size, is_large, parse_errors, read_bytes
from ..pool import parse_in_shared_pool
from ..text.encoding import decode
from ..web.html import html_to_markdown

logger = logging.getLogger(__name__)

_HEADERS = ("From", "To", "Cc", "Date", "Subject")


class EmailParser(FileParser):
    """A Section with the headers and the body, then the Sections of each attachment.

    The first has metadata ``{"title": subject}``, those of an attachment also ``{"attachment": its name}``; an
    attachment that cannot be read is listed under ``"skipped_attachments"`` of the first, with the reason. The body is
    the plain text, or the HTML as Markdown where there is none. Attachments are read by what `parser_for` gives.

    Args:
        max_attachments: Further ones are skipped.
        max_depth: Messages attached to messages are followed this far.
        max_attachment_bytes: A larger one is skipped.
    """

    format_name = "e-mail"
    version: ClassVar[int] = 2
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
            first, attachments = self._opened(file, filename)
        elif self.isolation == "process" or (self.isolation == "auto" and is_large(file)):
            return await parse_in_shared_pool(self, file, filename)
        else:
            first, attachments = await asyncio.to_thread(self._opened, file, filename)
        sections = [first]
        skipped: list[str] = []
        for number, (name, media_type, content) in enumerate(attachments):
            try:
                if number >= self.max_attachments:
                    raise ParseError(f"more than max_attachments={self.max_attachments}")
                found = await self._attachment(name, media_type, content)
            except (ParseError, MissingExtraError) as error:
                logger.warning("%s: attachment %r is skipped: %s", filename, name, error)
                skipped.append(f"{name}: {error}"[:300])
                continue
            for section in found:
                section.source = filename
                section.metadata = {**section.metadata, "attachment": section.metadata.get("attachment", name)}
            sections += found
        if skipped:
            first.metadata["skipped_attachments"] = skipped
        return sections

    def read(self, data: bytes, filename: str) -> list[Section]:
        """Headers and body, without attachments."""
        return [self._opened(data, filename)[0]]

    async def _attachment(self, name: str, media_type: str, content: bytes) -> list[Section]:
        from ..registry import parser_for

        check_size(len(content), name, self.max_attachment_bytes)
        parser = parser_for(name, media_type, content)
        if isinstance(parser, EmailParser):
            if self.max_depth < 1:
                raise ParseError("messages inside messages go deeper than max_depth")
            parser = EmailParser(
                max_attachments=self.max_attachments,
                max_depth=self.max_depth - 1,
                max_attachment_bytes=self.max_attachment_bytes,
                max_file_bytes=self.max_file_bytes,
            )
        return await parser.parse(content, name)

    def _opened(self, file: bytes | str | Path, filename: str) -> tuple[Section, list[tuple[str, str, bytes]]]:
        data = read_bytes(file, filename, self.max_file_bytes)
        with parse_errors(filename, self.format_name):
            message = email.message_from_bytes(data, policy=email.policy.default)
            if not message.keys():
                raise ParseError(f"{filename}: this is no e-mail message; it has no header fields")
            body = _body(message)
            fields = {name: _header(message, name) for name in _HEADERS}
            lines = [f"{name}: {value}" for name, value in fields.items() if value]
            metadata = {"title": fields["Subject"]} if fields["Subject"] else {}
            section = text_section("\n".join(lines) + f"\n\n{body}".rstrip(), filename, **metadata)
            return section, _attachments(message)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, IndexError, AttributeError, TypeError):  # the header parser of email trips over damaged values
        raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
        return " ".join(str(raw).split())


def _body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    text = _text(part)
    return html_to_markdown(text)[1] if part.get_content_type() == "text/html" else text


def _text(part: Any) -> str:
    payload = part.get_payload(decode=True) or b""
    try:
        return decode(payload, "body", declared=part.get_content_charset()).strip() if payload else ""
    except ParseError:  # damaged bytes: the headers and attachments are worth reading all the same
        return str(payload.decode("utf-8", "replace").replace("\x00", "").strip())


def _attachments(message: EmailMessage) -> list[tuple[str, str, bytes]]:
    found: list[tuple[str, str, bytes]] = []
    body = message.get_body(preferencelist=("plain", "html"))
    for number, part in enumerate(_leaves(message), start=1):
        kind = part.get_content_type()
        is_alternative = part.get_content_disposition() != "attachment" and kind in ("text/plain", "text/html")
        if part is body or (is_alternative and not part.get_filename()):
            continue
        if kind == "message/rfc822":
            inner = part.get_payload(0) if part.is_multipart() else None
            content = bytes(inner) if inner is not None else b""
        else:
            content = part.get_payload(decode=True) or b""
        found.append((part.get_filename() or f"attachment-{number}", kind, content))
    return found


def _leaves(message: Any) -> list[Any]:
    """Parts that are no container; an attached message counts as one part."""
    if message.get_content_type() == "message/rfc822" or not message.is_multipart():
        return [message]
    return [leaf for part in message.get_payload() for leaf in _leaves(part)]
