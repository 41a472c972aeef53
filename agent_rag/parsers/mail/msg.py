"""Outlook messages (.msg) with their attachments. Needs the extra ``msg``."""

from __future__ import annotations

from email.utils import format_datetime
from pathlib import Path
from typing import Any, ClassVar

from ..._util.extras import needs
from ...documents import Section, text_section
from ...errors import ParseError
from .. import sniff
from ..file import parse_errors, read_bytes
from ..web.html import html_to_markdown
from .email import EmailParser


class MSGParser(EmailParser):
    """As `EmailParser`: a Section with the headers and the body, then the Sections of each attachment.

    A message inside the message is no file of its own and is listed under ``"skipped_attachments"``.
    """

    format_name = "Outlook message"
    supported_media_types: ClassVar[list[str]] = [sniff.MSG]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".msg"]

    def _opened(self, file: bytes | str | Path, filename: str) -> tuple[Section, list[tuple[str, str, bytes]]]:
        data = read_bytes(file, filename, self.max_file_bytes)
        library = needs("msg", "oxmsg", purpose=f"reading {filename}")
        with parse_errors(filename, self.format_name):
            if sniff.detect(data).media_type != sniff.MSG:
                raise ParseError(f"{filename}: this is no Outlook message")
            message = library.Message.load(data)
            fields = _fields(message)
            lines = [f"{name}: {value}" for name, value in fields.items() if value]
            metadata = {"title": fields["Subject"]} if fields["Subject"] else {}
            section = text_section("\n".join(lines) + f"\n\n{_body(message)}".rstrip(), filename, **metadata)
            return section, [_attachment(item, number) for number, item in enumerate(message.attachments, start=1)]


def _fields(message: Any) -> dict[str, str]:
    headers = {name.lower(): value for name, value in message.message_headers.items()}
    recipients = (f"{item.name} <{item.email_address}>" for item in message.recipients)
    date = headers.get("date") or (format_datetime(message.sent_date) if message.sent_date else "")
    values = {
        "From": message.sender or "",
        "To": headers.get("to") or ", ".join(recipients),
        "Cc": headers.get("cc") or "",
        "Date": date,
        "Subject": message.subject,
    }
    return {name: " ".join(str(value).split()) for name, value in values.items()}


def _body(message: Any) -> str:
    """The plain text, or the HTML as Markdown where there is none."""
    text = str(message.body or "").replace("\r\n", "\n").replace("\x00", "").strip()
    return text or html_to_markdown(message.html_body or "")[1]


def _attachment(item: Any, number: int) -> tuple[str, str, bytes]:
    name = item.file_name or f"attachment-{number}"
    return name, item.mime_type or "", (item.file_bytes or b"") if item.attached_by_value else b""
