"""Outlook messages (.msg) with their attachments."""

from __future__ import annotations

import email.parser
import io
import logging
import struct
from collections.abc import Iterator
from typing import ClassVar

from ...documents import Section
from ...errors import ParseError
from .. import sniff
from .email import EmailParser
from .message import HEADERS, Attachment, Contents, Opened, Text, html_text, opened, richest
from .mime import headers_of
from .outlook import Storage, uncompressed_rtf

logger = logging.getLogger(__name__)

_SUBJECT, _BODY, _HTML, _RTF, _TRANSPORT_HEADERS = 0x0037, 0x1000, 0x1013, 0x1009, 0x007D
_SENDER_NAME, _SENT_FOR_NAME, _SENDER_SMTP, _SENDER_ADDRESS = 0x0C1A, 0x0042, 0x5D01, 0x0C1F
_SUBMITTED, _DELIVERED = 0x0039, 0x0E06
_DISPLAY_NAME, _ADDRESS, _SMTP_ADDRESS, _RECIPIENT_KIND = 0x3001, 0x3003, 0x39FE, 0x0C15
_LONG_NAME, _SHORT_NAME, _PATH, _MIME_TYPE, _METHOD, _DATA = 0x3707, 0x3704, 0x370D, 0x370E, 0x3705, 0x3701
_BY_REFERENCE, _OLE_OBJECT = (2, 3, 4, 7), 6
_MAX_NAMED = 20


class MSGParser(EmailParser):
    """As `EmailParser`: a Section with the headers and the body, then the Sections of each attachment.

    A message of the Internet (RFC 5322) that is only called .msg is read as such.
    """

    format_name = "Outlook message"
    supported_media_types: ClassVar[list[str]] = [sniff.MSG]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".msg"]

    def open(self, data: bytes, filename: str) -> Opened:
        import olefile

        kind = sniff.detect(data).media_type
        if kind == "message/rfc822":
            return super().open(data, filename)
        if kind != sniff.MSG:
            raise ParseError(f"{filename}: this is no Outlook message")
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            return self._message(Storage(ole), filename, depth=0)

    def _message(self, message: Storage, filename: str, *, depth: int) -> Opened:
        contents = Contents(texts=_texts(message, filename))
        for number, item in enumerate(message.folders("__attach_version1.0_#"), start=1):
            name = item.text(_LONG_NAME, _SHORT_NAME, _DISPLAY_NAME) or f"attachment-{number}"
            reason = self._reason_to_skip(item, number, depth)
            if not reason:
                contents.attachments.append(self._attachment(item, name, filename, depth))
            elif number <= self.max_attachments + _MAX_NAMED:
                contents.skipped.append(f"{name}: {reason}")
            else:
                contents.skipped.append(f"and more: {reason}")
                break
        return opened(_headers(message), contents, filename)

    def _reason_to_skip(self, item: Storage, number: int, depth: int) -> str:
        method = item.number(_METHOD)
        if number > self.max_attachments:
            return f"more than max_attachments={self.max_attachments}"
        if method in _BY_REFERENCE:
            return f"it is not in the message, only its address {item.text(_PATH, _SHORT_NAME)!r}"
        if method == _OLE_OBJECT:
            return "it is an OLE object, which has no parser"
        if next(item.folders("__substg1.0_3701000D"), None) is not None:
            too_deep = depth >= self.max_depth
            return f"messages inside messages go deeper than max_depth={self.max_depth}" if too_deep else ""
        return "" if item.binary(_DATA) else "it has no content"

    def _attachment(self, item: Storage, name: str, filename: str, depth: int) -> Attachment:
        for inner in item.folders("__substg1.0_3701000D"):
            return Attachment(name, message=self._message(inner, filename, depth=depth + 1))
        return Attachment(name, item.text(_MIME_TYPE), item.binary(_DATA))


def _headers(message: Storage) -> dict[str, str]:
    """From the message's properties, and before them what it came with over the Internet."""
    sender = _person(message.text(_SENDER_NAME, _SENT_FOR_NAME), message.text(_SENDER_SMTP, _SENDER_ADDRESS))
    to, copies = (", ".join(_recipients(message, kind)) for kind in (1, 2))
    date = message.date(_SUBMITTED, _DELIVERED)
    own = {"From": sender, "To": to, "Cc": copies, "Date": date, "Subject": message.text(_SUBJECT)}
    came_with = headers_of(email.parser.HeaderParser().parsestr(message.text(_TRANSPORT_HEADERS)))
    preferred = {"Subject": own["Subject"]} if own["Subject"] else {}
    return {name: preferred.get(name) or came_with[name] or " ".join(own[name].split()) for name in HEADERS}


def _recipients(message: Storage, kind: int) -> Iterator[str]:
    for item in message.folders("__recip_version1.0_#"):
        if (item.number(_RECIPIENT_KIND) or 1) & 0xF == kind:
            yield _person(item.text(_DISPLAY_NAME), item.text(_SMTP_ADDRESS, _ADDRESS))


def _person(name: str, address: str) -> str:
    """An address of Exchange (/O=...) says nothing to a reader."""
    if not address or address.startswith("/") or address == name:
        return name or address
    return f"{name} <{address}>" if name else address


def _texts(message: Storage, filename: str) -> list[Text]:
    """The body: the richer of plain text and HTML; from RTF where there is neither."""
    html = message.page(_HTML) or message.text(_HTML)
    alternatives = [[Text(message.text(_BODY))], [html_text(html)] if html else []]
    if not any(piece.text for texts in alternatives for piece in texts):
        return _rtf_texts(message.binary(_RTF), filename)
    return richest(alternatives)[0]


def _rtf_texts(compressed: bytes, filename: str) -> list[Text]:
    from ..office.rtf import RTFParser

    if not compressed:
        return []
    try:
        sections: list[Section] = RTFParser(include_image=False).read(uncompressed_rtf(compressed), filename)
    except (ParseError, struct.error) as error:
        logger.warning("%s: the body in RTF cannot be read: %s", filename, error)
        return []
    return [Text(section.text) for section in sections]
