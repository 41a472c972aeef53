"""Files inside a Word document that Word shows as a part of it (altChunk): HTML, plain text, e-mail, Word, RTF."""

from __future__ import annotations

import email
import email.policy
import logging
from collections.abc import Iterator

from ...errors import ParseError
from .. import sniff
from ..blocks import Block, Image, Paragraph
from ..file import parse_errors
from ..text.encoding import decode
from .ooxml import Package
from .word_document import DocumentReader

logger = logging.getLogger(__name__)

_MAX_DEPTH = 3


def embedded_blocks(reader: DocumentReader, part: str) -> Iterator[Block]:
    """The blocks of the part; a part that cannot be read is logged, and costs the document nothing else."""
    package = reader.package
    data = package.read(part)
    kind = _kind(package, part, data)
    try:
        with parse_errors(part, "embedded document"):
            yield from _blocks(reader, data, kind, part)
    except ParseError as error:
        logger.warning("%s: an embedded part is skipped: %s", package.filename, error)


def _blocks(reader: DocumentReader, data: bytes, kind: str, part: str) -> Iterator[Block]:
    if kind == sniff.DOCX:
        yield from _word(reader, data)
    elif kind == "message/rfc822":
        yield from _mht(data, part)
    elif kind in ("text/html", "application/xhtml+xml"):
        yield from html_blocks(decode(data, part))
    elif kind == sniff.RTF:
        from .rtf_reader import RTFReader

        yield from (block for block in RTFReader(data).blocks() if not isinstance(block, Image))
    else:
        yield from _lines(decode(data, part))


def _kind(package: Package, part: str, data: bytes) -> str:
    detected = sniff.detect(data)
    if detected.certain == "magic" or detected.media_type in ("text/html", "message/rfc822"):
        return detected.media_type
    declared = package.content_type(part).partition(";")[0].strip().lower()
    return declared if declared.startswith("text/") or declared.endswith("xhtml+xml") else detected.media_type


def _word(reader: DocumentReader, data: bytes) -> Iterator[Block]:
    if reader.depth >= _MAX_DEPTH:
        raise ParseError(f"documents inside documents go deeper than {_MAX_DEPTH}")
    package = reader.package.nested(data, expected=sniff.DOCX)
    inner = DocumentReader(
        package,
        include_image=reader.include_image,
        include_notes=reader.include_notes,
        include_comments=reader.include_comments,
        table_format=reader.table_format,
        embedded=embedded_blocks,
        depth=reader.depth + 1,
    )
    for block in inner.body():
        yield _with_own_image(reader, package, block) if isinstance(block, Image) else block


def _with_own_image(reader: DocumentReader, package: Package, image: Image) -> Image:
    """The image under a name by which the outer package finds it."""
    return Image(reader.package.adopt_image(package, image.part), image.alt)


def _mht(data: bytes, part: str) -> Iterator[Block]:
    """A web page saved with its images: an e-mail message whose body is HTML."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    for item in message.walk():
        if item.get_content_type() in ("text/html", "text/plain"):
            payload = item.get_payload(decode=True)
            text = decode(payload, part, declared=item.get_content_charset()) if isinstance(payload, bytes) else ""
            yield from html_blocks(text) if item.get_content_type() == "text/html" else _lines(text)
            return


def html_blocks(text: str) -> Iterator[Block]:
    """A page as paragraphs, its headings with their levels; tables are Markdown already."""
    from ..web.html import html_to_markdown

    _, markdown, headings = html_to_markdown(text)
    position = 0
    for heading in headings:
        yield from _lines(markdown[position : heading.offset])
        end = markdown.find("\n", heading.offset)
        position = len(markdown) if end < 0 else end + 1
        yield Paragraph(heading.title, heading.level)
    yield from _lines(markdown[position:])


def _lines(text: str) -> Iterator[Block]:
    if text.strip():
        yield Paragraph(text.strip("\n").rstrip())
