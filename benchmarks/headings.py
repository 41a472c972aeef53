"""Headings of public files against independent readers: Markdown against markdown-it, HTML against lxml.

    python benchmarks/headings.py FOLDER [FOLDER ...]

Walks folders of installed packages (site-packages, node_modules, /usr/share/doc) and prints, by format, the files, the
headings, and each file whose headings differ.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import html
from markdown_it import MarkdownIt

from agent_rag.documents import Section
from agent_rag.errors import ParseError
from agent_rag.parsers import HTMLParser, MarkdownParser

MAX_FILES_PER_FOLDER = 100
MAX_BYTES = 300_000
_ANCHOR = re.compile(r"\s+\{#[\w:.-]+\}$")
_SIGNS = set("¶#§🔗⚓↑ \u200b")
Titles = list[tuple[int, str]]


def main() -> None:
    """Compare the files below the folders that are named."""
    roots = [Path(name) for name in sys.argv[1:]]
    for endings, parser, reference in (
        ((".md", ".markdown"), MarkdownParser(isolation="none"), of_markdown),
        ((".html", ".htm"), HTMLParser(isolation="none"), of_html),
    ):
        files = headings = differing = 0
        for path in files_of(roots, endings):
            try:
                (section,) = asyncio.run(parser.parse(path, path.name))
            except ParseError as error:
                print(f"not read: {error}")
                continue
            expected = reference(section.text if parser.format_name == "Markdown" else path.read_bytes())
            found = [(item.level, item.title) for item in section.headings]
            files, headings = files + 1, headings + len(expected)
            if _without_spaces(found) != _without_spaces(expected):
                differing += 1
                show(path, found, expected)
            check_offsets(path, section)
        print(f"{parser.format_name}: {files} files, {headings} headings, {differing} files differ")


def files_of(roots: list[Path], endings: tuple[str, ...]) -> Iterator[Path]:
    """Files of text with these endings, at most `MAX_FILES_PER_FOLDER` of one folder."""
    for root in roots:
        for name_of_folder, _, names in os.walk(root):
            folder = Path(name_of_folder)
            chosen = sorted(name for name in names if name.lower().endswith(endings))
            for name in chosen[:: max(1, len(chosen) // MAX_FILES_PER_FOLDER)][:MAX_FILES_PER_FOLDER]:
                path = folder / name
                if path.is_file() and 0 < path.stat().st_size < MAX_BYTES:
                    yield path


def of_markdown(text: str) -> Titles:
    """Headings among markdown-it's tokens, each read from its rendered HTML."""
    reader = MarkdownIt("commonmark").enable("table")
    references: dict[str, Any] = {}
    tokens = reader.parse(text, references)
    found: Titles = []
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            page = reader.renderer.render([inline], reader.options, references)
            found += [(int(opening.tag[1]), title) for title in [_title(html.fromstring(f"<p>{page}</p>"))] if title]
    return found


def of_html(data: bytes) -> Titles:
    """Headings of the tree that lxml builds, of the page's main part where it has one, without navigation, buttons
    and links that a heading has to itself."""
    tree = html.document_fromstring(data)
    dropped = tree.xpath(
        "//nav | //*[@role='navigation' or @role='search'] | //noscript | //template | //script | //style"
        " | //button[ancestor::h1 or ancestor::h2 or ancestor::h3 or ancestor::h4]"
    )
    signs = [
        link for link in tree.xpath("//a[starts-with(@href, '#')]") if set(_squeezed(link.text_content())) <= _SIGNS
    ]
    for element in [*dropped, *signs]:
        element.drop_tree()
    mains = [main for main in tree.xpath("//main | //*[@role='main']") if main.text_content().strip()]
    headings = [item for root in mains or [tree] for item in root.iter("h1", "h2", "h3", "h4", "h5", "h6")]
    found = [(int(item.tag[1]), title) for item in headings if (title := _title(item))]
    if mains and all(level > 1 for level, _ in found):  # the title above a main part without one
        found = [(1, title) for item in tree.iter("h1") if (title := _title(item))][:1] + found
    return found


def _title(element: Any) -> str:
    title = _squeezed(element.text_content())
    return _ANCHOR.sub("", title or _squeezed(" ".join(image.get("alt", "") for image in element.iter("img"))))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _without_spaces(titles: Titles) -> Titles:
    """A line break in a title is a space for one reader and nothing for the other."""
    return [(level, "".join(title.split())) for level, title in titles]


def check_offsets(path: Path, section: Section) -> None:
    """Raises: AssertionError: a heading does not stand at its offset."""
    for item in section.headings:
        line = section.text[item.offset :].split("\n", 1)[0]
        word = re.search(r"\w{3,}", item.title)
        written = re.sub(r"[`*_\\]", "", section.text[item.offset :][: len(line) + 400])
        assert word is None or word[0].replace("_", "") in written, (path, item)


def show(path: Path, found: Titles, expected: Titles) -> None:
    """The first headings that only one reader has."""
    print(path)
    print("   only here: ", [item for item in found if item not in expected][:4])
    print("   only there:", [item for item in expected if item not in found][:4])


if __name__ == "__main__":
    main()
