"""Putting text that strangers wrote into a prompt: inside a fence, and unable to leave it.

What documents, file names and metadata say is data. The fence's name is random, so that nothing stored can close it;
`clean` therefore leaves text as it is, byte for byte, but for what imitates: a fence of ours, a citation header of
ours, a control token of a chat template, and characters that cannot be seen.
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata

# Zero-width, bidirectional and control characters, the invisible tag letters (U+E0000) that smuggle ASCII, and the
# variation selectors beyond emoji's. Not form feeds and vertical tabs, which source code has.
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
# Joiners shape Persian, Indic scripts and emoji; beside anything of ASCII they only hide.
_JOINER = re.compile("(?:(?<=[\\x00-\\x7f])|(?<![\\s\\S]))[\u200c\u200d]+|[\u200c\u200d]+(?=[\\x00-\\x7f]|$)")
_LONE_RETURN = re.compile(r"\r(?!\n)")

# Control tokens of chat templates (ChatML, Llama, Gemma, Phi, DeepSeek, Mistral, Qwen, Command, GLM, Granite) and of
# the harnesses that write their own notes into prompts.
_TAG_NAMES = (
    r"s|bos|eos|pad|unk|start_of_turn|end_of_turn|start_of_image|think|thinking|tool_calls?|tool_responses?|"
    r"tool_outputs?|function_calls?|function_results?|function_response|available_tools|system-reminder|sop|eop|"
    r"gmask|BOS_TOKEN|EOS_TOKEN|EOT|antml:[a-z_]+"
)
# Not "<|" alone, which is an operator in F# and Haskell.
_TEMPLATE = re.compile(rf"<(?=/?(?:{_TAG_NAMES})\s*/?>|/?\|[\w\u2581/.:@-]{{1,60}}\|?>)", re.IGNORECASE)
_FENCE_TAG = re.compile(r"<(?=\s*/?\s*(?:retrieved\b|(?:candidate|query)-[0-9a-f]{16}))", re.IGNORECASE)
_BRACKET_TOKEN = re.compile(
    r"\[(?=\s*/?\s*(?:INST|SYS|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|ARGS|CALL_ID|"
    r"gMASK)\s*\])"
)
_SYS_TOKEN = re.compile(r"<<(?=\s*/?\s*SYS\s*>>)")
# How templates without control tokens (Anthropic's completions, Vicuna, Alpaca) begin a turn: at the start of a line,
# with a capital, and words behind it. YAML's "user: root" and "User:" above a block are none.
_TURN_LINE = re.compile(
    r"^(?=#{0,6}[ \t]*(?:Human|Assistant|System|User|Developer|HUMAN|ASSISTANT|SYSTEM|USER|DEVELOPER):[ \t]*\S)",
    re.MULTILINE,
)
_HEADER = re.compile(
    # An opening bracket, a number that may be emphasised or escaped, a closing one, and "(source:" behind a little
    # else; without the colon only behind a blank, since calls[0](source, x) is code.
    r"[\[({<\u3010\u27e6\u3014\u300c\u2045]+[\s*_~`^#\\]*(\d{1,9})[\s*_~`\\]*[\])}>\u3011\u27e7\u3015\u300d\u2046]+"
    r"(?:[\s*_~`:.,;=|>\\\u2013\u2014-]{0,16}[(\[{][\s*_~`\\]*sources?(?=[\s*_~`\\]*:)"
    r"|[*_~`:.,;=|>\\\u2013\u2014-]{0,8}\s[\s*_~`:.,;=|>\\\u2013\u2014-]{0,8}[(\[][\s*_~`\\]*sources?(?=\s*=|\s+\w))",
    re.IGNORECASE,
)
_OPENING = re.compile(r"<retrieved-[0-9a-f]{16}>\n")
FENCED = re.compile(r"<(retrieved-[0-9a-f]{16})>\n.*?</\1>", re.DOTALL)
"""A fenced part of a text, with its tags."""
_IMAGE = re.compile(r"!\[([^\]\n]*)\](?:\([^)\n]*\)|\[[^\]\n]*\])|<img\b[^>]*>", re.IGNORECASE)
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


def clean(text: str, *, images: bool = True) -> str:
    """`text` as harmless data of several lines. Changed is only what imitates, however it is written (full-width or
    mathematical letters, variation selectors, emphasis):

    * ``<`` before the name of a fence of ours, or of a chat template's control token: ``&lt;``
    * ``[INST]`` and its like: ``(INST)``
    * a citation header such as ``[7] (source: ...)``, ``**[7]** (source`` or ``[7]: (source``: ``(7) source: ...)``
    * a line such as ``Human: ...`` or ``### System: ...``, with which some templates begin a turn: quoted with ``> ``
    * characters that cannot be seen go; a lone carriage return is a line end.

    Args:
        images: Whether Markdown and HTML images stay; else only their words do. An answer that repeats one makes a
            front end load its address, which can carry data out.
    """
    text = visible(text)
    if not images:
        text = _IMAGE.sub(_words_of_image, text)
    return _neutralised(text)


def clean_inline(value: object, *, limit: int = 200) -> str:
    """A name or metadata value as harmless data on one line, at most `limit` characters; quoted where it has
    punctuation that a header uses."""
    text = _BLANKS.sub(" ", visible(str(value))).strip()
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = _neutralised(text)
    return json.dumps(text, ensure_ascii=False) if _NEEDS_QUOTES.search(text) else text


def visible(text: str) -> str:
    """`text` without characters that cannot be seen."""
    if "\r" in text:
        text = _LONE_RETURN.sub("\n", text)
    if text.isascii() and text.isprintable():
        return text
    text = _INVISIBLE.sub(_break, text)
    return _JOINER.sub("", text) if "\u200c" in text or "\u200d" in text else text


def _neutralised(text: str) -> str:
    """Imitations are looked for in the text as a reader takes it, and replaced where they stand in the text itself."""
    read, places = _as_read(text)
    changes = [(match.start(), match.end(), "&lt;") for match in _spans(_TEMPLATE, _FENCE_TAG, text=read)]
    changes += [(match.start(), match.end(), "&lt;&lt;") for match in _SYS_TOKEN.finditer(read)]
    for match in _BRACKET_TOKEN.finditer(read):
        end = read.index("]", match.end())
        changes += [(match.start(), match.end(), "("), (end, end + 1, ")")]
    changes += [(match.start(), match.end(), f"({match[1]}) source") for match in _HEADER.finditer(read)]
    changes += [(match.start(), match.end(), "> ") for match in _TURN_LINE.finditer(read)]
    parts, done = [], 0
    for start, end, instead in sorted(changes):
        if start >= done:
            parts += [text[places[done] : places[start]], instead]
            done = end
    return "".join([*parts, text[places[done] :]]) if parts else text


def _spans(*patterns: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Every match; two patterns never begin at one place."""
    return [match for pattern in patterns for match in pattern.finditer(text)]


def _as_read(text: str) -> tuple[str, range | list[int]]:
    """The text in compatibility form without variation selectors, joiners and accents, and where each of its
    characters stands in `text`, with the end."""
    if text.isascii():
        return text, range(len(text) + 1)
    characters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        plain = character if character < "\x80" else _plain(character)
        characters.append(plain)
        places += [place] * len(plain)
    return "".join(characters), [*places, len(text)]


def _plain(character: str) -> str:
    if character in _LOOKALIKES:
        return _LOOKALIKES[character]
    folded = unicodedata.normalize("NFKD", character)
    return "".join(one for one in folded if unicodedata.category(one) not in ("Mn", "Me", "Cf"))


# What looks like a letter of "source" or a bracket and has no compatibility form: Cyrillic, Greek, angle quotes.
_LOOKALIKES = {
    "\u0455": "s", "\u0405": "S", "\u043e": "o", "\u041e": "O", "\u03bf": "o", "\u039f": "O", "\u0443": "u",
    "\u03c5": "u", "\u0433": "r", "\u0441": "c", "\u0421": "C", "\u0435": "e", "\u0415": "E",
    "\u2039": "<", "\u203a": ">", "\u2329": "<", "\u232a": ">", "\u3008": "<", "\u3009": ">", "\u276e": "<",
    "\u276f": ">",
}  # fmt: skip


def _words_of_image(match: re.Match[str]) -> str:
    return f"(image: {match[1]})" if match[1] else "(image)"


def _break(match: re.Match[str]) -> str:
    """Unicode's own line and paragraph separators still separate; everything else was never there."""
    return "\n" if unicodedata.category(match[0]) in ("Zl", "Zp") else ""
