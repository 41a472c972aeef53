"""Templates that users write: named placeholders are filled, every other brace is plain text and never raises."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with ``{name}`` replaced for each name in `values`.

    Where the template is a format string of these names only, doubled braces mean single ones, as in `str.format`.
    """
    pattern = "|".join(re.escape(name) for name in values)
    if _is_format_string(template, values):
        return re.sub(r"\{\{|\}\}|\{(" + pattern + r")\}", lambda m: values[m[1]] if m[1] else m[0][0], template)
    return re.sub(r"\{(" + pattern + r")\}", lambda match: values[match[1]], template)


def _is_format_string(template: str, names: Iterable[str]) -> bool:
    try:
        fields = [part[1:] for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError:
        return False
    return all(field in {(name, "", None) for name in names} for field in fields)
