"""YAML, kept as written."""

from __future__ import annotations

from typing import ClassVar

from ...documents import Section, text_section
from .plain import DecodingParser


class YAMLParser(DecodingParser):
    """The text as it stands, one Section with metadata ``{"format": "yaml"}``.

    It is never loaded: aliases that expand without end, tags that make objects and comments are all just text.
    """

    format_name = "YAML"
    supported_media_types: ClassVar[list[str]] = ["application/yaml", "application/x-yaml", "text/yaml"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".yaml", ".yml"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        return [text_section(text, filename, format="yaml")]
