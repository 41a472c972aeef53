"""What a file says, by a way that none of the libraries goes: regular expressions over the raw markup."""

from __future__ import annotations

import html
import re
import zipfile
from pathlib import Path

_PARTS = {
    ".docx": (r"word/document\.xml", "w:p", "w:t", r"<w:(?:tab|br|cr)\b[^>]*>"),
    ".pptx": (r"ppt/slides/slide\d+\.xml", "a:p", "a:t", r"<a:br\b[^>]*>"),
    ".xlsx": (r"xl/(?:sharedStrings|worksheets/sheet\d+)\.xml", "(?:si|is)", "t", r"<rPh\b.*?</rPh>"),
}
"""Parts that hold the text, the element whose runs belong together, the runs, what separates words inside it."""


def office_text(path: Path) -> str:
    """The text runs of the main parts, those of a paragraph joined; fallback copies for old readers left out.

    Raises: zipfile.BadZipFile: an encrypted file.
    """
    parts, paragraph, run, separator = _PARTS[path.suffix]
    lines: list[str] = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(parts, name):
                xml = archive.read(name).decode("utf-8", "replace")
                xml = re.sub(r"(?s)<mc:Fallback\b.*?</mc:Fallback>", "", xml)
                xml = re.sub(f"(?s){separator}", f"<{run}> </{run}>", xml)
                lines += ["".join(re.findall(f"<{run}(?: [^>]*)?>([^<]*)", text)) for text in _split(xml, paragraph)]
    return html.unescape("\n".join(lines))


def _split(xml: str, paragraph: str) -> list[str]:
    """Also at the start of a paragraph: one can stand inside another, in a text box."""
    return re.split(f"</{paragraph}>|<{paragraph}(?: [^>]*)?>", xml)


def html_text(page: str, *, main: bool = False) -> str:
    """The text nodes of a page without scripts and styles.

    Args:
        main: Leave out the title and what is navigation: nav, and links, buttons and forms of header and footer.
    """
    page = re.sub(r"(?is)<(script|style)\b.*?</\1>|<!--.*?-->", " ", page)
    if main:
        page = re.sub(r"(?is)<(title|nav)\b.*?</\1>", " ", page)
        page = re.sub(r"(?is)<(header|footer)\b.*?</\1>", lambda margin: _without_links(margin[0]), page)
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def _without_links(markup: str) -> str:
    return re.sub(r"(?is)<(a|button|form)\b.*?</\1>", " ", markup)
