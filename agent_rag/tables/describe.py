"""What there is to ask: tables and their columns as text, as much as fits."""

from __future__ import annotations

from collections.abc import Sequence

from .catalog import CatalogTable
from .model import Column, TableInfo, Value

_MAX_COLUMNS = 40
_TEXT_EXAMPLES = 4
_ALL_VALUES = 8
_SHOWN_CHARACTERS = 32


def described(tables: Sequence[CatalogTable], *, characters: int, missing: int = 0) -> str:
    """The tables with their columns, those first that stand first; what does not fit is named, then counted.

    Args:
        characters: Length of the text, about.
        missing: Documents whose tables are not here.
    """
    lost = [f"the tables of {missing} document(s) are not here: ingest them again (--reread)"] if missing else []
    if not tables:
        return "\n".join(["there are no tables", *lost])
    parts: list[str] = []
    left = characters
    for index, table in enumerate(tables):
        text = _table(table)
        if len(text) > left and parts:
            names = [one.name for one in tables[index:]]
            shown = ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "")
            parts.append(f"{len(names)} more table(s), ask for them by name or with a question: {shown}")
            break
        parts.append(text)
        left -= len(text)
    return "\n".join([*parts, *lost])


def _table(table: CatalogTable) -> str:
    info = table.info
    title = f' "{info.title}"' if info.title else ""
    lines = [f"{table.name}: {info.row_count:,} rows, {place_of(table)}{title}"]
    lines += [f"  {_column(column)}" for column in info.columns[:_MAX_COLUMNS]]
    if len(info.columns) > _MAX_COLUMNS:
        names = ", ".join(column.name for column in info.columns[_MAX_COLUMNS:])
        lines.append(f"  further columns: {names[:600]}")
    lines.append(f"  _row integer: number of the {info.unit.removesuffix('s')} in the file")
    lines += [f"  note: {note}" for note in info.notes]
    return "\n".join(lines)


def place_of(table: CatalogTable) -> str:
    """``sales.xlsx, sheet North, rows 5-104``."""
    info: TableInfo = table.info
    parts = [table.document.source, *(f"{name} {value}" for name, value in info.place.items())]
    if info.first is not None:
        parts.append(f"{info.unit} {info.first}-{info.last}")
    return ", ".join(parts)


def _column(column: Column) -> str:
    header = f' "{column.header}"' if column.header.lower().replace(" ", "_") != column.name else ""
    unit = f" in {column.unit}" if column.unit else ""
    gaps = f", {column.empty + column.unread} NULL" if column.empty + column.unread else ""
    return f"{column.name} {column.type}{unit}{header}: {_examples(column)}{gaps}" + "".join(
        f"; {note}" for note in column.notes
    )


def _examples(column: Column) -> str:
    values = column.examples
    if not values:
        return "empty"
    if column.type != "text":
        least, most = values[0], values[-1]
        return _shown(least) if least == most else f"{_shown(least)} to {_shown(most)}"
    if column.distinct <= _ALL_VALUES:
        return " | ".join(map(_shown, values))
    return " | ".join(map(_shown, values[:_TEXT_EXAMPLES])) + f" | ... ({column.distinct:,} different)"


def _shown(value: Value) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
