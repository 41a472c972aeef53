"""The contract of a vector store, as tests.

A backend's test file is a fixture and what only it has::

    from agent_rag.testing import StoreContract

    class TestMyStore(StoreContract):
        native = False       # the seven methods of VectorStoreBase only; True for a NativeStoreBase
        persistent = True

        @pytest.fixture
        def make_store(self, tmp_path):
            return lambda: MyStore(tmp_path / "data")

`StoreFixtures` lists the attributes and fixtures to set. What the class promises decides which
tests run; what it promises wrongly is one failure.

What the levels pin down beyond the docstrings of `VectorStoreBase`:

* Operations on chunks (search, retrieve, fetch, list_chunks, count, iterate) look at the chunk's metadata. Operations
  on documents (list_documents, delete, delete_documents, delete_by_filter) look at the document's metadata and treat
  documents as a whole.
* After a plain `insert`, a document's source, title, uri and metadata are those of its chunk with the lowest index
  (`agent_rag.stores.engine.records.heads_of`), and its state is empty; after `replace` they are what was given, also
  when chunks are inserted later. `chunk_count` is the number of stored chunks. A document replaced by no chunks
  stays listed, with 0.
* BM25 counts the chunks of the whole collection that have at least one token (filters and scopes do not change the
  statistics), and a token that occurs twice in the query counts twice.
* In a collection with 0 dimensions every vector is empty; a non-empty one raises DimensionMismatchError.
* Vectors come back as they were, or (cosine) scaled to length 1, as 32-bit floats.
* A document id with a NUL or a lone surrogate, an empty one, and a negative chunk index raise RecordError; texts and
  metadata are cleaned instead (`documents.storable_text`, `storable_metadata`).
"""

from .base import MakeStore, StoreFixtures
from .congruence import StoreCongruence, assert_congruent
from .core import StoreCore
from .durability import StoreDurability
from .exchange import StoreExchange
from .filters import StoreFilters
from .finding import StoreFinding
from .keyword import StoreKeyword
from .reading import StoreReading
from .records import StoreRecords
from .replace import StoreReplace
from .retrieve import StoreRetrieve
from .scopes import StoreScopes


class StoreContract(
    StoreCore,
    StoreRecords,
    StoreDurability,
    StoreFilters,
    StoreScopes,
    StoreReading,
    StoreFinding,
    StoreRetrieve,
    StoreKeyword,
    StoreReplace,
    StoreExchange,
    StoreCongruence,
):
    """All levels; subclass it and give it the fixture `make_store`."""


__all__ = ["MakeStore", "StoreContract", "StoreFixtures", "assert_congruent"]
