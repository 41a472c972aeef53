"""Whether one sentence of a passage says what a claim says: token by token, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property

from .tokens import Token, related, tokens
from .words import PRONOUNS, TALK

LEAST_COVERAGE = 0.75
_OTHER_WORDS = 0.15
_OWN_CLAUSE, _SHORT_CLAUSE = 4, 2
"""Least words of content in a part of a sentence that another sentence may say, and where it says nothing else."""
_JOINING_WORDS = "and but while whereas und aber sowie während 和 并 並 并且 而 而且 以及 但 但是"
_JOINS = frozenset(_JOINING_WORDS.split())
_AT_AN_END = 3
"""Tokens before the first match, or behind the last, that belong to what was matched."""
_BREAK = re.compile(r"[,;:()\[\]–—，；：、（）]")


@dataclass(frozen=True)
class Clause:
    """A sentence, or a part of one, as tokens."""

    tokens: tuple[Token, ...]
    breaks: frozenset[int] = frozenset()
    """Indexes of tokens that stand behind a comma, a dash or a bracket, and those of the beginning and the end."""

    @classmethod
    def of(cls, text: str) -> Clause:
        made = tuple(tokens(text))
        ends = [0, *(token.end for token in made)]
        behind = {at for at, token in enumerate(made) if _BREAK.search(text, ends[at], token.start)}
        return cls(made, frozenset({0, len(made), *behind}))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Of its content."""
        return frozenset(token.key for token in self.tokens if token.content)

    def halves(self) -> Iterator[tuple[Clause, Clause]]:
        """The two sides of each comma and each "and" that have enough content to be sentences of their own; those with
        the longest beginning first."""
        for at in reversed(range(1, len(self.tokens))):
            if at in self.breaks or self.tokens[at].surface in _JOINS:
                first, second = self._part(0, at), self._part(at, len(self.tokens))
                if min(first.weight, second.weight) >= _SHORT_CLAUSE:
                    yield first, second

    @cached_property
    def weight(self) -> float:
        """Words of content, of which two Chinese characters are one."""
        return sum(0.5 if token.kind == "cjk" else 1 for token in self.tokens if token.content)

    def _part(self, start: int, stop: int) -> Clause:
        breaks = {at - start for at in self.breaks if start <= at <= stop}
        return Clause(self.tokens[start:stop], frozenset({0, stop - start, *breaks}))


@dataclass(frozen=True)
class Source:
    """A sentence of a passage."""

    number: int
    start: int
    end: int
    clause: Clause
    before: frozenset[str] = frozenset()
    """Keys that what a pronoun stands for can have: of the passage before this sentence and of its headings."""

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self.clause.tokens


@dataclass
class Alignment:
    """How a claim and a source meet."""

    claim: Clause
    source: Source
    pairs: list[int | None]
    """For each token of the claim, the token of the source."""
    excused: set[int] = field(default_factory=set)
    """Tokens of the claim that may be missing: what a pronoun stands for, and words about the source."""

    @property
    def coverage(self) -> float:
        """Share of the claim's content that is there."""
        content = [at for at, token in enumerate(self.claim.tokens) if token.content and at not in self.excused]
        return sum(self.pairs[at] is not None for at in content) / len(content) if content else 0.0

    @property
    def missing(self) -> list[Token]:
        """Tokens of content that are not there."""
        return [
            token
            for at, token in enumerate(self.claim.tokens)
            if token.content and self.pairs[at] is None and at not in self.excused
        ]

    @property
    def too_short(self) -> bool:
        """Whether the claim has so few words that the source must say nothing else."""
        known = {pair for pair in self.pairs if pair is not None}
        left = any(token.content for at, token in enumerate(self.source.tokens) if at not in known)
        return self.claim.weight < _OWN_CLAUSE and left

    @property
    def deciding(self) -> list[Token]:
        """Missing tokens of which one is enough to say something else."""
        return [token for token in self.missing if token.kind in ("number", "name", "pole", "negation")]

    @property
    def covers(self) -> bool:
        """Whether so little is missing that the rest is another choice of words."""
        missing = self.missing
        content = sum(token.content for token in self.claim.tokens)
        allowed = 0 if any(token.kind == "cjk" for token in missing) else max(1, round(_OTHER_WORDS * content))
        return len(missing) <= allowed and self.coverage >= LEAST_COVERAGE

    @property
    def denied(self) -> bool:
        """Whether a negation of one side has none on the other. A clause of the source that is left out whole may have
        one."""
        if any(token.kind == "negation" for token in self.missing):
            return True
        source = self.source
        for mine, theirs in _gaps(self):
            own_clause = len(theirs) > 1 and {theirs.start, theirs.stop} <= source.clause.breaks
            if not own_clause and any(source.tokens[at].kind == "negation" for at in theirs):
                return not mine or not self.excused.issuperset(mine)
        return False


