"""Level "scope": tenants with equal document ids."""

from __future__ import annotations

from typing import ClassVar

from ...documents import ChunkKey, scope_key
from ...stores.base import RetrieveRequest
from ...stores.native import NativeStoreBase
from ..records import document, record
from .base import EAST, NORTH, StoreFixtures, keys

A, B = scope_key({"tenant": "a"}), scope_key({"tenant": "b"})


class StoreScopes(StoreFixtures):
    """Two scopes may use one document id and never meet."""

    level: ClassVar[tuple[str, ...]] = ("native",)

    async def fill_tenants(self, store: NativeStoreBase, collection: str) -> None:
        """The document "handbook" of two tenants, two chunks each, in two calls."""
        for scope, tenant in ((A, "a"), (B, "b")):
            records = [
                record("handbook", n, f"{tenant} says {n}", scope=scope, metadata={"tenant": tenant}) for n in range(2)
            ]
            await self.fill(store, collection, records)

    async def test_one_id_in_two_scopes_is_two_documents(self, store: NativeStoreBase, collection: str) -> None:
        """Neither overwrites the other, and both are found and listed, ordered by scope."""
        await self.fill_tenants(store, collection)

        hits = await store.search(collection, list(EAST), 10)
        listed = await store.list_documents(collection)

        assert keys(hits) == [ChunkKey(scope, "handbook", n) for scope in (A, B) for n in range(2)]
        assert [hit.chunk.text for hit in hits] == ["a says 0", "a says 1", "b says 0", "b says 1"]
        assert [(item.scope, item.document_id, item.chunk_count) for item in listed] == [
            (A, "handbook", 2),
            (B, "handbook", 2),
        ]

    async def test_a_tenant_sees_only_its_own(self, store: NativeStoreBase, collection: str) -> None:
        """With the scope as filter, search and listing give nothing of the other tenant."""
        await self.fill_tenants(store, collection)

        hits = await store.search(collection, list(EAST), 10, {"tenant": "b"})
        listed = await store.list_documents(collection, {"tenant": "b"})

        assert keys(hits) == [ChunkKey(B, "handbook", n) for n in range(2)]
        assert [item.scope for item in listed] == [B]

    async def test_a_tenant_deletes_only_its_own(self, store: NativeStoreBase, collection: str) -> None:
        """With the scope as filter, the other tenant's document of the same id stays; without, both go."""
        await self.fill_tenants(store, collection)

        await store.delete(collection, "handbook", {"tenant": "a"})
        await self.settle(store, collection)
        left = await self.every_key(store, collection)
        await self.fill_tenants(store, collection)
        await store.delete(collection, "handbook")
        await self.settle(store, collection)

        assert left == [ChunkKey(B, "handbook", n) for n in range(2)]
        assert await self.every_key(store, collection) == []
        assert await store.list_documents(collection) == []

    async def test_one_call_may_hold_several_scopes(self, store: NativeStoreBase, collection: str) -> None:
        """Records of equal document id and index but other scopes are no duplicates."""
        await self.fill(store, collection, [record("x"), record("x", scope=B), record("x", scope=A)])

        assert await self.every_key(store, collection) == [ChunkKey(scope, "x", 0) for scope in ("", A, B)]

    async def test_scopes_are_text(self, store: NativeStoreBase, collection: str) -> None:
        """Quotes, unicode and any length in a scope are kept apart and come back."""
        values: list[dict[str, str | int]] = [
            {"t": "it's"}, {"t": 'a"b'}, {"ключ": "值"}, {"t": "x" * 500}, {"t": 1}, {"t": "1"}, {"t": True},
        ]  # fmt: skip
        scopes = sorted(map(scope_key, values))
        await self.fill(store, collection, [record("x", scope=scope) for scope in scopes])

        assert [item.scope for item in await store.list_documents(collection)] == scopes
        assert [key.scope for key in await self.every_key(store, collection)] == scopes
        assert [item.scope for item in await store.list_chunks(collection, "x")] == scopes

    async def test_replacing_leaves_the_other_scope_alone(self, store: NativeStoreBase, collection: str) -> None:
        """`replace` in one scope changes nothing in the other, and the scope argument decides."""
        await self.fill_tenants(store, collection)

        before = await store.replace(
            collection,
            [document("handbook", metadata={"tenant": "a"})],
            [record("handbook", text="new", metadata={"tenant": "a"})],
            scope=A,
        )
        await self.settle(store, collection)

        hits = await store.search(collection, list(EAST), 10)
        assert before == 2
        assert [(hit.scope, hit.chunk.text) for hit in hits] == [(A, "new"), (B, "b says 0"), (B, "b says 1")]

    async def test_reading_goes_by_the_key(self, store: NativeStoreBase, collection: str) -> None:
        """fetch takes the scope from the key; list_chunks without a filter gives both scopes, in order; retrieve
        gives the scope of each hit."""
        await self.fill_tenants(store, collection)

        fetched = await store.fetch(collection, [ChunkKey(B, "handbook", 1), ChunkKey("", "handbook", 0)])
        both = await store.list_chunks(collection, "handbook")
        one = await store.list_chunks(collection, "handbook", metadata_filter={"tenant": "b"})
        request = RetrieveRequest(vectors=[NORTH], limit=10, metadata_filter={"tenant": "a"})
        found = await store.retrieve(collection, request)

        assert [item.chunk.text for item in fetched] == ["b says 1"]
        assert keys(both) == [ChunkKey(scope, "handbook", n) for scope in (A, B) for n in range(2)]
        assert [item.chunk.text for item in one] == ["b says 0", "b says 1"]
        assert keys(found) == [ChunkKey(A, "handbook", n) for n in range(2)]
