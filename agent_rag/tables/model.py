"""A typed table of a document, and what is kept of it beside its rows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

ColumnType = Literal["integer", "number", "boolean", "date", "datetime", "time", "text"]
"""What a column holds: "boolean" as 1 and 0, "date" as ``2024-03-05``, "datetime" as ``2024-03-05 14:30:00``, "time" as
``14:30:00``."""

Value = str | int | float | None


class Column(BaseModel):
    """A column of a typed table."""

    name: str
    """For SQL: small letters, digits and underscores; letters of other scripts stay."""
    header: str
    """As the document has it; the levels of a header over several rows are joined with " / "."""
    type: ColumnType
    unit: str | None = None
    """Of all its numbers: "%" (12.5 stands for 12.5 %), a currency or a measure."""
    examples: list[Value] = Field(default_factory=list)
    """Of numbers and dates the least and the greatest; of texts the most frequent, at most 8."""
    distinct: int = 0
    """Different values, counted up to 1,000."""
    empty: int = 0
    """Cells without a value."""
    unread: int = 0
    """Cells that are not of the column's type, and NULL for that."""
    notes: list[str] = Field(default_factory=list)
    """What was guessed, and examples of the cells that could not be read."""


class TableInfo(BaseModel):
    """A table without its rows."""

    name: str
    """For SQL; unique within its document."""
    title: str | None = None
    """What stands above it, or the heading that it is under."""
    place: dict[str, Any] = Field(default_factory=dict)
    """Where it is: sheet, page, slide."""
    unit: Literal["rows", "records", "lines"] = "rows"
    """What `first` and `last` and the column `_row` count; see `agent_rag.places`."""
    first: int | None = None
    last: int | None = None
    """Of its data in the file; None where the format has no such numbers."""
    columns: list[Column]
    row_count: int
    notes: list[str] = Field(default_factory=list)
    """What was left out: totals, notes below the table, further rows."""


class Table(TableInfo):
    """A table as it is read from a document."""

    rows: list[tuple[Value, ...]] = Field(default_factory=list, repr=False)
    """Values by column; the number of the row in the file, or None, behind them."""

    def info(self) -> TableInfo:
        """All but the rows."""
        return TableInfo.model_construct(**{name: getattr(self, name) for name in TableInfo.model_fields})
