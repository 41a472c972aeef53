"""From hits to what a model reads: neighbours joined, numbered, fenced, and within the token budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...chat import image_note
from ...content import ContentBlock, DataBlock, TextBlock
from ...documents import VectorSearchResult
from ...retrieval.fence import Fence, clean
from .citation import Citation, Passage, PassageKey, Source, cite, header, key_of, same_place

logger = logging.getLogger("agent_rag")

_MIN_OVERLAP = 12
_MAX_OVERLAP = 1_000
_IMAGE_MARK = "\x00image\x00"


def approximate_tokens(text: str) -> int:
    """A quarter of the UTF-8 bytes, rounded up: AgentScope's estimate."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


@dataclass
class Layout:
    """How passages are shown."""

    max_tokens: int
    count: Callable[[str], int] = approximate_tokens
    images: bool = False
    before: str = ""
    after: str = ""
    show_base: bool = False
    show_document: bool = False
    hidden: frozenset[str] = frozenset()
    disarm_images: bool = False
    recall: bool = False
    """Whether a search for a number shows its passage again."""

    def header(self, citation: Citation) -> str:
        return header(citation, show_base=self.show_base, show_document=self.show_document)


@dataclass
class Rendered:
    """What the model reads."""

    text: str
    """With images as their notes."""
    blocks: list[ContentBlock]
    """The same with images as blocks, where the layout has images."""
    fence: str
    """Name of the fence around the passages."""
    shown: list[Passage] = field(default_factory=list)
    dropped: int = 0
    """Passages left out to fit the budget."""


def passages_of(
    hits: Sequence[VectorSearchResult], also_in: Mapping[PassageKey, list[Source]], *, merge: bool
) -> list[Passage]:
    """Hits as passages, in rank order; with `merge`, those that follow each other in a document become one at the place
    of the best."""
    groups: list[list[VectorSearchResult]] = _neighbours(hits) if merge else [[hit] for hit in hits]
    rank = {key_of(hit): position for position, hit in enumerate(hits)}
    passages = []
    for group in groups:
        best = min(group, key=lambda hit: rank[key_of(hit)])
        places = [place for hit in group for place in also_in.get(key_of(hit), [])]
        text, span = _joined(group)
        passages.append(Passage(best=best, text=text, hits=group, also_in=places, span=span))
    return sorted(passages, key=lambda passage: rank[key_of(passage.best)])


def render(
    passages: Sequence[Passage],
    numbers: Sequence[int],
    layout: Layout,
    *,
    references: Sequence[Citation] = (),
    above: Sequence[int] = (),
    note: str = "",
) -> Rendered:
    """Show as many of `passages` as fit, best first.

    Whole passages are dropped from the end; when not even the first fits it is cut, and marked as cut.

    Args:
        numbers: Of the passages.
        references: Hits that the model already has before it in this turn.
        above: Numbers of hits that stand in the history.
        note: A line of ours after the passages.
    """
    fence = Fence()
    entries = [entry(passage, number, layout) for passage, number in zip(passages, numbers, strict=True)]

    def text_of(shown: Sequence[str]) -> str:
        left_out = _left_out(len(passages) - len(shown))
        return _text(shown, layout, fence, references, above, "\n".join(part for part in (left_out, note) if part))

    def fits(shown: Sequence[str]) -> bool:
        return layout.count(text_of(shown).replace(_IMAGE_MARK, "")) <= layout.max_tokens

    count = most(len(entries), lambda number: fits(entries[:number]))
    kept, shown = list(passages[:count]), entries[:count]
    if not count and passages and (cut := _cut(passages[0], lambda part: fits([entry(part, numbers[0], layout)]))):
        kept, shown = [cut], [entry(cut, numbers[0], layout)]
    dropped = len(passages) - len(kept)
    if dropped:
        logger.info("%d of %d hits left out to fit max_context_tokens=%d", dropped, len(passages), layout.max_tokens)
    text = text_of(shown)
    return Rendered(
        text=text.replace(_IMAGE_MARK, ""),
        blocks=_blocks(text, kept, layout.images),
        fence=fence.name,
        shown=kept,
        dropped=dropped,
    )


def _neighbours(hits: Sequence[VectorSearchResult]) -> list[list[VectorSearchResult]]:
    ordered = sorted(hits, key=key_of)
    groups: list[list[VectorSearchResult]] = []
    for hit in ordered:
        if groups and _follows(groups[-1][-1], hit):
            groups[-1].append(hit)
        else:
            groups.append([hit])
    return groups


