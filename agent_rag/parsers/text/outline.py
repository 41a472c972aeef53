"""The outline of configuration files: what stands above a line."""

from __future__ import annotations

import re

from ...documents import Heading
from ..headings import Headings, matches_in_lines

_INI_SECTION = re.compile(r"^[ \t]{0,8}\[{1,2}([^\[\]\n]{1,200})\]{1,2}[ \t]*(?:[#;][^\n]*)?$", re.M)
_YAML_KEY = re.compile(r"^( {0,40})(- {1,4})?([\w\"'][^\n:#{}\[\]]{0,80}):(?:[ \t]+([^\n]{0,80})[^\n]*)?$", re.M)
_SQL_STATEMENT = re.compile(r"^[ \t]{0,8}((?:create|insert|alter|replace|copy|merge)\b[^\n;]{1,200})", re.M | re.I)
_MAX_LEVEL = 4


def ini_headings(text: str) -> list[Heading]:
    """The sections of INI and TOML; a dotted name is below the one that it goes on."""
    headings = Headings()
    path: list[str] = []
    for found in matches_in_lines(_INI_SECTION, text):
        name = found[1].strip()
        while path and not name.startswith(f"{path[-1]}."):
            path.pop()
        path.append(name)
        headings.add(min(len(path), _MAX_LEVEL), name, found.start())
    return headings.found


def sql_headings(text: str) -> list[Heading]:
    """Statements that define or fill a table, by their first line: the values of a long one are found with it."""
    headings = Headings()
    for found in matches_in_lines(_SQL_STATEMENT, text):
        headings.add(1, " ".join(found[1].split()).rstrip(" ("), found.start())
    return headings.found


def yaml_headings(text: str) -> list[Heading]:
    """Keys that hold more than a value, and the first line of each record of a list; none inside of block text."""
    headings = Headings()
    indents: list[int] = []
    block_indent: int | None = None
    for found in matches_in_lines(_YAML_KEY, text):
        indent = len(found[1])
        if block_indent is not None and indent > block_indent:
            continue
        value = (found[4] or "").strip()
        block_indent = indent + len(found[2] or "") if value[:1] in ("|", ">") else None
        if value and not found[2] and not value.startswith(("#", "&", "!")):
            continue
        while indents and indents[-1] >= indent + (1 if found[2] else 0):
            indents.pop()
        indents.append(indent + (1 if found[2] else 0))
        if len(indents) <= _MAX_LEVEL:
            key = found[3].strip("\"'")
            is_record = found[2] and value[:1] not in ("", "|", ">", "#", "&", "!", "{", "[")
            headings.add(len(indents), f"{key}: {value}" if is_record else key, found.start())
    return headings.found
