"""A stand-in for a language model that works offline: it searches, then quotes. It says that it is none."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..retrieval.lexical import idf, tokenize
from .base import HINT_NAME, IMAGE_NOTE, ChatMessage, ChatReply, ToolCall, ToolSpec

DISCLAIMER = "(Quoted from the documents by word overlap; no language model was used.)"
NOT_FOUND = "Not found: nothing in the documents that were searched answers this question."

_FENCED = re.compile(r"<(retrieved-[0-9a-f]+)>\n(.*?)\n</\1>", re.DOTALL)
_HEADER = re.compile(r"^\[(\d+)\] \((source: .*)\)$", re.MULTILINE)
_ABOVE = re.compile(r"shown above: ((?:\[\d+\][, ]*)+)", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”’)\]]*\s+(?=[\"“‘(\[]?[^\W\d_a-zß-öø-ÿ]|\d)|(?<=[。！？；])(?![”’」』）])")
_OWN_LINE = re.compile(r"^\s*(?:[-*•‣·]|\d{1,3}[.)]|#{1,6}|>|\|)\s*|^\s*$|^[^\s:：]{1,30}[:：]\s")
_RULE_ROW = re.compile(r"^\|(?:\s*:?-+:?\s*\|)+\s*$")
# "How high is it?" is seldom answered with the word "high".
_HOW = re.compile(r"\bhow (?!many\b|much\b)\w+", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w,;:)] )[A-ZÀ-ÖØ-Þ][\w'’-]*[a-zß-öø-ÿ][\w'’-]*")
_MARKUP = re.compile(r"^\s*(?:[-*•‣·]\s+|#{1,6}\s+|>\s+|\|\s*)|\s*\|\s*$|\[\^\d+\]|</?slide[^>]*>")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True)
class _Passage:
    number: int
    context: frozenset[str]
    """Tokens of the header and of the whole text."""
    text: str


@dataclass(frozen=True)
class _Unit:
    """A sentence, a table row, a record, or a value: what can be quoted."""

    number: int
    quote: str
    tokens: frozenset[str]
    around: frozenset[str] = field(default_factory=frozenset)
    """Tokens of its table's header or its heading; they count half."""