def align(claim: Clause, source: Source) -> Alignment:
    """Meet `claim` and `source` in the order of both; runs that were moved as a whole count too."""
    mine, theirs = [token.key for token in claim.tokens], [token.key for token in source.tokens]
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    pairs: list[int | None] = [None] * len(mine)
    for block in matcher.get_matching_blocks():
        for at, other in zip(range(block.a, block.a + block.size), range(block.b, block.b + block.size), strict=True):
            if claim.tokens[at].kind != "name" or related(claim.tokens[at], source.tokens[other]):
                pairs[at] = other
    _pair_moved(mine, theirs, pairs)
    made = Alignment(claim, source, pairs)
    made.excused = _excused(made)
    return made


def _runs(indexes: Sequence[int]) -> list[list[int]]:
    """Neighbouring numbers together."""
    found: list[list[int]] = []
    for index in indexes:
        if found and found[-1][-1] == index - 1:
            found[-1].append(index)
        else:
            found.append([index])
    return found


def _pair_moved(mine: Sequence[str], theirs: Sequence[str], pairs: list[int | None]) -> None:
    """Pair runs of at least two tokens that stand together in both, at another place."""
    used = {pair for pair in pairs if pair is not None}
    free = {key for place, key in enumerate(theirs) if place not in used}
    for run in _runs([at for at, pair in enumerate(pairs) if pair is None and mine[at] in free]):
        at = 0
        while at < len(run) - 1:
            place, size = _longest([mine[index] for index in run[at:]], theirs, used)
            pairs[run[at] : run[at] + size] = range(place, place + size)
            used.update(range(place, place + size))
            at += max(size, 1)


def _longest(run: Sequence[str], theirs: Sequence[str], used: set[int]) -> tuple[int, int]:
    """(place, size) of the longest beginning of `run`, of two tokens and more, in what is free."""
    best = (0, 0)
    for place in range(len(theirs) - 1):
        most = min(len(run), len(theirs) - place)
        size = next((at for at in range(most) if place + at in used or run[at] != theirs[place + at]), most)
        best = (place, size) if size > max(best[1], 1) else best
    return best


def _gaps(alignment: Alignment) -> list[tuple[range, range]]:
    """(tokens of the claim, tokens of the source) between matches that follow each other in both, and at the ends."""
    found: list[tuple[range, range]] = []
    last, last_pair = -1, -1
    for at, pair in enumerate(alignment.pairs):
        if pair is None:
            continue
        if last < 0:
            found.append((range(at), range(pair) if pair <= _AT_AN_END else range(0)))
        elif pair > last_pair:
            found.append((range(last + 1, at), range(last_pair + 1, pair)))
        last, last_pair = at, pair
    if last >= 0:
        rest = range(last_pair + 1, len(alignment.source.tokens))
        found.append((range(last + 1, len(alignment.pairs)), rest if len(rest) <= _AT_AN_END else range(0)))
    return found


def _excused(alignment: Alignment) -> set[int]:
    """Words about the source, and what a pronoun of the source stands for."""
    claim, source = alignment.claim.tokens, alignment.source
    excused = {at for at, token in enumerate(claim[:8]) if token.surface in TALK and alignment.pairs[at] is None}
    for mine, theirs in _gaps(alignment):
        stands_for = any(source.tokens[at].surface in PRONOUNS for at in theirs)
        if stands_for and all(source.tokens[at].kind == "stop" for at in theirs):
            named = [at for at in mine if claim[at].content]
            if all(claim[at].key in source.before for at in named):
                excused.update(named)
    return excused
