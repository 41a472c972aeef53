"""A worker process bounds time and memory, dies alone, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from pathlib import Path

import pytest

from agent_rag import ParserBase, Section
from agent_rag.documents import text_section
from agent_rag.errors import ConfigurationError, ParseError, ParseLimitError, ParserCrashedError, ParseTimeoutError
from agent_rag.parsers import ParserPool, PDFParser, TextParser
from agent_rag.workers import WorkerPool, run_isolated

from .samples import pdf_sample

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="memory limits are enforced on Linux: run it there")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_worker_can_be_prepared(tmp_path: Path) -> None:
    """It is there when it is needed, with what the call has loaded; only the first one is."""
    async with WorkerPool(1) as pool:
        pool.prepare(os.mkdir, str(tmp_path / "first"))
        first = await pool.run(os.getpid, filename="pid")
        pool.prepare(os.mkdir, str(tmp_path / "second"))
        second = await pool.run(os.getpid, filename="pid")

    assert first == second != os.getpid()
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


async def test_a_parser_gives_the_same_in_a_worker() -> None:
    """Sections come back whole, and the next file meets a warm worker."""
    async with ParserPool(1) as pool:
        first = await pool.parse(PDFParser(), pdf_sample(), "a.pdf")
        worker = await pool.run(os.getpid, filename="a")
        second = await pool.parse(PDFParser(), pdf_sample(), "a.pdf")
        worker_after = await pool.run(os.getpid, filename="a")

    assert first == second == await PDFParser(isolation="none").parse(pdf_sample(), "a.pdf")
    assert worker_after == worker


async def test_a_long_answer_arrives_whole() -> None:
    """Longer than a pipe holds."""
    async with ParserPool(1) as pool:
        answer = await pool.run(bytes, 5_000_000, filename="a")

    assert answer == bytes(5_000_000)


async def test_a_relative_path_means_the_same_in_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the caller has changed its folder since the worker started."""
    (tmp_path / "a.txt").write_text("found")
    async with ParserPool(1) as pool:
        await pool.run(os.getpid, filename="warm-up")
        monkeypatch.chdir(tmp_path)

        sections = await pool.parse(TextParser(), Path("a.txt"), "a.txt")

    assert sections[0].text == "found"


async def test_a_file_that_takes_too_long_is_cut_off() -> None:
    """The worker is killed, and the next file finds another one."""
    async with ParserPool(1, timeout_s=0.5) as pool:
        before = await pool.run(os.getpid, filename="a")
        with pytest.raises(ParseTimeoutError, match=r"slow\.pdf.*timeout_s=0\.5"):
            await pool.run(time.sleep, 30, filename="slow.pdf")
        after = await pool.run(os.getpid, filename="a")

    assert after != before
    assert not _is_alive(before)


async def test_a_crash_costs_one_file() -> None:
    """An abort in a native library is a typed error with the signal."""
    async with ParserPool(1) as pool:
        with pytest.raises(ParserCrashedError, match=r"bad\.pdf.*SIGABRT"):
            await pool.run(os.abort, filename="bad.pdf")

        assert await pool.run(len, "abc", filename="good.pdf") == 3


@linux_only
@pytest.mark.parametrize("size", [300 << 20, 4 << 40], ids=["grows over the limit", "one huge request"])
async def test_memory_is_bounded(size: int) -> None:
    """Memory over the limit is a limit error that names the option."""
    async with ParserPool(1, memory_mb=200) as pool:
        with pytest.raises(ParseLimitError, match=r"big\.xls.*memory_mb=200"):
            await pool.run(bytearray, size, filename="big.xls")


async def test_cancelling_kills_the_worker_at_once() -> None:
    """`asyncio.timeout` and friends really stop the work."""
    async with ParserPool(1) as pool:
        pid = await pool.run(os.getpid, filename="a")
        task = asyncio.create_task(pool.run(time.sleep, 30, filename="a"))
        await asyncio.sleep(0.3)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while _is_alive(pid) and time.monotonic() - started < 20:
            await asyncio.sleep(0.02)

    assert not _is_alive(pid)


async def test_no_more_files_than_workers_are_parsed_at_once() -> None:
    """Five jobs of 0.2 s on two workers take three rounds."""
    async with ParserPool(2) as pool:
        await asyncio.gather(*(pool.run(time.sleep, 0.1, filename="warm-up") for _ in range(2)))
        started = time.monotonic()
        await asyncio.gather(*(pool.run(time.sleep, 0.2, filename="a") for _ in range(5)))

        assert len(pool._workers._all) == 2

    assert time.monotonic() - started >= 0.6


