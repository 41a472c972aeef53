"""What a search takes for the version of a document that counts."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from agent_rag.stores.versions import versions as module
from agent_rag.stores.versions.heads import Head, Name
from agent_rag.stores.versions.versions import Changed, Versions


class Stored(NamedTuple):
    name: Name
    written_at: float
    head: Head = Head(number=1, runs=((0, 1),), tokens=1, indexed=1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    now = [1_000_000.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    return now


def test_an_old_version_is_settled_at_once(clock: list[float]) -> None:
    """Its head was written before the search began, so the search has seen all of it."""
    versions: Versions[str, Stored] = Versions(is_shared=True)

    assert versions.settle(versions.to_ask(["v"]), {"v": Stored(("", "doc"), clock[0] - 3_600)})
    assert versions.pinned == {("", "doc"): "v"}


def test_a_version_published_during_a_search_is_searched_again(clock: list[float]) -> None:
    """However long the search stalled (an hour here, as a closed laptop does): it may have seen a part of it."""
    versions: Versions[str, Stored] = Versions(is_shared=True)
    published = clock[0] + 1
    clock[0] += 3_600

    assert not versions.settle(versions.to_ask(["v"]), {"v": Stored(("", "doc"), published)})
    assert versions.settle(versions.to_ask(["v"]), {})


def test_a_version_that_was_left_out_and_counts_is_searched_again(clock: list[float]) -> None:
    """A head that was not found once, and later is: the search in between left its rows out."""
    versions: Versions[str, Stored] = Versions(is_shared=True)
    head = Stored(("", "doc"), clock[0] - 3_600)

    assert not versions.settle(versions.to_ask(["v"]), {})
    assert versions.stale == {"v"}
    assert not versions.settle(versions.to_ask([]), {"v": head})
    assert versions.stale == set()
    assert versions.settle(versions.to_ask(["v"]), {})


def test_another_version_of_a_pinned_document_ends_the_search(clock: list[float]) -> None:
    """Steps of one search see one version."""
    versions: Versions[str, Stored] = Versions(is_shared=True)
    versions.settle(versions.to_ask(["v"]), {"v": Stored(("", "doc"), clock[0] - 3_600)})

    with pytest.raises(Changed):
        versions.settle(versions.to_ask(["w"]), {"w": Stored(("", "doc"), clock[0] - 3_600)})
