"""The source that an address or a path names."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import SourceError, redact
from .base import SourceBase, is_address
from .files import DirectorySource, FileSource

_GIT = re.compile(r"^(git\+|git://|ssh://|[\w.-]+@[\w.-]+:)|\.git(#.*)?$")


def open_source(
    what: str | Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    name: str | None = None,
    **options: Any,
) -> SourceBase:
    """The source for a path or an address.

    A folder is a `DirectorySource`, a file a `FileSource`, ``git+https://...``, ``git@host:...`` and ``....git`` a
    `GitSource` (``#subfolder`` after it, ``ref=``), ``https://.../sitemap.xml`` and other pages a `WebSource`, any
    other scheme (``s3://``, ``zip://``) an `FsspecSource`.

    Args:
        include, exclude: Patterns as in .gitignore, for trees.
        options: Of the source.

    Raises: SourceError: it is none of these.
    """
    text = os.fspath(what)
    if not text.strip():
        raise SourceError("a path to ingest is empty; an unset variable of a script looks like this")
    if isinstance(what, str) and _GIT.search(text) and not os.path.exists(text):
        from .git import GitSource

        address, _, subfolder = text.removeprefix("git+").partition("#")
        return GitSource(address, subfolder=subfolder, include=include, exclude=exclude, name=name, **options)
    if isinstance(what, str) and is_address(text):
        from .web import WebSource

        is_sitemap = re.search(r"sitemap[^/]*\.(xml|txt)(\.gz)?$", text.partition("?")[0], re.IGNORECASE)
        options.update({"sitemaps": [text]} if is_sitemap else {"urls": [text]})
        return WebSource(**options) if name is None else WebSource(name=name, **options)
    if isinstance(what, str) and "://" in text:
        from .fsspec import FsspecSource

        return FsspecSource(text, include=include, exclude=exclude, name=name, **options)
    if os.path.isdir(text):
        return DirectorySource(text, include=include, exclude=exclude, name=name, **options)
    if os.path.exists(text):
        return FileSource([text], name=name, **options)
    raise SourceError(f"{redact(text)} is no file, folder or address; check the spelling")
