"""Putting text that strangers wrote into a prompt: inside a fence, and unable to leave it.

What documents, file names and metadata say is data. `clean` takes from it what could end the fence, pass for one of our
own citation headers, or be read as the start of another role; the words stay readable.
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata

# Zero-width, bidirectional and control characters, the invisible tag letters (U+E0000) that smuggle ASCII, and the
# variation selectors beyond emoji's.
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
# Joiners shape Persian, Indic scripts and emoji; beside anything of ASCII they only hide.
_JOINER = re.compile("(?:(?<=[\\x00-\\x7f])|(?<![\\s\\S]))[\u200c\u200d]+|[\u200c\u200d]+(?=[\\x00-\\x7f]|$)")
_TAG = re.compile(r"[<\uff1c\ufe64](?=[A-Za-z/!?|<\uff5c])")
_TEMPLATE_TOKEN = re.compile(r"\[(/?(?:INST|SYS|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS))\]")
_HEADER = re.compile(
    r"[\[\uff3b\u3010\u27e6\u3014(]\s*(\d+)\s*[\]\uff3d\u3011\u27e7\u3015)]\s*[(\uff08]\s*source", re.IGNORECASE
)
_ROLE = re.compile(
    r"^(?=[ \t]*(?:#{1,6}[ \t]*)?(?:system|developer|human|user|assistant|tool|instruction|response)[ \t]*[:\uff1a])",
    re.IGNORECASE | re.MULTILINE,
)
_OPENING = re.compile(r"<retrieved-[0-9a-f]{16}>\n")
_NEEDS_QUOTES = re.compile(r"[()\[\]\",;:\uff08\uff09]")
_BLANKS = re.compile(r"\s+")


class Fence:
    """A pair of tags whose name nobody can guess; make a new one for each text that is put into a prompt."""

    def __init__(self, kind: str = "retrieved") -> None:
        self.name = f"{kind}-{secrets.token_hex(8)}"

    @property
    def opening(self) -> str:
        return f"<{self.name}>"

    @property
    def closing(self) -> str:
        return f"</{self.name}>"

    def wrap(self, text: str) -> str:
        """`text`, already cleaned, between the two tags on lines of their own."""
        return f"{self.opening}\n{text}\n{self.closing}"


def is_fenced(text: str) -> bool:
    """Whether `text` begins with a fence of the default kind."""
    return _OPENING.match(text) is not None


def clean(text: str) -> str:
    """`text` as harmless data of several lines.

    Invisible characters go; ``<`` that starts a tag becomes ``&lt;``; chat-template tokens lose their brackets; what
    looks like our header ``[7] (source: ...)`` becomes ``(7) source: ...)``; a line that starts like another role is
    quoted.
    """
    text = visible(text)
    text = _TAG.sub("&lt;", text)
    text = _TEMPLATE_TOKEN.sub(r"(\1)", text)
    text = _HEADER.sub(r"(\1) source", text)
    return _ROLE.sub("> ", text)


def clean_inline(value: object, *, limit: int = 200) -> str:
    """A name or metadata value as harmless data on one line, at most `limit` characters; quoted where it has
    punctuation that a header uses."""
    text = _BLANKS.sub(" ", visible(str(value))).strip()
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = _HEADER.sub(r"(\1) source", _TEMPLATE_TOKEN.sub(r"(\1)", _TAG.sub("&lt;", text)))
    return json.dumps(text, ensure_ascii=False) if _NEEDS_QUOTES.search(text) else text


def visible(text: str) -> str:
    """`text` without characters that cannot be seen. Line ends are ``\\n``."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.isprintable():
        return text
    text = _INVISIBLE.sub(_break, text)
    return _JOINER.sub("", text) if "\u200c" in text or "\u200d" in text else text


def _break(match: re.Match[str]) -> str:
    """Unicode's own line and paragraph separators still separate; everything else was never there."""
    return "\n" if unicodedata.category(match[0]) in ("Zl", "Zp") else ""
