"""Seeded damage to a file: cut in half, or some bytes flipped; in a zip half of the flips hit the XML inside."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator


def mutations(data: bytes, *, seed: int, cuts: int = 10, flips: int = 100) -> Iterator[bytes]:
    """`cuts` files that end between 40 % and 60 %, then `flips` files with 1 to 20 changed bytes.

    The same seed gives the same files.
    """
    random_ = random.Random(seed)
    for _ in range(cuts):
        yield data[: int(len(data) * random_.uniform(0.4, 0.6))]
    for number in range(flips):
        inside = number % 2 == 0 and data.startswith(b"PK")
        yield _inside_zip(data, random_) if inside else _flipped(data, random_)


def _flipped(data: bytes, random_: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random_.randint(1, 20)):
        if changed:
            changed[random_.randrange(len(changed))] = random_.randrange(256)
    return bytes(changed)


def _inside_zip(data: bytes, random_: random.Random) -> bytes:
    """The zip with one of its XML parts damaged and its checksums right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        names = [name for name in source.namelist() if name.endswith((".xml", ".rels", ".xhtml", ".opf"))]
        victim = random_.choice(names)
        for entry in source.infolist():
            content = source.read(entry)
            target.writestr(entry, _flipped(content, random_) if entry.filename == victim else content)
    return buffer.getvalue()