class ExtractiveChatModel:
    """Answers questions about documents without a language model.

    It calls the search tool with the user's question, and answers with the one to three sentences, table rows or
    records that share most of the question's words, weighted by how rare they are, each with its citation. When the
    words of the question are hardly covered, or a number or name of the question is missing, it says "Not found". It
    never writes a sentence of its own about the subject. With a static hint and no tool it quotes from the hint.
    """

    model = "extractive"
    supports_images = False

    def __init__(self, *, max_quotes: int = 3, min_coverage: float = 0.5) -> None:
        """
        Args:
            max_quotes: Quotes in one answer.
            min_coverage: Least share of the question's words, weighted by rarity, that a quote and its surroundings
                must have, in [0, 1].
        """
        self._max_quotes = max_quotes
        self._min_coverage = min_coverage

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        position = max((index for index, message in enumerate(messages) if _is_ask(message)), default=-1)
        question = messages[position].text.strip() if position >= 0 else ""
        if not question:
            return ChatReply(text=f"There is no question to answer. {DISCLAIMER}")
        later = messages[position + 1 :]
        tool = next((tool for tool in tools if "query" in tool.parameters.get("properties", {})), None)
        if tool is not None and not any(message.role == "tool" for message in later):
            arguments = {"query": question}
            return ChatReply(tool_calls=[ToolCall(id="extractive_1", name=tool.name, arguments=arguments)])
        quotes = self._quotes(question, [*_passages(later), *_shown_above(later, messages[:position])])
        if not quotes:
            return ChatReply(text=f"{_failure(later) or NOT_FOUND}\n{DISCLAIMER}")
        lines = [f"“{unit.quote}” [{unit.number}]" for unit in quotes]
        return ChatReply(text="\n".join([*lines, DISCLAIMER]))

    def _quotes(self, question: str, passages: Sequence[_Passage]) -> list[_Unit]:
        words = dict.fromkeys(tokenize(_HOW.sub("how", question))) or dict.fromkeys(tokenize(question))
        units = [unit for passage in passages for unit in _units(passage)]
        if not units or not words:
            return []
        weights = _weights(words, [unit.tokens | unit.around for unit in units])
        contexts = {passage.number: passage.context for passage in passages}
        ranked = sorted(units, key=lambda unit: -_score(unit, weights, contexts[unit.number]))
        best = ranked[0]
        covered = contexts[best.number]
        if _share(covered, weights) < self._least_coverage(words) or not _keeps_facts(question, covered):
            return []
        return self._chosen(ranked, weights, contexts)

    def _chosen(
        self, ranked: Sequence[_Unit], weights: dict[str, float], contexts: dict[int, frozenset[str]]
    ) -> list[_Unit]:
        """The best unit, those nearly as good, and those of its passage that say another part of what was asked."""
        best = ranked[0]
        least = 0.7 * _score(best, weights, contexts[best.number])
        much = 0.2 * sum(weights.values())
        chosen: dict[str, _Unit] = {}
        said: set[str] = set()
        for unit in ranked:
            news = sum(weight for word, weight in weights.items() if word in unit.tokens and word not in said)
            if _score(unit, weights, contexts[unit.number]) >= least or (unit.number == best.number and news >= much):
                chosen.setdefault(unit.quote, unit)
                said |= unit.tokens
        return list(chosen.values())[: self._max_quotes]

    def _least_coverage(self, words: Iterable[str]) -> float:
        """Pairs of Chinese characters match more rarely than words do. (Share of questions answered with the passage
        there, and with it removed: XQuAD English .89 and .07 at .5; XQuAD Chinese .76 and .08 at .4, .51 and .01 at .5;
        150 questions each, LocalEmbeddingModel, hybrid.)"""
        listed = list(words)
        wide = sum(word[0] > "\u2e80" for word in listed)
        return self._min_coverage * (0.8 if 2 * wide > len(listed) else 1.0)


def _is_ask(message: ChatMessage) -> bool:
    return message.role == "user" and message.name != HINT_NAME


def _failure(messages: Iterable[ChatMessage]) -> str | None:
    """What a search tool said when it could not search; None when it could."""
    failed = (message.text for message in messages if getattr(message.artifact, "is_error", False))
    return next((f"No answer, because nothing could be searched. {text}" for text in failed), None)


def _passages(messages: Iterable[ChatMessage]) -> Iterator[_Passage]:
    """The numbered passages in hints and tool results, each number once."""
    seen: set[int] = set()
    for message in messages:
        for _, fenced in _FENCED.findall(message.text):
            parts = _HEADER.split(fenced)
            for number, head, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
                if int(number) not in seen:
                    seen.add(int(number))
                    # The note stands for the image, and is no part of its caption.
                    plain = IMAGE_NOTE.sub("", text.strip(), count=1).replace("&lt;", "<")
                    yield _Passage(int(number), frozenset(tokenize(f"{head}\n{plain}")), plain)


def _shown_above(later: Sequence[ChatMessage], earlier: Sequence[ChatMessage]) -> list[_Passage]:
    """The passages of earlier turns that a result of this turn names by their numbers."""
    named = {
        int(number) for message in later for line in _ABOVE.findall(message.text) for number in _DIGITS.findall(line)
    }
    return [passage for passage in _passages(earlier) if passage.number in named]


