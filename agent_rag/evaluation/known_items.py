"""Known items: titles and headings that are asked for, where there is no model that writes questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ..documents import Chunk
from ..retrieval.lexical import tokenize
from .matching import plain

_LEAST_WORDS, _LONGEST_TITLE = 2, 150
"""Of a title that is asked for: "Introduction" finds nothing in particular, a long one is a paragraph."""
_LEAST_QUOTE_WORDS, _LONGEST_QUOTE = 4, 200
_NUMBERING = re.compile(r"^(?:\d+(?:\.\d+)*[.):]?|[A-Z][.)])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")
_NO_SENTENCE = re.compile(r"^\s*(?:#{1,6}\s|\||```|<|[-=*_]{3,})")


def known_items(
    by_document: Sequence[Sequence[Chunk]],
) -> tuple[list[list[tuple[str, str, Chunk]]], dict[str, int]]:
    """For each document (title, quote, chunk) of what can be asked for, and why the rest cannot -> how many.

    A title that occurs twice, or is followed by what occurs twice, stands for no place.
    """
    proposals = [[(title, _following(chunk), chunk) for title, chunk in _titles(chunks)] for chunks in by_document]
    titles = Counter(plain(title) for row in proposals for title, _, _ in row)
    quotes = Counter(plain(quote) for row in proposals for _, quote, _ in row)
    rejected: Counter[str] = Counter()
    kept: list[list[tuple[str, str, Chunk]]] = []
    for row in proposals:
        kept.append([])
        for title, quote, chunk in row:
            if (why := _unfit(title, quote)) is None and (titles[plain(title)] > 1 or quotes[plain(quote)] > 1):
                why = "the title or what follows it occurs several times"
            if why is None:
                kept[-1].append((title, quote, chunk))
            else:
                rejected[why] += 1
    return kept, dict(rejected)


def _unfit(title: str, quote: str) -> str | None:
    if len(set(tokenize(title.lower()))) < _LEAST_WORDS:
        return "the title is one word"
    if len(title) > _LONGEST_TITLE:
        return f"the title is longer than {_LONGEST_TITLE} characters"
    return None if quote else "no sentence follows the title"


def _titles(chunks: Sequence[Chunk]) -> Iterator[tuple[str, Chunk]]:
    """Each heading of a document with the first chunk below it, and its title with its first chunk.

    A heading of one word is named with the one above it.
    """
    first = chunks[0]
    if first.title and not first.heading_path:
        yield first.title, first
    seen: set[tuple[str, ...]] = set()
    for chunk in chunks:
        path = tuple(_NUMBERING.sub("", title) for title in chunk.heading_path)
        if path and path not in seen:
            seen.add(path)
            short = len(set(tokenize(path[-1].lower()))) < _LEAST_WORDS and len(path) > 1
            yield f"{path[-2]}: {path[-1]}" if short else path[-1], chunk


def _following(chunk: Chunk) -> str:
    """The first sentence of a chunk that is no heading, table or markup, at most 200 characters; "" for none."""
    titles = {plain(title) for title in chunk.heading_path}
    for line in chunk.text.splitlines():
        text = line.strip()
        if _NO_SENTENCE.match(text) or plain(text) in titles or len(tokenize(text)) < _LEAST_QUOTE_WORDS:
            continue
        sentence = _SENTENCE_END.split(text, maxsplit=1)[0]
        return sentence if len(sentence) <= _LONGEST_QUOTE else sentence[:_LONGEST_QUOTE].rpartition(" ")[0]
    return ""
