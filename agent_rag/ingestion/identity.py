"""Which document each item of a listing is: settled for all sources before anything is read or awaited.

A document is (name of its source, path within it). Its id is the path, unless a document of another source had it
first, and stays for as long as the document does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..documents import DocumentSummary
from ..errors import SourceError
from ..sources import Listing, SourceBase, SourceItem
from .source_names import Stored, StoredSource, name_of, stored_sources
from .state import FileState


@dataclass
class Listed:
    """A source, what it holds now, and the name the collection knows it by."""

    source: SourceBase
    listing: Listing
    name: str = ""
    tasks: list[Task] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Task:
    """An item that is a document."""

    item: SourceItem
    listed: Listed
    known: Stored | None
    """The document as it is stored, or what is remembered of a file that gave none."""
    owner: FileState
    """The source, path and place that are to be stored."""
    document_id: str = ""
    also: list[str] = field(default_factory=list)
    """Further names of the same file."""
    digest: str = ""
    """SHA-256 of its content, once that was read."""

    @property
    def is_new(self) -> bool:
        """Whether nothing is stored that can be found."""
        return self.known is None or self.known.summary.chunk_count == 0

    @property
    def is_where_it_was(self) -> bool:
        """Whether source, path and place are those that are stored."""
        if self.known is None or self.known.summary.uri != self.item.uri:
            return False
        old, new = self.known.state, self.owner
        return (old.source, old.path, old.location, old.chosen) == (new.source, new.path, new.location, new.chosen)


@dataclass
class Plan:
    """What a run has to do."""

    listed: list[Listed]
    stored: list[Stored]
    taken: set[str]
    """Ids of documents that are there now."""
    notes: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> list[Task]:
        return [task for one in self.listed for task in one.tasks]

    def gone(self, name: str) -> tuple[list[Stored], int]:
        """Stored documents of a source that no listing has any more, and how many it has in all."""
        places = {one.source.location for one in self.listed if one.name == name and one.source.location}
        mine = [one for one in self.stored if _belongs(one.state, name, places)]
        claimed = {task.document_id for task in self.tasks}
        return [one for one in mine if one.summary.document_id not in claimed], len(mine)


def make_plan(
    listings: Sequence[tuple[SourceBase, Listing]],
    summaries: Sequence[DocumentSummary],
    digest: Callable[[SourceItem], str],
) -> Plan:
    """Name the sources, find the document of each item, and give new ones an id. May read files of a moved tree.

    The result does not depend on the order in which a listing has its items.

    Args:
        summaries: Every document of the collection in this scope.
        digest: SHA-256 of an item.
    """
    stored = [Stored(summary, state) for summary in summaries if (state := FileState.of(summary.state)) is not None]
    plan = Plan([], stored, {summary.document_id for summary in summaries})
    known = stored_sources(stored)
    by_uri = {one.uri: one for one in summaries if one.uri}
    claims: dict[object, Task] = {}
    for source, listing in listings:
        one = Listed(source, listing)
        one.name = name_of(source, listing, known, digest)
        known.setdefault(one.name, StoredSource(one.name, source.location, source.named))
        plan.listed.append(one)
        plan.notes += listing.notes
        _find_documents(one, plan, by_uri, claims)
    _give_ids(plan)
    return plan


def _find_documents(listed: Listed, plan: Plan, by_uri: dict[str, DocumentSummary], claims: dict[object, Task]) -> None:
    mine: dict[str, Stored] = {}
    claimed = {task.document_id for task in plan.tasks if task.known is not None}
    places = {listed.source.location} if listed.source.location else set()
    for one in plan.stored:
        if one.state.path and _belongs(one.state, listed.name, places if listed.source.named else set()):
            mine[one.state.path] = one
    claimed |= {mine[item.key].summary.document_id for item in listed.listing.items if item.key in mine}
    for item in sorted(listed.listing.items, key=lambda item: item.key):
        # Named sources may hold one file as documents of their own; without names it is one document.
        claim = (listed.name, item.key) if listed.source.named else item.uri
        if (earlier := claims.get(claim) or claims.get((listed.name, item.key))) is not None:
            _claim_again(earlier, item, plan)
            continue
        found = mine.get(item.key) or _by_place(item, listed, by_uri, claimed)
        task = Task(item, listed, found, _owner(item, listed, found), also=list(item.also))
        if found is not None:
            task.document_id = found.summary.document_id
            claimed.add(task.document_id)
        listed.tasks.append(task)
        claims[claim] = claims[listed.name, item.key] = task
        if not listed.source.named:
            claims[item.uri] = task


def _by_place(item: SourceItem, listed: Listed, by_uri: dict[str, DocumentSummary], claimed: set[str]) -> Stored | None:
    """The document that was made from this very file by another source, or before sources had names."""
    summary = by_uri.get(item.uri)
    state = FileState.of(summary.state) if summary is not None else None
    if summary is None or state is None or summary.document_id in claimed or (listed.source.named and state.path):
        return None
    return Stored(summary, state)


def _owner(item: SourceItem, listed: Listed, found: Stored | None) -> FileState:
    """Whose document it is: this source's, unless it belongs to another one that is no narrower."""
    source = listed.source
    own = FileState(source=listed.name, path=item.key, location=source.location, chosen="yes" if source.named else "")
    if found is None or not found.state.path or found.state.source == listed.name or source.named:
        return own
    theirs = found.state
    narrower = theirs.location.startswith(("files:", source.location.rstrip("/") + "/")) and not theirs.chosen
    if narrower and source.location.startswith("file:"):
        return own
    return theirs


def _claim_again(task: Task, item: SourceItem, plan: Plan) -> None:
    """A second source of the run has the same file; what else leads to it there is said with the document."""
    task.also = sorted({*task.also, *item.also} - {task.item.key})
    note = f"{item.filename} was given more than once; it is one document"
    plan.notes.extend([note] if note not in plan.notes else [])


def _give_ids(plan: Plan) -> None:
    """Known documents keep theirs; new ones get one in the order of their identity, not of a listing."""
    new = [task for task in plan.tasks if task.known is None]
    for task in sorted(new, key=lambda task: (task.item.document_id, task.owner.source, task.owner.path)):
        task.document_id = next((name for name in _candidates(task) if name not in plan.taken), "")
        if not task.document_id:
            raise SourceError(f"{task.item.filename}: no document id is free; give its source another name")
        plan.taken.add(task.document_id)


def _candidates(task: Task) -> Iterable[str]:
    owner = task.owner
    yield task.item.document_id
    yield f"{owner.source}/{owner.path}"
    yield f"{owner.source}/{owner.path}~{hashlib.sha256(owner.path.encode()).hexdigest()[:8]}"


def _belongs(state: FileState, name: str, places: set[str]) -> bool:
    """Whether a document is of the source called `name`; one that nobody named takes the name that is given to it.

    In collections of before there were paths, the place was the name.
    """
    if state.source == name:
        return True
    if not state.path:
        return state.source in places
    return not state.chosen and state.location in places
