"""Bytes to text: BOM, strict UTF-8, the declared charset, then a detector. The locale is never asked."""

from __future__ import annotations

import codecs
import re

from ...errors import ConfigurationError, ParseError
from ..sniff import detect
from .charset import guess_charset

_BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]
# What a label is really read as, by the WHATWG Encoding Standard: each is a superset of the named charset.
_SUPERSETS = {
    "gb2312": "gb18030", "gbk": "gb18030", "gb_2312-80": "gb18030", "x-gbk": "gb18030",
    "iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
    "iso-8859-9": "cp1254", "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932", "sjis": "cp932",
    "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "big5": "big5hkscs", "tis-620": "cp874", "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic", "macintosh": "mac_roman", "x-user-defined": "cp1252",
}  # fmt: skip
# Codecs of Python that are no charset of a text: its escapes, and the locale's on Windows.
_NO_CHARSETS = ("unicode-escape", "raw-unicode-escape", "mbcs", "oem")
_UTF32 = ("utf-32-le", "utf-32-be")
_UTF16 = ("utf-16-le", "utf-16-be")
_USUAL = re.compile(
    "[\t\n\r\x20-\x7e\xa0-\u024f\u0370-\u03ff\u0400-\u04ff\u0590-\u06ff\u0900-\u0dff\u0e00-\u0e7f\u2010-\u203a\u20a0-\u20bf"
    "\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef\U0001f300-\U0001faff]"
)
_PROSE_SIGNS = re.compile("[\\u3001\\u3002\\uff0c\\uff01\\uff1a\\uff1f\\u3040-\\u30ff\\n ]")
_SAMPLE = 64 * 1024
_MOST_OTHERS = 0.8
"""Share of lines beyond ASCII that are no UTF-8; in one other charset hardly a line is."""
# Texts of two characters and more, each ended by a NUL, as `find -print0` and /proc write them; wide text has one every
# second byte.
_NULS_BETWEEN = re.compile(r"(?:[^\0]{2,}+\0){2,}+[^\0]*\Z")
_ESCAPE_CODED = re.compile(rb"\x1b(?:\$[@AB]|\$\(|\([BJ]|\$\)C)")


def check_encoding(encoding: str) -> str:
    """Raises: ConfigurationError: Python knows no such codec of text."""
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise ConfigurationError(f"unknown encoding {encoding!r}; use a name such as 'utf-8' or 'cp1252'") from error


def decode(data: bytes, filename: str, *, encoding: str | None = None, declared: str | None = None) -> str:
    """The text of a file, without a leading U+FEFF and NULs (between texts they are line ends), with ``\\n`` line ends.

    Args:
        encoding: Decides alone when given.
        declared: Charset that the file or its transport names; a wrong one is passed over.

    Raises: ParseError: the bytes are not text in `encoding`, or not text at all.
    """
    text = _decode_as(data, encoding, filename) if encoding else _detect(data, filename, declared)
    text = text.removeprefix("\ufeff")
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def in_utf8(data: bytes, charset: str) -> bytes:
    """Text in the charset that a server named, as UTF-8 with a BOM, which any parser believes more than what the file
    says of itself. What is no text, is UTF-8 already, names its charset by a BOM or is not in `charset` stays as it is.
    """
    if any(data.startswith(bom) for bom, _ in _BOMS) or detect(data).certain != "text":
        return data
    if _strict(data, "utf-8") is not None:
        return data
    text = _as_declared(data, charset)
    return data if text is None else text.encode("utf-8-sig", "replace")


