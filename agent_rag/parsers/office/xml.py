"""Parsing the XML of Office packages: without entities, network, comments, and without a table of ids.

The same xml:id twice is an error for libxml2 only while it collects ids; files of the ODF Toolkit have such.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

_OPTIONS: dict[str, Any] = {
    "resolve_entities": False,
    "no_network": True,
    "remove_comments": True,
    "remove_pis": True,
    "collect_ids": False,
}
_PIECE = 64 * 1024


def xml_root(data: bytes) -> Any:
    """The root element. Raises: lxml.etree.XMLSyntaxError."""
    from lxml import etree

    return etree.fromstring(data, etree.XMLParser(**_OPTIONS))


def xml_stream(file: IO[bytes], *tags: str) -> Iterator[Any]:
    """The elements with these tags as they end, in document order, without holding the whole tree.

    The caller frees those that it has read. (`etree.iterparse` collects ids whatever it is told.)

    Raises: lxml.etree.XMLSyntaxError.
    """
    from lxml import etree

    parser = etree.XMLPullParser(events=("end",), tag=tags, **_OPTIONS)
    while piece := file.read(_PIECE):
        parser.feed(piece)
        for _, element in parser.read_events():
            yield element
    parser.close()
    for _, element in parser.read_events():
        yield element
