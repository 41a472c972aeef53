"""Outlook messages for tests: a compound file with the properties of a message, written from the specifications
[MS-CFB] and [MS-OXMSG]."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import pairwise

_SECTOR = 512
_END, _FREE, _FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
_TEXT, _TEXT8, _BINARY, _LONG = 0x001F, 0x001E, 0x0102, 0x0003

Tree = Mapping[str, "bytes | Tree"]


def message(subject: str, body: str = "", html: bytes = b"", attachments: Mapping[str, bytes] | None = None) -> bytes:
    """A message from Ola to Kari; an attachment without content is attached by another way than by value."""
    root = _properties(
        {0x001A: "IPM.Note", 0x0037: subject, 0x1000: body, 0x0C1A: "Ola", 0x0C1F: "ola@x.no"}, header=32
    )
    if html:
        root |= {"__substg1.0_10130102": html}
        root["__properties_version1.0"] = _with_entry(root["__properties_version1.0"], 0x1013, _BINARY, len(html))
    tree: dict[str, bytes | Tree] = dict(root)
    tree["__nameid_version1.0"] = {}
    tree["__recip_version1.0_#00000000"] = _properties({0x3001: "Kari", 0x3003: "kari@x.no"}, header=8)
    tree |= _attachments(attachments or {})
    counts = struct.pack("<8xIIII8x", 1, len(attachments or {}), 1, len(attachments or {}))
    entries = tree["__properties_version1.0"]
    assert isinstance(entries, bytes)
    tree["__properties_version1.0"] = counts + entries[32:]
    return compound_file(tree)


def _attachments(attachments: Mapping[str, bytes]) -> dict[str, bytes | Tree]:
    tree: dict[str, bytes | Tree] = {}
    for number, (name, content) in enumerate(attachments.items()):
        part = _properties({0x3707: name, 0x370E: "text/csv"}, header=8)
        entries = _with_entry(part["__properties_version1.0"], 0x3705, _LONG, 1 if content else 5)
        if content:
            part["__substg1.0_37010102"] = content
            entries = _with_entry(entries, 0x3701, _BINARY, len(content))
        part["__properties_version1.0"] = entries
        tree[f"__attach_version1.0_#{number:08X}"] = part
    return tree


def narrow(texts: Mapping[int, bytes], numbers: Mapping[int, int]) -> bytes:
    """A message whose strings are bytes of some code page."""
    entries = bytes(32)
    tree: dict[str, bytes | Tree] = {}
    for number, content in texts.items():
        entries = _with_entry(entries, number, _TEXT8, len(content) + 1)
        tree[f"__substg1.0_{number:04X}{_TEXT8:04X}"] = content
    for number, value in numbers.items():
        entries = _with_entry(entries, number, _LONG, value)
    return compound_file({**tree, "__properties_version1.0": entries})


def attached_message(
    subject: str, body: str, inner_subject: str, inner_body: str, attachments: Mapping[str, bytes]
) -> bytes:
    """A message with one inside it, which is called after its subject."""
    inner: dict[str, bytes | Tree] = dict(_properties({0x0037: inner_subject, 0x1000: inner_body}, header=24))
    inner |= _attachments(attachments)
    part = _properties({0x3001: inner_subject}, header=8)
    part["__properties_version1.0"] = _with_entry(part["__properties_version1.0"], 0x3705, _LONG, 5)
    outer = _properties({0x0037: subject, 0x1000: body}, header=32)
    return compound_file({**outer, "__attach_version1.0_#00000000": {**part, "__substg1.0_3701000D": inner}})


def _properties(texts: Mapping[int, str], *, header: int) -> dict[str, bytes]:
    entries = bytes(header)
    streams: dict[str, bytes] = {}
    for number, text in texts.items():
        content = text.encode("utf-16-le")
        entries = _with_entry(entries, number, _TEXT, len(content) + 2)
        streams[f"__substg1.0_{number:04X}{_TEXT:04X}"] = content
    return {**streams, "__properties_version1.0": entries}


def _with_entry(entries: bytes, number: int, kind: int, value: int) -> bytes:
    return entries + struct.pack("<HHIQ", kind, number, 6, value)


class _Sectors:
    """Streams cut into sectors, with the chain of each."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.content = b""
        self.chain: list[int] = []

    def add(self, content: bytes) -> int:
        """Returns: the number of its first sector."""
        start, count = len(self.chain), -(-len(content) // self.size)
        self.content += content.ljust(count * self.size, b"\0")
        self.chain += [*range(start + 1, start + count), _END]
        return start

    def table(self) -> bytes:
        entries = [*self.chain, *[_FREE] * (-len(self.chain) % 128)]
        return struct.pack(f"<{len(entries)}I", *entries)


def compound_file(tree: Tree) -> bytes:
    """A version 3 compound file: streams below 4,096 bytes in 64-byte sectors, others in those of 512."""
    large, small = _Sectors(_SECTOR), _Sectors(64)
    directory: list[tuple[str, int, int, int]] = []
    """(name, kind, first sector, size)"""
    children: dict[int, list[int]] = {}

    def walk(folder: Tree, index: int) -> None:
        children[index] = []
        for name, content in folder.items():
            number = len(directory) + 1
            children[index].append(number)
            if isinstance(content, bytes):
                sectors = large if len(content) >= 4096 else small
                directory.append((name, 2, sectors.add(content) if content else _END, len(content)))
            else:
                directory.append((name, 1, 0, 0))
                walk(content, number)

    walk(tree, 0)
    directory.insert(0, ("Root Entry", 5, large.add(small.content), len(small.content)))
    right = {left: next_ for numbers in children.values() for left, next_ in pairwise([*numbers, _FREE])}
    entries = b""
    for number, (name, kind, start, size) in enumerate(directory):
        encoded = name.encode("utf-16-le") + b"\0\0"
        child = next(iter(children.get(number, ())), _FREE)
        entries += struct.pack(
            "<64sHBBIII36xIQ", encoded, len(encoded), kind, 1, _FREE, right.get(number, _FREE), child, start, size
        )
    first_entry = large.add(entries + struct.pack("<66xBBIII48x", 0, 0, _FREE, _FREE, _FREE) * (-len(directory) % 4))
    table = small.table()
    first_small = large.add(table)
    fats = next(count for count in range(1, 109) if count * 128 >= len(large.chain) + count)
    fat_sectors = [*range(len(large.chain), len(large.chain) + fats), *[_FREE] * (109 - fats)]
    large.chain += [_FAT] * fats
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII109I", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6, 0, fats,
        first_entry, 0, 4096, first_small, len(table) // _SECTOR, _END, 0, *fat_sectors,
    )  # fmt: skip
    return header + large.content + large.table()
