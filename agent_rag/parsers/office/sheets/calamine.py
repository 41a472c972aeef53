"""Workbooks that only python-calamine reads: .xls and .xlsb.

It allocates the whole rectangle of a sheet, so it runs in a worker with a memory limit. It leaves error cells blank;
`_error_cells` fills them in.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator

from ....errors import EncryptedFileError
from ... import sniff
from .cells import moment_text, number_text
from .error_cells import ErrorCells, error_cells, is_protected_xls
from .grid import Area, Grid, Limits, seems_number
from .workbook import Sheet
from .xlsx import clean_text

_Value = int | float | str | bool | dt.time | dt.date | dt.datetime | dt.timedelta


def calamine_sheets(
    data: bytes, kind: str, limits: Limits, *, include_hidden: bool, repeat_merged: bool
) -> Iterator[Sheet]:
    """The sheets of a workbook of one of `_sniff`'s types, in their order.

    Raises: EncryptedFileError; ParseLimitError: a sheet's rectangle is over the limits; calamine's own errors.
    """
    from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
    except PasswordError as error:
        raise _encrypted(limits.filename) from error
    except Exception:
        if kind == sniff.XLS and is_protected_xls(data):
            raise _encrypted(limits.filename) from None
        raise
    errors = error_cells(data, kind, limits.filename)
    for index, entry in enumerate(workbook.sheets_metadata):
        hidden = entry.visible != SheetVisibleEnum.Visible
        if entry.typ in (SheetTypeEnum.WorkSheet, SheetTypeEnum.MacroSheet) and (include_hidden or not hidden):
            source = workbook.get_sheet_by_name(entry.name)
            grid = Grid(entry.name, limits)
            _fill(grid, source.start or (0, 0), source.iter_rows(), errors[index] if index < len(errors) else {})
            merged = (
                Area(top + 1, left + 1, bottom + 1, right + 1)
                for (top, left), (bottom, right) in source.merged_cell_ranges or []
            )
            grid.merge(merged, repeat=repeat_merged)
            yield Sheet(entry.name, hidden, grid)
        elif hidden:
            limits.omitted.append(entry.name)


def _encrypted(filename: str) -> EncryptedFileError:
    return EncryptedFileError(f"{filename}: the file is encrypted with a password; save a copy without one")


def _fill(grid: Grid, start: tuple[int, int], rows: Iterator[list[_Value]], errors: ErrorCells) -> None:
    in_row: dict[int, dict[int, str]] = {}
    for (row, column), text in sorted(errors.items()):
        in_row.setdefault(row, {})[column + 1] = text
    for row, values in enumerate(rows, start=start[0]):
        cells = {column: _text(value) for column, value in enumerate(values, start=start[1] + 1) if value != ""}
        grid.number_texts.update(
            column
            for column, value in enumerate(values, start=start[1] + 1)
            if isinstance(value, str) and seems_number(value.strip())
        )
        while in_row and (earlier := next(iter(in_row))) < row:
            _add(grid, earlier, in_row.pop(earlier))
        _add(grid, row, cells | in_row.pop(row, {}))
    for row, cells in in_row.items():
        _add(grid, row, cells)


def _add(grid: Grid, row: int, cells: dict[int, str]) -> None:
    filled = sorted((column, text) for column, text in cells.items() if text)
    grid.add(row + 1, [column for column, _ in filled], [text for _, text in filled])


def _text(value: _Value) -> str:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return number_text(repr(value))
    return moment_text(value)
