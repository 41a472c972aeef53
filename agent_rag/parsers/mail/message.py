"""What a message holds, whatever file format it came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...documents import Heading, Section, text_section
from ...errors import ParseError
from ..text.encoding import decode
from ..web.html import html_to_markdown

HEADERS = ("From", "To", "Cc", "Date", "Subject")
_ADDRESS = re.compile(r"\b\w{1,20}://\S+|mailto:\S+")
_WORD = re.compile("[^\\W\u2e80-\uffef]+|[\u2e80-\uffef]")
"""A character each of the scripts that put no spaces between words."""
_STUB = 1 / 3
_REPEATED = 0.8


class Text(NamedTuple):
    """A piece of a message's text."""

    text: str
    headings: Sequence[Heading] = ()


@dataclass
class Attachment:
    """A file, or a message that is no file of its own, that came with a message."""

    name: str
    media_type: str = ""
    content: bytes = b""
    message: Opened | None = None


@dataclass
class Contents:
    """The parts of a message in their order."""

    texts: list[Text] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Attachments that are not read, ``name: reason``."""
    left_out: list[str] = field(default_factory=list)
    """Other parts that are not read, a sentence each."""


@dataclass
class Opened:
    """A message before its attachments are read."""

    first: Section
    attachments: list[Attachment]
    skipped: list[str]


def opened(headers: dict[str, str], contents: Contents, filename: str) -> Opened:
    """The Section of headers and text, and what is to follow it."""
    lines = [f"{name}: {headers[name]}" for name in HEADERS if headers.get(name)]
    text = "\n".join(lines)
    found: list[Heading] = []
    for piece in contents.texts:
        if piece.text:
            text += "\n\n" if text else ""
            found += [item.model_copy(update={"offset": item.offset + len(text)}) for item in piece.headings]
            text += piece.text
    metadata = {"title": headers["Subject"]} if headers.get("Subject") else {}
    first = text_section(text.rstrip(), filename, **metadata)
    first.headings, first.warnings = found, list(contents.left_out)
    return Opened(first, contents.attachments, contents.skipped)


def plain_text(payload: bytes, charset: str | None) -> str:
    """The text of a body. Damaged bytes cost themselves only: the rest of the message is worth reading."""
    try:
        return decode(payload, "body", declared=charset).strip() if payload else ""
    except ParseError:
        return payload.decode("utf-8", "replace").replace("\x00", "").strip()


def html_text(page: str) -> Text:
    """A body in HTML as Markdown."""
    _, markdown, headings = html_to_markdown(page)
    return Text(markdown, headings)


def richest(alternatives: Sequence[Sequence[Text]]) -> tuple[list[Text], list[str]]:
    """What to read of representations that claim to say the same: the one with the most words.

    What claims it wrongly is read too, in its place. One with far fewer words, such as "view in a browser", is not.

    Returns: the texts, and a sentence for each that is not read though the richest lacks some of its words.
    """
    words = [_words(texts) for texts in alternatives]
    best = max(words, key=len, default=set())
    kept: list[Text] = []
    left_out: list[str] = []
    chosen = False
    for texts, own in zip(alternatives, words, strict=True):
        if own is best and not chosen:
            chosen = True
            kept += texts
        elif len(own & best) < _REPEATED * len(own):
            if len(own) > _STUB * len(best):
                kept += texts
            else:
                left_out.append(
                    f"an alternative text of {len(own)} words is not read; the one that is read has {len(best)}"
                )
    return kept, left_out


def _words(texts: Iterable[Text]) -> set[str]:
    return {word for piece in texts for word in _WORD.findall(_ADDRESS.sub(" ", piece.text.casefold()))}