def _decode_as(data: bytes, encoding: str, filename: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ParseError(
            f"{filename}: byte {error.start} is not {encoding} ({error.reason}); "
            "leave encoding out to have it detected, or name the right one"
        ) from error


def _detect(data: bytes, filename: str, declared: str | None) -> str:
    for bom, codec in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(codec, "replace")
    if b"\x00" in data:
        return _with_nuls(data, filename)
    if b"\x1b" in data and (text := _escape_coded(data)) is not None:
        return text
    text = _strict(data, "utf-8")
    if text is None and declared:
        text = _as_declared(data, declared)
    if text is None:
        text = _mostly_utf8(data)
    if text is None:
        text = _line_by_line(data)
    return _guess(data, filename) if text is None else text


def _as_declared(data: bytes, charset: str) -> str | None:
    """The text in a charset that somebody named; None where it is not in it, or there is no such charset."""
    codec = _SUPERSETS.get(charset.lower(), charset)
    try:
        known = codecs.lookup(codec).name not in _NO_CHARSETS
    except (LookupError, ValueError):
        return None
    return _strict(data, codec) if known else None


def _strict(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec)
    except (LookupError, ValueError):  # some codecs raise UnicodeError itself
        return None


def _with_nuls(data: bytes, filename: str) -> str:
    """UTF-16 or UTF-32 without a BOM, whichever reads as text; else UTF-8 with NULs that end records or are strays."""
    zeros = data[:_SAMPLE].count(0) / len(data[:_SAMPLE])
    text = _strict(data, "utf-8")
    if text is not None and _NULS_BETWEEN.match(text[:_SAMPLE]) and not _is_binary(text):
        return text.replace("\x00", "\n")
    if zeros < 0.02 and text is not None and not _is_binary(text):
        return text
    if (wide := _wide(data)) is not None:
        return wide
    if text is None or _is_binary(text) or zeros > 0.3:
        raise ParseError(f"{filename}: the content is binary data, not text")
    return text


def _wide(data: bytes) -> str | None:
    sample = data[:_SAMPLE]
    codecs_to_try = (*_UTF32, *_UTF16) if sample.count(0) > 0.4 * len(sample) and len(data) % 4 == 0 else _UTF16
    usual = {codec: _share_of_usual(_strict(_even(sample, codec), codec)) for codec in codecs_to_try}
    best = max(usual, key=lambda codec: usual[codec])
    return data[: len(data) // 2 * 2].decode(best, "replace") if usual[best] > 0.8 else None


def _even(sample: bytes, codec: str) -> bytes:
    """The sample without a cut character at its end (a surrogate pair cut in two is dropped whole)."""
    unit = 4 if "32" in codec else 2
    sample = sample[: len(sample) // unit * unit]
    high = sample[-1:] if codec.endswith("le") else sample[-2:-1]
    return sample[:-2] if unit == 2 and high and 0xD8 <= high[0] <= 0xDB else sample


def _share_of_usual(text: str | None) -> float:
    """Share of characters of the scripts in wide use; a wrong byte order gives private and unassigned ones."""
    return len(_USUAL.findall(text)) / len(text) if text else 0.0


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE]
    odd = sum(1 for c in sample if (c < " " and c not in "\t\n\r\f\x1b\x08\x00") or "\ufdd0" <= c <= "\ufdef")
    return odd > len(sample) // 50


def _escape_coded(data: bytes) -> str | None:
    if not _ESCAPE_CODED.search(data):
        return None  # colour codes of a terminal log
    for codec in ("iso2022_kr",) if b"\x1b$)C" in data else ("iso2022_jp_2", "iso2022_jp_ext"):
        if (text := _strict(data, codec)) is not None:
            return text
    return None


def _mostly_utf8(data: bytes) -> str | None:
    """UTF-8 with a few broken bytes (a cut, a patch): better than reading the whole file as something else."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    good = sum(1 for c in text[:_SAMPLE] if c > "\x7f" and c != "\ufffd")
    return text if good > 10 * broken else None


def _line_by_line(data: bytes) -> str | None:
    """A log that programs of two charsets write to: each line in UTF-8 where it is that, else in the other one."""
    lines = data.split(b"\n")
    beyond = [line for line in lines if not line.isascii()]
    others = [line for line in beyond if _strict(line, "utf-8") is None]
    if len(others) > _MOST_OTHERS * len(beyond) or _is_binary(data[:_SAMPLE].decode("latin-1")):
        return None
    codec = guess_charset(_sample(b"\n".join(others)))
    decoded = (line.decode("utf-8") if _is_utf8(line) else line.decode(codec, "replace") for line in lines)
    return "\n".join(decoded)


def _is_utf8(line: bytes) -> bool:
    return line.isascii() or _strict(line, "utf-8") is not None


def _guess(data: bytes, filename: str) -> str:
    sample = _sample(data)
    if _is_binary(sample.decode("latin-1")):
        if (wide := _wide(data)) is not None and _PROSE_SIGNS.search(wide[:_SAMPLE]):
            return wide
        raise ParseError(f"{filename}: the content is binary data, not text")
    codec = guess_charset(sample)
    return data.decode(_SUPERSETS.get(codec.replace("_", "-"), _SUPERSETS.get(codec, codec)), "replace")


def _sample(data: bytes) -> bytes:
    """Up to 64 KB from the first line with a byte above 127, cut at line ends."""
    if len(data) <= _SAMPLE:
        return data
    first = re.search(rb"[\x80-\xff]", data)
    start = data.rfind(b"\n", 0, first.start() if first else 0) + 1
    piece = data[start : start + _SAMPLE]
    return piece[: piece.rfind(b"\n") + 1] or piece
