"""Source code, kept as written."""

from __future__ import annotations

from pathlib import PurePath
from typing import ClassVar

from ...documents import Section, text_section
from .plain import DecodingParser

# Names as tree-sitter's language pack has them, so that a CodeChunker finds the grammar.
LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "tsx", ".java": "java", ".kt": "kotlin", ".kts": "kotlin",
    ".scala": "scala", ".go": "go", ".rs": "rust", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hpp": "cpp", ".cs": "csharp", ".swift": "swift", ".rb": "ruby", ".php": "php", ".pl": "perl", ".lua": "lua",
    ".r": "r", ".jl": "julia", ".sh": "bash", ".bash": "bash", ".zsh": "bash", ".ps1": "powershell", ".sql": "sql",
    ".css": "css", ".scss": "scss", ".toml": "toml", ".ini": "ini", ".cfg": "ini", ".proto": "proto",
    ".graphql": "graphql", ".tf": "hcl", ".dart": "dart", ".ex": "elixir", ".exs": "elixir", ".erl": "erlang",
    ".hs": "haskell", ".ml": "ocaml", ".clj": "clojure", ".vue": "vue", ".svelte": "svelte",
}  # fmt: skip


class CodeParser(DecodingParser):
    """The text as it stands, one Section with metadata ``{"format": "code", "language": "python"}``.

    The language comes from the file name's ending; an ending that is not known gives ``"text"``.
    """

    format_name = "source code"
    supported_media_types: ClassVar[list[str]] = [
        "text/x-python", "application/javascript", "text/javascript", "text/x-c", "text/x-java-source", "text/x-go",
        "text/x-rust", "application/x-sh", "application/sql", "application/toml",
    ]  # fmt: skip

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return sorted(LANGUAGES)

    def read_text(self, text: str, filename: str) -> list[Section]:
        language = LANGUAGES.get(PurePath(filename).suffix.lower(), "text")
        return [text_section(text, filename, format="code", language=language)]
