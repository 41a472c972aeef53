"""Names for SQL, made of headers, sheets and files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_SPELLED = str.maketrans({
    "ä": "ae", "ö": "oe", "ü": "ue", "Ä": "ae", "Ö": "oe", "Ü": "ue", "ß": "ss", "ø": "oe", "Ø": "oe", "æ": "ae",
    "Æ": "ae", "ł": "l", "Ł": "l", "%": " percent ", "€": " eur ", "$": " usd ", "£": " gbp ",
    "#": " no ", "&": " and ",
})  # fmt: skip
_MAX_CHARACTERS = 40
_RESERVED = frozenset({
    "abort", "action", "add", "after", "all", "alter", "always", "analyze", "and", "as", "asc", "attach",
    "autoincrement", "before", "begin", "between", "by", "cascade", "case", "cast", "check", "collate", "column",
    "commit", "conflict", "constraint", "create", "cross", "current", "default", "deferrable", "deferred", "delete",
    "desc", "detach", "distinct", "do", "drop", "each", "else", "end", "escape", "except", "exclude", "exclusive",
    "exists", "explain", "fail", "filter", "first", "following", "for", "foreign", "from", "full", "generated",
    "glob", "group", "groups", "having", "if", "ignore", "immediate", "in", "index", "indexed", "initially", "inner",
    "insert", "instead", "intersect", "into", "is", "isnull", "join", "key", "last", "left", "like", "limit",
    "match", "materialized", "natural", "no", "not", "nothing", "notnull", "null", "nulls", "of", "offset", "on",
    "or", "order", "others", "outer", "over", "partition", "plan", "pragma", "preceding", "primary", "query",
    "raise", "range", "recursive", "references", "regexp", "reindex", "release", "rename", "replace", "restrict",
    "returning", "right", "rollback", "row", "rows", "savepoint", "select", "set", "table", "temp", "temporary",
    "then", "ties", "to", "transaction", "trigger", "unbounded", "union", "unique", "update", "using", "vacuum",
    "values", "view", "virtual", "when", "where", "window", "with", "without", "main", "data", "rowid", "oid",
})  # fmt: skip
"""SQLite's keywords (https://sqlite.org/lang_keywords.html) and names that its tables have anyway."""


def sql_name(text: str, *, otherwise: str) -> str:
    """A name that needs no quotes: ``Umsatz (T€)`` is ``umsatz_t_eur``; `otherwise` where nothing is left of it.

    Letters of Latin script lose their accents, those of others stay.
    """
    plain = unicodedata.normalize("NFKD", text.translate(_SPELLED))
    plain = unicodedata.normalize("NFC", "".join(c for c in plain if not unicodedata.combining(c)))
    words = re.findall(r"\w+", plain.lower())
    name = ""
    for word in "_".join(words).split("_"):
        if len(name) + len(word) + 1 > _MAX_CHARACTERS and name:
            break
        name = f"{name}_{word}"[: _MAX_CHARACTERS + 1] if name else word[:_MAX_CHARACTERS]
    name = name.strip("_") or otherwise
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if name in _RESERVED else name


def distinct(names: Iterable[str]) -> list[str]:
    """`names` with ``_2``, ``_3`` behind those that stood before."""
    taken: set[str] = set()
    made: list[str] = []
    for name in names:
        one, number = name, 1
        while one in taken:
            number += 1
            one = f"{name}_{number}"
        taken.add(one)
        made.append(one)
    return made


def quoted(name: str) -> str:
    """A name as SQL takes any."""
    return '"' + name.replace('"', '""') + '"'
