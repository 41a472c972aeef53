"""Workbooks that only python-calamine reads: .xls, .xlsb and .ods.

It leaves error cells blank and allocates the whole rectangle of a sheet, so it runs in a worker with a memory limit.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator

from ..errors import EncryptedFileError
from ._cells import moment_text, number_text
from ._grid import Area, Grid, Limits
from ._workbook import Sheet
from ._xlsx import clean_text

_Value = int | float | str | bool | dt.time | dt.date | dt.datetime | dt.timedelta


def calamine_sheets(data: bytes, limits: Limits, *, include_hidden: bool) -> Iterator[Sheet]:
    """The sheets of a workbook in their order.

    Raises: EncryptedFileError; ParseLimitError: a sheet's rectangle is over the limits; calamine's own errors.
    """
    from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
    except PasswordError as error:
        raise EncryptedFileError(
            f"{limits.filename}: the file is encrypted with a password; save a copy without one"
        ) from error
    for entry in workbook.sheets_metadata:
        hidden = entry.visible != SheetVisibleEnum.Visible
        if entry.typ in (SheetTypeEnum.WorkSheet, SheetTypeEnum.MacroSheet) and (include_hidden or not hidden):
            source = workbook.get_sheet_by_name(entry.name)
            grid = Grid(entry.name, limits)
            _fill(grid, source.start or (0, 0), source.iter_rows())
            grid.clear_merged(
                Area(top + 1, left + 1, bottom + 1, right + 1)
                for (top, left), (bottom, right) in source.merged_cell_ranges or []
            )
            yield Sheet(entry.name, hidden, grid)


def _fill(grid: Grid, start: tuple[int, int], rows: Iterator[list[_Value]]) -> None:
    for number, values in enumerate(rows, start=start[0] + 1):
        cells = [(column, _text(value)) for column, value in enumerate(values, start=start[1] + 1) if value != ""]
        filled = [(column, text) for column, text in cells if text]
        grid.add(number, [column for column, _ in filled], [text for _, text in filled])


def _text(value: _Value) -> str:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return number_text(repr(value))
    return moment_text(value)