def _units(passage: _Passage) -> Iterator[_Unit]:
    """What of a passage can be quoted."""
    if records := _records(passage.text):
        for record in records:
            yield _Unit(passage.number, record, frozenset(tokenize(record)))
        return
    heading = ""
    lines = passage.text.split("\n")
    for position, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            heading = line
        elif line.startswith("|") and not _RULE_ROW.match(line):
            ruled = position + 1 < len(lines) and _RULE_ROW.match(lines[position + 1])
            if not ruled:
                yield _unit(passage.number, line, f"{heading} {_table_head(lines, position)}")
    heading = ""
    for paragraph in _paragraphs(lines):
        if paragraph.lstrip().startswith("#"):
            heading = paragraph
        for sentence in _SENTENCE_END.split(paragraph):
            if sentence and len(_plain(sentence)) > 2:
                yield _unit(passage.number, sentence, heading)


def _unit(number: int, text: str, around: str) -> _Unit:
    quote = _plain(text)
    return _Unit(number, quote, frozenset(tokenize(quote)), frozenset(tokenize(around)))


def _plain(text: str) -> str:
    """The text on one line without list, heading and table marks."""
    return _BLANKS.sub(" ", _MARKUP.sub("", text)).strip()


def _table_head(lines: Sequence[str], position: int) -> str:
    """The rows of the table up to the first two, which hold its names."""
    start = position
    while start > 0 and lines[start - 1].startswith("|"):
        start -= 1
    return " ".join(line for line in lines[start : min(start + 3, position)] if not _RULE_ROW.match(line))


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Lines that were wrapped, joined again; headings, list items and fields stay alone; table rows are left out."""
    current = ""
    for line in lines:
        if line.startswith("|"):
            line = ""
        alone = bool(_OWN_LINE.match(line))
        if alone and current:
            yield current
            current = ""
        wide = current and not (current[-1].isascii() and line[:1].isascii()) and ord(current[-1]) > 0x2E80
        current = f"{current}{'' if wide or not current else ' '}{line.strip()}"
        if current and line.lstrip().startswith("#"):
            yield current
            current = ""
    if current:
        yield current


def _records(text: str) -> list[str]:
    """The records of a JSON passage: each flat object or list, as JSON; [] for other text."""
    if text[:1] not in ("{", "["):
        return []
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return [json.dumps(record, ensure_ascii=False) for record in _flat(value)]


def _flat(value: Any) -> Iterator[Any]:
    """Objects without objects in them, and plain values with their key."""
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, dict):
        plain = {key: item for key, item in value.items() if not _nested(item)}
        if plain:
            yield plain
        for key, item in value.items():
            if _nested(item):
                yield from ({key: inner} if isinstance(item, dict) else inner for inner in _flat(item))
    else:
        yield value


def _nested(item: Any) -> bool:
    return isinstance(item, dict) or (isinstance(item, list) and any(isinstance(part, dict) for part in item))


def _weights(words: Iterable[str], units: Sequence[frozenset[str]]) -> dict[str, float]:
    """How much each word of the question says: rare ones more, and those that are nowhere most.

    1 is added since the few units that were found are a small sample to count in.
    """
    frequency = Counter(token for tokens in units for token in tokens)
    return {word: 1 + idf(len(units), frequency[word]) for word in words}


def _score(unit: _Unit, weights: dict[str, float], context: frozenset[str]) -> float:
    """Weight of the question's words in the unit; half for its table's or section's names, a fifth for the rest."""
    total = 0.0
    for word, weight in weights.items():
        if word in unit.tokens:
            total += weight
        elif word in unit.around:
            total += weight / 2
        elif word in context:
            total += weight / 5
    # Between units that say the same, the shorter one.
    return total - len(unit.tokens) / 1_000


def _share(context: frozenset[str], weights: dict[str, float]) -> float:
    return sum(weight for word, weight in weights.items() if word in context) / sum(weights.values())


def _keeps_facts(question: str, context: frozenset[str]) -> bool:
    """Whether the numbers of the question are all there, and at least one of its names if it has any."""
    numbers = {token for token in tokenize(question) if any(char.isdigit() for char in token) and token.isascii()}
    names = [frozenset(tokenize(name)) for name in _NAME.findall(question)]
    return numbers <= context and (not names or any(name <= context for name in names if name))
