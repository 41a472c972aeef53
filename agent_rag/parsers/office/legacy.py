"""Word and PowerPoint files of before 2007 (.doc, .ppt), converted by LibreOffice where it is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from ...documents import Section
from ...errors import ConfigurationError, ParseError, ParseTimeoutError, UnsupportedFormatError
from ...workers import Isolation
from .. import sniff
from ..file import DEFAULT_MAX_FILE_BYTES, MIB, FileParser
from ..text.plain import TextParser
from .powerpoint import PPTParser
from .word import WordParser

DOC, PPT = "application/msword", "application/vnd.ms-powerpoint"
_PROGRAMS = ("soffice", "libreoffice", "/Applications/LibreOffice.app/Contents/MacOS/soffice")
_FORMATS = {DOC: "docx", PPT: "pptx"}
_MEMORY_BYTES = 4096 * MIB
"""Address space of LibreOffice; a worker's own limit is too low for it to start."""
_SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting">
<prop oor:name="MacroSecurityLevel" oor:op="fuse"><value>3</value></prop>
<prop oor:name="DisableMacrosExecution" oor:op="fuse"><value>true</value></prop>
<prop oor:name="BlockUntrustedRefererLinks" oor:op="fuse"><value>true</value></prop>
</item></oor:items>
"""
"""Of the throw-away profile: no macro runs, and nothing that a file links to is fetched."""


class LegacyOfficeParser(FileParser):
    """Converts .doc to .docx and .ppt to .pptx with LibreOffice, headless, and reads what comes out.

    `WordParser` and `PPTParser` say what the Sections are. Each file gets a profile of its own, which is thrown away.
    Without LibreOffice the error says what to do.

    Args:
        program: Path of ``soffice``; None looks for it.
        timeout_s: For the conversion of one file; in a pool below the pool's own limit.
        max_file_bytes: Bound on the file's size.
        isolation: "process" converts from a worker process, "none" from a thread.

    Raises: ConfigurationError: `timeout_s` is not positive.
    """

    format_name = "old Office document"
    supported_media_types: ClassVar[list[str]] = [DOC, PPT]

    def __init__(
        self,
        *,
        program: str | None = None,
        timeout_s: float = 50.0,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: Isolation = "process",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        if timeout_s <= 0:
            raise ConfigurationError(f"timeout_s is {timeout_s}; it must be above 0")
        self.program = program
        self.timeout_s = timeout_s

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".doc", ".dot", ".pot", ".pps", ".ppt"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        kind, certain = sniff.detect(data)
        if certain == "text":
            return TextParser().read(data, filename)  # programs and people call text .doc
        if kind not in _FORMATS:
            raise UnsupportedFormatError(f"{filename}: the content is {kind}, not an old Word or PowerPoint file")
        converted = self._converted(data, _FORMATS[kind], filename)
        parser = WordParser(isolation="none") if kind == DOC else PPTParser(isolation="none")
        return parser.read(converted, filename)

    def _converted(self, data: bytes, ending: str, filename: str) -> bytes:
        program = self.program or next(filter(None, map(shutil.which, _PROGRAMS)), None)
        if program is None:
            raise UnsupportedFormatError(
                f"{filename}: files of before Office 2007 are read with LibreOffice, which is not installed; "
                f"apt-get install libreoffice-writer libreoffice-impress (macOS: brew install --cask libreoffice), "
                f"or save the file as .{ending}"
            )
        with tempfile.TemporaryDirectory(prefix="agent-rag-office-") as name:
            folder = Path(name)
            source = folder / f"file.{ending[:3]}"
            source.write_bytes(data)
            profile = folder / "profile"
            (profile / "user").mkdir(parents=True)
            (profile / "user" / "registrymodifications.xcu").write_text(_SETTINGS, encoding="utf-8")
            said = self._run(program, profile, ending, source, filename)
            result = folder / "out" / f"file.{ending}"
            if not result.is_file():
                reason = said[:300] or "it says nothing"
                raise ParseError(f"{filename}: LibreOffice cannot convert it to .{ending} ({reason}); is it damaged?")
            return result.read_bytes()

    def _run(self, program: str, profile: Path, ending: str, source: Path, filename: str) -> str:
        """Returns: what the program printed."""
        command = [
            program, "--headless", "--norestore", "--nolockcheck", "--nodefault", "--nofirststartwizard",
            f"-env:UserInstallation={profile.as_uri()}", "--convert-to", ending,
            "--outdir", str(source.parent / "out"), str(source),
        ]  # fmt: skip
        process = subprocess.Popen(
            command,
            cwd=source.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(source.parent)},
            start_new_session=True,
            preexec_fn=_limits(self.timeout_s) if os.name == "posix" else None,
        )
        try:
            output, _ = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ParseTimeoutError(
                f"{filename}: LibreOffice took longer than timeout_s={self.timeout_s:g}; "
                "pass LegacyOfficeParser(timeout_s=...)"
            ) from error
        finally:
            _end(process)
        return " ".join(output.decode("utf-8", "replace").split())


def _limits(timeout_s: float) -> Callable[[], None]:
    """What the child sets for itself: processor time, so that it ends though its parent was killed, and memory."""
    import resource

    def apply() -> None:
        seconds = int(timeout_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    return apply


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program starts others; all of them are one session."""
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()
