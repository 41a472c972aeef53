"""The shipped store contract: which tests run for which store, and that it finds faults."""

import pytest

from agent_rag.stores import MemoryStore
from agent_rag.testing import StoreContract, assert_congruent


class Seven(StoreContract):
    native = False


class Vectors(StoreContract):
    keyword_search = False
    persistent = True


class Everything(StoreContract):
    persistent = shared = has_unavailable = can_exchange = True


def collected(contract: type[StoreContract]) -> set[str]:
    return {name for name in dir(contract) if name.startswith("test_") and getattr(contract, name) is not None}


def test_only_declared_levels_are_collected() -> None:
    """A store with seven methods has the core tests; each promise adds its own."""
    core, some, full = collected(Seven), collected(Vectors), collected(Everything)

    assert core < some < full
    assert "test_scores_are_cosines" in core
    assert "test_scores_are_bm25" in full - some
    assert "test_data_are_there_after_reopening" in some - core
    assert "test_fetch_keeps_the_order_of_the_keys" in some - core
    assert "test_statistics_are_live_after_replacing" in full - some
    assert "test_every_operator_agrees_with_the_reference" in some - core
    assert "test_an_exchange_survives_reopening" in full - some
    assert "test_a_server_that_is_gone_is_unavailable" in full - some


def test_a_subclass_may_promise_more_than_its_parent() -> None:
    """What a parent hid comes back."""

    class Grown(Seven):
        native = True
        keyword_search = False
        persistent = True

    assert collected(Grown) == collected(Vectors)


def test_a_test_that_the_subclass_defines_stays() -> None:
    """Also under the name of one that is hidden."""

    class Own(StoreContract):
        native = False

        async def test_scores_are_bm25(self) -> None: ...

    assert "test_scores_are_bm25" in collected(Own)


class Forgetful(MemoryStore):
    """Leaves one chunk of a document behind, but only of long ones."""

    async def delete(self, collection, document_id, metadata_filter=None):
        chunks = await self.list_chunks(collection, document_id)
        removed = await super().delete(collection, document_id, metadata_filter)
        if len(chunks) > 5:
            await self.insert(collection, await self._again(chunks[-1]))
        return removed

    async def _again(self, chunk):
        return [chunk.model_copy(update={"vector": [1.0, 0.0, 0.0, 0.0]})]


class Generous(MemoryStore):
    """Ignores filters when it counts."""

    async def count(self, collection, metadata_filter=None):
        return await super().count(collection)


@pytest.mark.parametrize("store_type", [Forgetful, Generous])
async def test_congruence_finds_a_store_that_differs(store_type) -> None:
    """The message has the seed and the step."""
    async with store_type() as store, MemoryStore() as reference:
        with pytest.raises(AssertionError, match=r"seed 1, step \d+"):
            await assert_congruent(store, reference, 1, 60)


async def test_congruence_accepts_the_reference_itself() -> None:
    """And drops its collection at the end."""
    async with MemoryStore() as store, MemoryStore() as reference:
        await assert_congruent(store, reference, 5, 10)

        assert await store.list_collections() == []
