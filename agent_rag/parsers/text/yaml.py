"""YAML, kept as written."""

from __future__ import annotations

from typing import ClassVar

from ...documents import Section
from .outline import yaml_headings
from .plain import DecodingParser, as_written


class YAMLParser(DecodingParser):
    """The text as it stands, one Section with metadata ``{"format": "yaml"}``; keys and records are headings.

    It is never loaded: aliases that expand without end, tags that make objects and comments are all just text.
    """

    format_name = "YAML"
    supported_media_types: ClassVar[list[str]] = ["application/yaml", "application/x-yaml", "text/yaml"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".yaml", ".yml"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        return as_written(text, filename, yaml_headings(text), format="yaml")
