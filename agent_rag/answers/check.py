"""Checking an answer against the passages that it cites, without a model.

A sentence is supported when a sentence of a cited passage has its words in their order, up to a few others, and every
number, name, denial and word of time, order or size in it. That is what quotes and light edits do. Free words of a
model's own stay ``not_found``: nobody has looked for what they mean, which `judge_rest` lets a model do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeGuard

from .align import LEAST_COVERAGE, Alignment, Clause, Source, align
from .results import CheckedAnswer, Outcome, Quotable, Sentence, Support
from .sentences import MARKER, Piece, pieces, split
from .text import passage_text

_CANDIDATES = 3
_MOST_PARTS = 4
"""Sentences of passages that one sentence of an answer may be made of."""
_MOST_OF_A_PART = 0.95
"""Coverage by one sentence beyond which no second one is looked for."""
_LEAST_OF_BEST = 0.6
_LEAST_NEAR = 0.5
"""Coverage from which a sentence says nearly what the source says, so that a difference is one."""
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|[-=*_]{3,}\s*$|\|[\s:|-]*\|?\s*$)")
_ANSWER_PARTICLE = re.compile(r"^\W*(?:yes|no|ja|nein|是的|不是的)\s*[,:.,:：、，—-]\s*", re.IGNORECASE)
_NOTHING_FOUND = re.compile(
    r"\b(?:not (?:found|mentioned|stated|specified|in the (?:documents?|passages?|sources?|text))|"
    r"(?:could|can|do|does|did)(?: not|n[’']t) (?:find|say|mention|state|specify|know)|cannot (?:find|say)|"
    r"no (?:information|answer|passage|mention))\b|nicht (?:gefunden|genannt|erwähnt)|"
    r"keine (?:Angabe|Information|Antwort)|steht nicht in|没有(?:找到|提到|提及|说明)|未(?:找到|提及|提到|说明)",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"^\s*(?:[-*•+]\s+|\d{1,3}[.)]\s+|>\s*|#{1,6}\s+)")


def check_answer(text: str, citations: Iterable[Quotable]) -> CheckedAnswer:
    """Compare each sentence of an answer with the passages that it cites.

    Args:
        text: The answer, with markers such as ``[1]``.
        citations: What was shown, by number: `Turn.citations`, ``run.citations``, or anything with `number` and `text`.
            Citations that were stored with a conversation have no text, or only its beginning: what is not found in
            them is ``no_text``.

    Returns: Every sentence, in order. It never says "true": a passage can be wrong, and a sentence can leave out what
        matters.
    """
    shown = {citation.number: _Shown.of(citation) for citation in citations}
    return CheckedAnswer(sentences=tuple(_checked(piece, shown) for piece in pieces(text)))


@dataclass
class _Shown:
    """A passage with its sentences, cut when they are first wanted."""

    number: int
    text: str
    whole: bool
    context: str

    @classmethod
    def of(cls, citation: Quotable) -> _Shown:
        text, whole = passage_text(citation)
        context = " ".join([getattr(citation, "title", None) or "", *getattr(citation, "heading_path", ())])
        return cls(citation.number, text, whole, context)

    @property
    def sources(self) -> list[Source]:
        return [replace(source, number=self.number) for source in _sources(self.text, self.context)]


@lru_cache(maxsize=256)
def _sources(text: str, context: str) -> list[Source]:
    """The sentences of a passage; conversations cite the same ones again and again."""
    found: list[Source] = []
    before = Clause.of(context).keys
    for start, end in split(text):
        clause = Clause.of(text[start:end])
        found.append(Source(0, start, end, clause, before))
        before |= clause.keys
    return found


def _checked(piece: Piece, shown: dict[int, _Shown]) -> Sentence:
    claim = _claim(piece.text)
    unknown = tuple(number for number in piece.numbers if number not in shown)
    about: dict[str, Any] = {
        "text": piece.text,
        "start": piece.start,
        "end": piece.end,
        "numbers": piece.numbers,
        "never_shown": unknown,
    }
    if unknown:
        return Sentence(outcome="never_shown", **about)
    if _claims_nothing(piece, claim):
        return Sentence(outcome="no_claim", **about)
    asked = [shown[number] for number in piece.numbers or shown]
    outcome, support, differs = _compared(claim, [source for one in asked for source in one.sources])
    if not piece.numbers:
        support = support if outcome == "supported" else []
        outcome = "uncited"
    elif outcome != "supported" and not all(one.whole for one in asked):
        outcome, support = "no_text", []
    quotes = [_quote(source, shown[source.number].text) for source in support]
    return Sentence(outcome=outcome, support=tuple(quotes), differs=tuple(differs), **about)


def _claim(text: str) -> Clause:
    bare = _MARKUP.sub("", MARKER.sub(" ", text)).replace("&lt;", "<")
    return Clause.of(_ANSWER_PARTICLE.sub("", bare).replace("**", "").replace("__", ""))


def _claims_nothing(piece: Piece, claim: Clause) -> bool:
    text = piece.text.strip()
    if _HEADING.match(text) or text.rstrip('*_” "').endswith(("?", "？")) or not claim.keys:
        return True
    if piece.numbers and MARKER.search(text):
        return False
    aside = text.startswith(("(", "（")) and text.endswith((")", "）"))
    return aside or text.endswith((":", "：")) or len(claim.keys) < 2 or bool(_NOTHING_FOUND.search(text))


def _compared(claim: Clause, sources: Sequence[Source]) -> tuple[Outcome, list[Source], list[str]]:
    """The outcome, the sentences that say it or nearly this, and the words that differ."""
    best = _best(claim, sources)
    if best is None:
        return "not_found", [], []
    outcome, words = _judged(best)
    if outcome != "supported" and best.coverage < _MOST_OF_A_PART and (parts := _in_parts(claim, sources)):
        return "supported", parts, []
    return outcome, [] if outcome == "not_found" else [best.source], words


def _in_parts(claim: Clause, sources: Sequence[Source], most: int = _MOST_PARTS) -> list[Source]:
    """The sentences of which each says one part of a claim; empty where there are none."""
    for first, second in claim.halves():
        if not _may_be_said(first, sources) or not (most > 2 or _may_be_said(second, sources)):
            continue
        start = _best(first, sources)
        if not _says(start):
            continue
        others = [source for source in sources if source is not start.source]
        rest = _best(second, others)
        if _says(rest):
            return [start.source, rest.source]
        if most > 2 and (more := _in_parts(second, others, most - 1)):
            return [start.source, *more]
    return []


def _says(part: Alignment | None) -> TypeGuard[Alignment]:
    return part is not None and not part.too_short and _judged(part)[0] == "supported"


def _may_be_said(claim: Clause, sources: Sequence[Source]) -> bool:
    """Whether one sentence has enough of its words, so that a closer look is worth while."""
    return any(len(claim.keys & source.clause.keys) >= LEAST_COVERAGE * len(claim.keys) for source in sources)


def _judged(alignment: Alignment) -> tuple[Outcome, list[str]]:
    deciding = alignment.deciding
    words = [token.surface.lstrip("#") for token in deciding]
    kinds = {token.kind for token in deciding}
    if alignment.coverage < _LEAST_NEAR:
        return "not_found", []
    if alignment.denied:
        return "negation", words
    if "number" in kinds:
        return "number", words
    if "name" in kinds:
        return "name", words
    return "supported" if not deciding and alignment.covers else "not_found", words


def _best(claim: Clause, sources: Sequence[Source]) -> Alignment | None:
    """The alignment that leaves least open, of the few sentences that share most words."""
    shared = [(len(claim.keys & source.clause.keys), source) for source in sources]
    most = max((count for count, _ in shared), default=0)
    near = [pair for pair in shared if pair[0] > _LEAST_OF_BEST * most]
    ranked = sorted(near, key=lambda pair: -pair[0])[:_CANDIDATES]
    aligned = [align(claim, source) for _, source in ranked]
    return max(aligned, key=lambda one: (one.coverage, -one.denied, -len(one.deciding)), default=None)


def _quote(source: Source, text: str) -> Support:
    quote = text[source.start : source.end]
    start = source.start + len(quote) - len(quote.lstrip())
    return Support(number=source.number, start=start, end=start + len(quote.strip()), quote=quote.strip())
