"""Workbooks in the formats that python-calamine reads, each with the sheet ``Rain`` and error cells."""

from __future__ import annotations

import base64
import struct
import zlib

from .ooxml import relations
from .samples import ods_sample, zip_of

_XLS = (
    "c-rk)O=uHA6#izr`DvTxr?x^Xlu)p0O%LM5OB)rmCu{9R5kcEz!O$j=BnRWgYRyp)JSkoZ_28xc9Q;8A1rHvCiXH?(X!Ixu1qBan"
    "*7sgEF^v%#&|qZ0W!}7bGjHeZyf;5Pua^SL^LKmmsKN+ZP%vBJtdJ>6t)+q=RBxKhmU1^G(?(OF)lH6cI`FvTm5Y7I{?0?g9sM~`"
    ";3K6IID@fd!U#4H`^APy#WoBponlYJ4N6}0h+UmRBSJR`y)A8@2;D1^%R+~#?Xo(KrSRC`9xINIY5h{?C93d1bl!_(7rOD1<M{j)"
    "Rc!0PzEo^-rpYS$bPpClE*&)zMvBWm+(a9YB@D&mL(%9my2#xN_+|!yucdkYENIIcD_0=-_w{nuZ{%)rVzvCLrUSDuPbm)O96Si="
    "T%%)RGM30ukb9jR8BU~)NXp2pQjj~S-XU!eiDj}B`SCcF)3HRvAlc#cOtKv~9g9YdL@;BV&9w2_FKdN=-CEHhGsr_U3ZL)+nMZyy"
    "b@kTDn?qCM;gcenmHnZ(i)>|+Vd4U7kg`{5TFP`#G<FKTC~w^&e6P?hGM(~)@otMbI45l`N$mjjvs>^sysd)YPJHh3k%xV`PvITJ"
    "FOKHVbuGRN&!eAqwJ7QHGl!50sq5DmkHV!~S?kRQp*_E>J#Ni!*=|}}r4MU7+Xw-n#S)K>Dwi~CtXNys&{m?&<MEXGSEBu;o!7p5"
    "FEr9*J*`U5p}9pCz@RGftmU$JP5K|vI&q&H(K`7PjqtE4(`NOss_9|=RvA^)8dV!MY}l}2!-kE22};hP#Z$L#{S@%2&t=`~tWhf1"
    "*ChWfCXl2jL%);<kf1z;Y+doQ84gu?m)f9C>AsM0lzLBL8dGA&blvewr*>8OJsVc^|G6ntZ~ujQ?EK69{{XV)2A}"
)
"""Written with xlwt 1.3.0: Rain = city mm since / Oslo 763 2024-03-05 / #N/A #DIV/0! TRUE; and a hidden sheet."""


def xls_with_errors() -> bytes:
    """A BIFF8 workbook in a compound file."""
    return zlib.decompress(base64.b85decode(_XLS))


def xlsb_with_errors() -> bytes:
    """Rain = Oslo 763 / #N/A #DIV/0!, the last one a formula's result; only the records that a reader needs."""
    book = (
        _record(131) + _record(153, bytes(12)) + _record(143)
        + _record(156, struct.pack("<II", 0, 1) + _wide("d") + _wide("Rain")) + _record(144) + _record(132)
    )  # fmt: skip
    sheet = (
        _record(129) + _record(148, struct.pack("<4I", 0, 1, 0, 1)) + _record(145)
        + _row(0) + _record(6, _cell(0) + _wide("Oslo")) + _record(5, _cell(1) + struct.pack("<d", 763))
        + _row(1) + _record(3, _cell(0) + b"\x2a") + _record(11, _cell(1) + b"\x07" + bytes(10))
        + _record(146) + _record(130)
    )  # fmt: skip
    return zip_of(
        {
            "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
            "_rels/.rels": relations({"m": ("officeDocument", "xl/workbook.bin")}),
            "xl/workbook.bin": book,
            "xl/_rels/workbook.bin.rels": relations({"d": ("worksheet", "worksheets/sheet1.bin")}),
            "xl/worksheets/sheet1.bin": sheet,
        }
    )


def ods_with_errors() -> bytes:
    """An error in the first cell, above the table of `ods_sample`."""
    from io import BytesIO
    from zipfile import ZipFile

    calcext = "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"
    error = (
        f'<table:table-row><table:table-cell office:value-type="string" xmlns:calcext="{calcext}" '
        'calcext:value-type="error" office:string-value=""><text:p>#DIV/0!</text:p></table:table-cell>'
        "</table:table-row>"
    )
    with ZipFile(BytesIO(ods_sample())) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    content = files["content.xml"]
    assert isinstance(content, bytes)
    start = b'<table:table table:name="Rain">'
    return zip_of({**files, "content.xml": content.replace(start, start + error.encode())})


def _record(kind: int, body: bytes = b"") -> bytes:
    head = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
    return head + bytes([len(body)]) + body


def _row(number: int) -> bytes:
    return _record(0, struct.pack("<I", number) + bytes(21))


def _cell(column: int) -> bytes:
    return struct.pack("<II", column, 0)


def _wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")