def _follows(first: VectorSearchResult, second: VectorSearchResult) -> bool:
    """Whether `second` goes on where `first` ends: the next chunk of the same place in the same document."""
    a, b = first.chunk, second.chunk
    return (
        key_of(first)[:3] == key_of(second)[:3]
        and b.chunk_index == a.chunk_index + 1
        and a.section_index == b.section_index
        and same_place(a.metadata, b.metadata)
        and isinstance(a.content, TextBlock)
        and isinstance(b.content, TextBlock)
        and ((a.span is not None and b.span is not None) or _overlap(a.text, b.text) > 0)
    )


def _joined(group: Sequence[VectorSearchResult]) -> tuple[str, tuple[int, int] | None]:
    """The text of neighbouring hits without repeating their overlap, and its span."""
    first = group[0].chunk
    text, end = first.text, first.span[1] if first.span else None
    for hit in group[1:]:
        chunk = hit.chunk
        if end is not None and chunk.span is not None:
            start = chunk.span[0]
            text += chunk.text[end - start :] if start <= end else f"\n{chunk.text}"
            end = max(end, chunk.span[1])
        else:
            text += chunk.text[_overlap(text, chunk.text) :]
    return text, (first.span[0], end) if first.span and end is not None else None


def _overlap(first: str, second: str) -> int:
    """Characters at the end of `first` that `second` begins with; 0 below 12, which may be chance."""
    for size in range(min(len(first), len(second), _MAX_OVERLAP), _MIN_OVERLAP - 1, -1):
        if first.endswith(second[:size]):
            return size
    return 0


def _text(
    entries: Sequence[str],
    layout: Layout,
    fence: Fence,
    references: Sequence[Citation],
    above: Sequence[int],
    notes: str,
) -> str:
    # A hint is known by its fence, also one that shows nothing new.
    fenced = fence.wrap("\n\n".join(entries)) if entries or layout.before else ""
    parts = [layout.before + fenced]
    if references:
        # With its place: what a hint showed is not in the history of later turns, and this line is.
        listed = "; ".join(layout.header(citation) for citation in references)
        parts.append(f"Matching too, and shown earlier in this turn: {listed}.")
    if above:
        numbers = ", ".join(f"[{number}]" for number in above)
        again = f' To read one again, search for "[{above[0]}]".' if layout.recall else ""
        parts.append(f"{'Shown above' if entries else 'Nothing new; shown above'}: {numbers}.{again}")
    parts.append(notes)
    return "\n".join(part for part in parts if part) + layout.after


def entry(passage: Passage, number: int, layout: Layout) -> str:
    """Header and text of a passage."""
    citation = cite(passage, number, hidden=layout.hidden)
    head = layout.header(citation)
    keep = not layout.disarm_images
    if isinstance(passage.best.chunk.content, DataBlock):
        return f"{head}\n{_IMAGE_MARK}{clean(image_note(passage.best.chunk.content), images=keep)}"
    return f"{head}\n{clean(passage.text, images=keep)}"


def _left_out(count: int) -> str:
    return f"({count} further hit{'s' if count != 1 else ''} left out to fit the context budget.)" if count else ""


def _cut(passage: Passage, fits: Callable[[Passage], bool]) -> Passage | None:
    """The passage cut to what fits and marked as cut; None when nothing of it fits."""
    if isinstance(passage.best.chunk.content, DataBlock):
        return None

    def cut(size: int) -> Passage:
        rest = len(passage.text) - size
        return replace(passage, text=f"{passage.text[:size].rstrip()} […cut: {rest} more characters]")

    size = most(len(passage.text), lambda number: fits(cut(number)))
    return cut(size) if size else None


def most(highest: int, fits: Callable[[int], bool]) -> int:
    """The largest number in 0..highest that fits; 0 is not asked."""
    if highest == 0 or fits(highest):
        return highest
    low = 0
    while highest - low > 1:
        middle = (low + highest) // 2
        low, highest = (middle, highest) if fits(middle) else (low, middle)
    return low


def _images(passages: Sequence[Passage]) -> list[DataBlock]:
    return [passage.best.chunk.content for passage in passages if isinstance(passage.best.chunk.content, DataBlock)]


def _blocks(text: str, passages: Sequence[Passage], images: bool) -> list[ContentBlock]:
    """The text, with each image after its own note."""
    if not images:
        return [TextBlock(text=text.replace(_IMAGE_MARK, ""))]
    parts = text.split(_IMAGE_MARK)
    blocks: list[ContentBlock] = []
    for part, image in zip(parts, [*_images(passages), None], strict=True):
        blocks.append(TextBlock(text=part))
        if image is not None:
            blocks.append(image)
    return blocks
