"""A store with the seed's seven methods passes the core level."""

import pytest

from agent_rag.errors import ConfigurationError
from agent_rag.stores.seven import SevenMethodAdapter
from agent_rag.testing import SevenMethodStore, StoreContract, record


class TestSevenMethodStore(StoreContract):
    """It is no NativeStoreBase, so only the core level runs."""

    native = False
    persistent = True
    max_loop_pause_s = 1.0  # a fake in plain Python, without threads

    @pytest.fixture
    def make_store(self):
        store = SevenMethodStore()
        return lambda: store


async def test_more_than_the_seeds_arguments_is_a_type_error() -> None:
    """Nothing but the seed's arguments is taken, so a KnowledgeBase that passes more is found out."""
    async with SevenMethodStore() as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record()])

        with pytest.raises(TypeError):
            await store.delete("c", "doc", {"tenant": "a"})
        with pytest.raises(TypeError):
            await store.delete("c", "doc", metadata_filter=None)


async def test_what_it_lacks_is_said_in_its_own_name() -> None:
    """The wrapper that a KnowledgeBase puts around it is not what the user knows."""
    wrapped = SevenMethodAdapter(SevenMethodStore(), 4)

    with pytest.raises(ConfigurationError, match="SevenMethodStore has the seven methods of VectorStoreBase only"):
        await wrapped.list_collections()