class Broken(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def _raise_with_cause() -> None:
    try:
        raise Broken("inner", "reason")
    except Broken as error:
        raise ParseError("x.pdf: outer") from error


def _warn() -> None:
    logging.getLogger("agent_rag.parsers.test").warning("page %d is odd", 3)


async def test_errors_keep_their_cause_across_the_pipe() -> None:
    """A cause that does not survive pickling is replaced by one that names it."""
    async with ParserPool(1) as pool:
        with pytest.raises(ParseError, match=r"x\.pdf: outer") as caught:
            await pool.run(_raise_with_cause, filename="x.pdf")

    assert "Broken: inner reason" in str(caught.value.__cause__)


async def test_warnings_of_the_worker_are_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    """What a parser goes on without is said, though it happened in another process."""
    async with ParserPool(1) as pool:
        await pool.run(_warn, filename="x")

    assert "page 3 is odd" in caplog.text


def test_a_script_without_a_main_guard_parses(tmp_path: Path) -> None:
    """The workers never import the caller's main module; a parser defined in it runs in a thread."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import asyncio, os
            from agent_rag import ParserBase, ParserPool, Section, TextBlock

            class Mine(ParserBase):
                supported_media_types = ["text/plain"]
                async def parse(self, file, filename):
                    return [Section(content=TextBlock(text=str(os.getpid())), source=filename)]

            async def main():
                async with ParserPool(1) as pool:
                    other = await pool.run(os.getpid, filename="x")
                    here = (await pool.parse(Mine(), b"x", "x"))[0].text
                    print(other != os.getpid(), here == str(os.getpid()))

            asyncio.run(main())
            """
        )
    )

    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=60)

    assert done.stdout.split() == ["True", "True"]
    assert done.stderr == ""


def test_nothing_is_left_when_the_process_ends(tmp_path: Path) -> None:
    """Not closed and even killed: no process stays, no folder stays, no warning comes."""
    script = (
        "import asyncio, os, sys; from agent_rag.workers import run_isolated;"
        "print(asyncio.run(run_isolated(os.getpid, filename='x')), flush=True);"
        "sys.argv[1] == 'killed' and os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    for way in ("ended", "killed"):
        command = [sys.executable, "-W", "error", "-c", script, way]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        worker = int(done.stdout)
        waited = time.monotonic()
        while (_is_alive(worker) or any(tmp_path.iterdir())) and time.monotonic() - waited < 10:
            time.sleep(0.05)

        assert not _is_alive(worker), way
        assert list(tmp_path.iterdir()) == [], way
        assert done.stderr == "", way


async def test_a_forgotten_pool_ends_its_workers() -> None:
    """With its last reference, and without a ResourceWarning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pool = ParserPool(1)
        pid = await pool.run(os.getpid, filename="x")
        del pool
        gc.collect()

    assert not _is_alive(pid)
    assert not list(Path(tempfile.gettempdir()).glob(f"agent-rag-worker-*/{pid}"))


async def test_what_the_worker_prints_does_no_harm() -> None:
    """Native libraries write to standard output; the frames go another way."""
    async with ParserPool(1) as pool:
        await pool.run(os.write, 1, b"noise", filename="x")

        assert await pool.run(len, "abc", filename="x") == 3


async def test_a_closed_pool_says_so() -> None:
    """Instead of starting workers that nobody ends."""
    pool = ParserPool(1)
    pool.close()

    with pytest.raises(ConfigurationError, match="closed"):
        await pool.run(os.getpid, filename="x")


@pytest.mark.parametrize("options", [{"workers": 0}, {"timeout_s": 0}, {"memory_mb": 1}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    """With the values and the bounds."""
    with pytest.raises(ConfigurationError, match="needs workers >= 1"):
        ParserPool(**options)


class Crashing(PDFParser):
    """Stands for a document on which pdfium ends its process."""

    def parse_here(self, file: bytes | str | Path, filename: str) -> list[Section]:
        os.kill(os.getpid(), signal.SIGSEGV)
        return []


async def test_a_document_that_ends_pdfium_is_read_by_pypdf(caplog: pytest.LogCaptureFixture) -> None:
    """The fallback runs in a fresh worker, and the log says so."""
    async with ParserPool(1) as pool:
        sections = await pool.parse(Crashing(), pdf_sample(), "a.pdf")

    assert sections[1].text == "Second."
    assert "SIGSEGV" in caplog.text


class Odd(ParserBase):
    supported_media_types = ["text/plain"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        if file == b"boom":
            raise KeyError("inside")
        return [text_section("x", filename)]


async def test_any_exception_of_a_custom_parser_is_a_parse_error() -> None:
    """It names the file and keeps the original."""
    async with ParserPool(1) as pool:
        with pytest.raises(ParseError, match=r"a\.txt: Odd failed: KeyError"):
            await pool.parse(Odd(), b"boom", "a.txt")


async def test_run_isolated_without_isolation_stays_in_this_process() -> None:
    """In a thread."""
    assert await run_isolated(os.getpid, filename="x", isolation="none") == os.getpid()
    assert await run_isolated(os.getpid, filename="x") != os.getpid()
