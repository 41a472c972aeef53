"""The walk through the parts of an Internet message (RFC 5322, MIME)."""

from __future__ import annotations

import email
import email.policy
import quopri
from email.header import decode_header, make_header
from email.message import Message
from typing import Any

from ..text.encoding import decode
from .message import HEADERS, Attachment, Contents, Text, html_text, plain_text, richest

_ATTACHED = ("message/rfc822", "message/global", "message/news")
_MAX_DEPTH = 50
_MAX_NAMED = 20
"""Attachments over the limit that are named; the rest is a number."""
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")


def parsed(data: bytes, filename: str) -> Message:
    """The message in a file; in UTF-16, and behind a byte order mark or blank lines, too.

    Under the policy compat32: the modern one parses the header fields of 50,000 parts in 12 s, this in one.
    """
    if data.startswith(_WIDE_BOMS) or b"\x00" in data[:4]:
        data = decode(data, filename).encode()
    return email.message_from_bytes(data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n"))


def headers_of(message: Message) -> dict[str, str]:
    """Those that are shown, on one line each; "" where there is none."""
    raw: dict[str, str] = {}
    for name, value in message.raw_items():
        raw.setdefault(name.lower(), _with_letters(str(value)))
    return {name: _header(name, raw[name.lower()]) if name.lower() in raw else "" for name in HEADERS}


def _header(name: str, value: str) -> str:
    try:
        value = str(email.policy.default.header_factory(name, value.replace("\r", "").replace("\n", "")))
    except (ValueError, IndexError, AttributeError, TypeError, LookupError):
        pass  # the header parser of email trips over damaged values: they stay as they stand
    return " ".join(value.split())


def _with_letters(value: str) -> str:
    """A header field with the eight-bit letters that it should not have, which email keeps as half surrogates."""
    if value.isascii():
        return value
    return plain_text(value.encode("utf-8", "surrogateescape"), None)


class PartReader:
    """Gathers every inline text of a message in its order, and what is attached.

    Args:
        max_attachments: Further ones are not decoded.
    """

    def __init__(self, max_attachments: int) -> None:
        self._max_attachments = max_attachments
        self._leaves = 0
        self._attachments = 0
        self._unnamed = 0

    def contents(self, message: Message) -> Contents:
        found = Contents()
        self._part(message, found, depth=0)
        if self._unnamed:
            found.skipped.append(f"and {self._unnamed:,} more: more than max_attachments={self._max_attachments}")
        return found

    def _part(self, part: Any, found: Contents, *, depth: int) -> None:
        kind = part.get_content_type()
        if depth > _MAX_DEPTH:
            found.left_out.append(f"parts inside parts deeper than {_MAX_DEPTH} are not read")
        elif kind.startswith("message/"):
            self._message(part, kind, found, depth)
        elif not part.is_multipart():
            self._leaf(part, kind, found, is_root=not depth)
        elif kind == "multipart/alternative":
            self._alternatives(part, found, depth)
        else:
            for inner in part.get_payload():
                self._part(inner, found, depth=depth + 1)

    def _leaf(self, part: Any, kind: str, found: Contents, *, is_root: bool) -> None:
        self._leaves += 1
        if not _is_inline_text(part, kind, is_root):
            self._attach(part, kind, found)
        elif kind in ("text/html", "text/x-amp-html"):
            found.texts.append(html_text(_text(part)))
        else:
            found.texts.append(Text(_text(part)))

    def _alternatives(self, part: Any, found: Contents, depth: int) -> None:
        readings: list[Contents] = []
        for inner in part.get_payload():
            reading = Contents()
            self._part(inner, reading, depth=depth + 1)
            readings.append(reading)
        texts, left_out = richest([reading.texts for reading in readings])
        found.texts += texts
        found.left_out += left_out
        for reading in readings:
            found.attachments += reading.attachments
            found.skipped += reading.skipped
            found.left_out += reading.left_out

    def _message(self, part: Any, kind: str, found: Contents, depth: int) -> None:
        if kind in _ATTACHED:
            self._leaves += 1
            self._attach(part, kind, found)
        elif kind == "message/external-body":
            where = part.get_param("url") or part.get_param("name") or part.get_param("access-type") or "elsewhere"
            found.left_out.append(f"a part is not in the message itself: {where}")
        elif not part.is_multipart():
            found.texts.append(Text(_text(part)))
        else:  # reports: blocks of header fields; a part of a message: the headers and the text of that part
            self._leaves += 1
            if kind == "message/partial":
                number, total = part.get_param("number") or "?", part.get_param("total") or "?"
                found.left_out.append(f"this is part {number} of {total} of a message; the others are in other files")
            for block in part.get_payload():
                fields = [f"{name}: {_header(name, _with_letters(str(value)))}" for name, value in block.raw_items()]
                found.texts.append(Text("\n".join(fields)))
                self._part(block, found, depth=depth + 1)

    def _attach(self, part: Any, kind: str, found: Contents) -> None:
        self._attachments += 1
        over = self._attachments - self._max_attachments
        if over > _MAX_NAMED:
            self._unnamed += 1
            return
        name = _name(part) or f"attachment-{self._leaves}"
        if over > 0:
            found.skipped.append(f"{name}: more than max_attachments={self._max_attachments}")
        else:
            content = _message_bytes(part) if kind in _ATTACHED else part.get_payload(decode=True) or b""
            found.attachments.append(Attachment(name, kind, content))


def _is_inline_text(part: Any, kind: str, is_root: bool) -> bool:
    if kind not in ("text/plain", "text/html", "text/x-amp-html", "text/enriched", "text/rfc822-headers"):
        return False
    if part.get_content_disposition() == "attachment":
        return False
    return is_root or not _name(part)


def _name(part: Any) -> str:
    """The file name of a part; "" where it has none."""
    for field, value in list(part.raw_items()):
        if field.lower() in ("content-disposition", "content-type") and not str(value).isascii():
            part.replace_header(field, _with_letters(str(value)))
    try:
        return str(make_header(decode_header(part.get_filename() or "")))
    except (ValueError, IndexError, AttributeError, TypeError, LookupError):  # damaged
        return ""


def _text(part: Any) -> str:
    return plain_text(part.get_payload(decode=True) or b"", part.get_content_charset())


def _message_bytes(part: Any) -> bytes:
    """An attached message as a file. RFC 2046 forbids to encode one; some programs do all the same."""
    inner = part.get_payload(0) if part.is_multipart() else None
    if inner is None:
        return part.get_payload(decode=True) or b""
    encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    if encoding == "base64" and not inner.keys():
        inner["Content-Transfer-Encoding"] = encoding
        return inner.get_payload(decode=True) or b""
    content: bytes = inner.as_bytes()
    return quopri.decodestring(content) if encoding == "quoted-printable" else content
