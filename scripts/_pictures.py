"""Write docs/pictures/*.svg: what the commands print on a terminal, taken from real runs on examples/handbook."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shlex
import shutil
import struct
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
BROKEN = b"%PDF-1.4 broken"
HANDBOOK = {
    "ingest": ["agent-rag ingest handbook"],
    "search": ['agent-rag search -n 1 "How much is the referral bonus?"'],
    "ask": ['agent-rag ask "How much is the referral bonus?"'],
    "status": ["agent-rag status"],
    "doctor": ["agent-rag doctor"],
}
FIVE_FILES = (
    "policies/people-guide.docx", "policies/leave-and-absence.md", "products/warranty-terms.pdf",
    "finance/budget-2025.xlsx", "news/canteen-move.eml",
)  # fmt: skip
FIRST_MINUTE = ["agent-rag init", "agent-rag ingest", 'agent-rag ask "How much is the referral bonus?"']
ROWS = 400


def on_terminal(command: str, folder: Path, width: int) -> str:
    """What a command writes to a terminal of this width; progress goes elsewhere."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        program = Path(sys.executable).with_name("agent-rag")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "AGENT_RAG_"))}
        environment = {**plain, "TERM": "xterm-256color", "COLUMNS": str(width), "LINES": str(ROWS)}
        environment.pop("NO_COLOR", None)
        os.execve(program, [str(program), *shlex.split(command)[1:]], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        written += piece
    os.waitpid(child, 0)
    return written.decode("utf-8", "replace").replace("\r\n", "\n")


def picture(commands: list[tuple[str, str]], width: int, title: str) -> str:
    """Commands and what they wrote, as SVG."""
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor", highlight=False
    )
    for command, written in commands:
        console.print(Text("$ ", style="bold green") + Text(command))
        console.print(Text.from_ansi(written.rstrip("\n")))
    drawn = console.export_svg(title=title, unique_id="agent-rag")
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # they would be fetched from elsewhere


def drawn(name: str, commands: list[str], place: Path, width: int) -> None:
    written = [(command, on_terminal(command, place, width).replace(str(place), "~")) for command in commands]
    suffix = "" if width == 80 else f"-{width}"
    (FOLDER / f"{name}{suffix}.svg").write_text(picture(written, width, "agent-rag"), "utf-8")


def main() -> None:
    """Arguments are widths of the terminal; default: 80."""
    FOLDER.mkdir(exist_ok=True)
    for width in [int(given) for given in sys.argv[1:]] or [80]:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            shutil.copytree(ROOT / "examples" / "handbook", place / "handbook")
            (place / "handbook" / "scan-of-a-letter.pdf").write_bytes(BROKEN)
            for picture_name, commands in HANDBOOK.items():
                drawn(picture_name, commands, place, width)
        with tempfile.TemporaryDirectory() as name:
            place = Path(name) / "handbook"
            place.mkdir()
            for file in FIVE_FILES:
                shutil.copy(ROOT / "examples" / "handbook" / file, place)
            drawn("first-minute", FIRST_MINUTE, place, width)


if __name__ == "__main__":
    main()
