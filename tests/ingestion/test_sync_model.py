"""Sync against a plain model: random trees with links, moves, edits, equal files, two sources, and crashes between."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from agent_rag import DirectorySource, KnowledgeBase, MemoryStore, ParserPool, sync
from agent_rag.errors import EmbeddingUnavailableError
from agent_rag.testing import HashEmbedding

NAMES = ["a.txt", "b.md", "x/a.txt", "x/c.txt", "x/y/d.md", "z/a.txt", "Z\u00fcrich.txt", "Zu\u0308rich.txt"]
WORDS = ["alpha", "beta", "gamma", "delta"]
SOURCES = ["A", "B"]
names, words, sources = st.sampled_from(NAMES), st.sampled_from(WORDS), st.sampled_from(SOURCES)


def nfc(name: str) -> str:
    """The form in which names are compared."""
    return unicodedata.normalize("NFC", name)


class Crashing(HashEmbedding):
    """Ends the run at a request when told to."""

    crash_in: int | None = None

    async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise EmbeddingUnavailableError("the process was killed here")
        return await super().__call__(inputs, mode=mode)


def expected(root: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Real path of each file -> its text and all its names, by walking and reading, and nothing else."""
    found: dict[str, tuple[str, set[str]]] = {}

    def look(folder: Path, prefix: str, above: tuple[str, ...]) -> None:
        for path in sorted(folder.iterdir()):
            real = os.path.realpath(path)
            if not os.path.exists(real) or not real.startswith(os.path.realpath(root)):
                continue
            if os.path.isdir(real):
                if real not in above:
                    look(path, f"{prefix}{path.name}/", (*above, real))
            else:
                found.setdefault(real, (Path(real).read_text(), set()))[1].add(nfc(prefix + path.name))

    look(root, "", (os.path.realpath(root),))
    return {real: (text, tuple(sorted(all_names))) for real, (text, all_names) in found.items()}


class SyncModel(RuleBasedStateMachine):
    """Rules change the trees; `sync` rules compare."""

    pool: ParserPool
    runner: asyncio.Runner

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.roots = {name: self.folder / name for name in SOURCES}
        for root in self.roots.values():
            root.mkdir()
        self.model = Crashing()
        self.store = MemoryStore()
        self.runner.run(self.store.__aenter__())
        self.kb = KnowledgeBase("kb", "files", self.model, self.store, "kb")
        self.synced: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {}
        self.moves = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def put(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError:  # a link to nothing, or a file where a folder is needed
            pass

    @rule(source=sources, name=names, word=words)
    def write(self, source: str, name: str, word: str) -> None:
        self.put(self.roots[source] / name, f"{word} text")

    @rule(name=names, word=words)
    def write_the_same_to_both(self, name: str, word: str) -> None:
        for root in self.roots.values():
            self.put(root / name, f"{word} text")

    @rule(source=sources, name=names)
    def delete(self, source: str, name: str) -> None:
        (self.roots[source] / name).unlink(missing_ok=True)

    @rule(source=sources, old=names, new=names)
    def rename(self, source: str, old: str, new: str) -> None:
        before, after = self.roots[source] / old, self.roots[source] / new
        if before.is_file() and not after.is_symlink():
            after.parent.mkdir(parents=True, exist_ok=True)
            before.replace(after)

    @rule(source=sources, old=st.sampled_from(["x", "z"]), new=st.sampled_from(["x", "z", "w"]))
    def rename_folder(self, source: str, old: str, new: str) -> None:
        before, after = self.roots[source] / old, self.roots[source] / new
        if before.is_dir() and not before.is_symlink() and not after.exists() and not after.is_symlink():
            before.rename(after)

    @rule(source=sources, name=st.sampled_from(["l.txt", "x/l.md", "m.txt"]), leads_to=names)
    def link(self, source: str, name: str, leads_to: str) -> None:
        path = self.roots[source] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(self.roots[source] / leads_to)

    @rule(source=sources)
    def link_folder(self, source: str) -> None:
        path = self.roots[source] / "current"
        if not path.is_symlink():
            path.symlink_to("x")

    @rule(source=sources)
    def move_tree(self, source: str) -> None:
        self.moves += 1
        target = self.folder / f"moved{self.moves}" / source
        target.parent.mkdir()
        links = [path for path in self.roots[source].rglob("*") if path.is_symlink() and path.name != "current"]
        targets = {path.relative_to(self.roots[source]): os.readlink(path) for path in links}
        self.roots[source].rename(target)
        for relative, old in targets.items():
            (target / relative).unlink()
            (target / relative).symlink_to(target / os.path.relpath(old, self.roots[source]))
        self.roots[source] = target

    @rule(requests=st.integers(0, 2))
    def crash_soon(self, requests: int) -> None:
        self.model.crash_in = requests

    def sync(self, source: str) -> None:
        """One sync and a second one, compared with the model."""
        root = self.roots[source]
        now = expected(root)
        try:
            report = self.runner.run(
                sync(self.kb, DirectorySource(root, name=source), pool=self.pool, max_prune_share=1.0,
                     embedding_batch_size=1)
            )  # fmt: skip
        except EmbeddingUnavailableError:
            self.model.crash_in = None
            self.synced.pop(source, None)
            return
        assert report.ok, report.of("failed")
        self.synced[source] = now
        again = self.runner.run(sync(self.kb, DirectorySource(root, name=source), pool=self.pool, max_prune_share=1.0))
        assert set(again.counts) <= {"unchanged", "skipped"}, again.files
        assert again.embedded == 0

    # Several rules of one kind, since each rule is drawn as often as any other.
    sync_1 = rule(source=sources)(lambda self, source: self.sync(source))
    sync_2 = rule(source=sources)(lambda self, source: self.sync(source))
    sync_3 = rule(source=sources)(lambda self, source: self.sync(source))

    @rule(name=names, first=words, then=words)
    def edit_between_syncs(self, name: str, first: str, then: str) -> None:
        for word in (first, then):
            self.write("A", name, word)
            self.sync("A")

    @rule(old=names, new=names)
    def rename_between_syncs(self, old: str, new: str) -> None:
        self.sync("A")
        self.rename("A", old, new)
        self.sync("A")

    @invariant()
    def holds_what_was_synced(self) -> None:
        if not hasattr(self, "synced"):
            return
        found = self.runner.run(self.documents())
        for source, state in self.synced.items():
            assert sorted(found.get(source, [])) == sorted(state.values())

    async def documents(self) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
        """Source -> text and names of each document."""
        found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        for document in await self.kb.list_documents():
            chunks = await self.kb.list_chunks(document.document_id)
            assert {chunk.uri for chunk in chunks} == {document.uri}
            also = document.metadata.get("also", [])
            own = document.state["path"]
            on_disk = tuple(sorted(map(nfc, [own, *also])))
            found.setdefault(document.state["source"], []).append((" ".join(c.text for c in chunks), on_disk))
        return found


@pytest.mark.parametrize(
    ("examples", "steps"), [(6, 40), pytest.param(50, 40, marks=pytest.mark.slow)], ids=["240 steps", "2,000 steps"]
)
def test_sync_is_what_a_plain_program_says(examples: int, steps: int) -> None:
    """After each sync a source has its files, each once with all its names, and a second sync does nothing."""
    with asyncio.Runner() as runner:
        pool = ParserPool(workers=1)
        machine = type("Machine", (SyncModel,), {"pool": pool, "runner": runner})
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            pool.close()
