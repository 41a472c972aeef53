"""As in a notebook: stores without a block, cells that run twice, results that show themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_rag import KnowledgeBase, SQLiteStore, TextSource, run_sync, sync
from agent_rag.errors import StoreClosedError
from agent_rag.testing import HashEmbedding


async def filled(path: Path) -> KnowledgeBase:
    """A cell that opens a store and fills it."""
    store = await SQLiteStore(path).open()
    kb = KnowledgeBase("notes", "Notes.", HashEmbedding(), store, "notes")
    await sync(kb, TextSource({"a.md": "# Gateway\n\nThe <b>timeout</b> is thirty seconds."}))
    return kb


async def test_a_cell_may_run_twice(tmp_path: Path) -> None:
    """The second store of the process has the same file, and sees what the first wrote."""
    first, second = await filled(tmp_path / "n.db"), await filled(tmp_path / "n.db")

    assert await first.count() == await second.count() == 1
    await second.vector_store.close()
    assert len(await first.search("timeout")) == 1
    await first.vector_store.close()
    with pytest.raises(StoreClosedError, match=r"await store.open\(\)"):
        await first.search("timeout")


def test_plain_code_opens_and_searches(tmp_path: Path) -> None:
    """Without a running loop, each call on its own."""
    kb = run_sync(filled(tmp_path / "n.db"))

    assert [hit.document_id for hit in run_sync(kb.search("timeout"))] == ["a.md"]
    run_sync(kb.vector_store.close())


async def test_hits_show_themselves(tmp_path: Path) -> None:
    """A list that shows passages; text of documents cannot become HTML."""
    kb = await filled(tmp_path / "n.db")

    hits = await kb.search("timeout")
    nothing = await kb.search("timeout", filter={"year": 1})

    assert isinstance(hits, list)
    assert "<b>a.md, lines [1, 3], Gateway</b>" in hits._repr_html_()  # type: ignore[attr-defined]
    assert "The &lt;b&gt;timeout&lt;/b&gt; is" in hits._repr_html_()  # type: ignore[attr-defined]
    assert (nothing, nothing._repr_html_()) == ([], "<p>nothing found</p>")  # type: ignore[attr-defined]
    await kb.vector_store.close()


async def test_a_report_shows_failures_first(tmp_path: Path) -> None:
    """What is unchanged is a number; names are text."""
    from agent_rag import ingest

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("It rains.")
    (tmp_path / "docs/<i>.pdf").write_bytes(b"%PDF-1.4 broken")
    kb = await filled(tmp_path / "n.db")

    shown = (await ingest(kb, tmp_path / "docs"))._repr_html_()
    again = (await ingest(kb, tmp_path / "docs"))._repr_html_()

    assert shown.index("&lt;i&gt;.pdf</td><td>failed") < shown.index("a.txt</td><td>added")
    assert "1 unchanged" in again
    assert "a.txt" not in again
    await kb.vector_store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
@pytest.mark.parametrize("call", ["kb.search('timeout')", "kb.delete_document('a.md')"])
def test_a_store_opened_before_a_fork_says_so_at_once(tmp_path: Path, call: str) -> None:
    """Reading and writing; a store opened in the child works."""
    code = f"""
import os, sys, warnings
warnings.simplefilter("ignore")
from agent_rag import run_sync
from agent_rag.errors import StoreError
from tests.test_notebook import filled
kb = run_sync(filled({str(tmp_path / "n.db")!r}))
run_sync(kb.delete_document("nothing"))
child = os.fork()
if child == 0:
    try:
        run_sync({call})
    except StoreError as error:
        print("open one in the child instead" in str(error), flush=True)
    print(len(run_sync(run_sync(filled({str(tmp_path / "n.db")!r})).search("timeout"))), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (result.returncode, result.stdout) == (0, "True\n1\n"), result.stderr
