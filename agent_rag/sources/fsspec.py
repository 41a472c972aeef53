"""Any file system that fsspec knows as a source: s3://, gs://, az://, sftp://, zip://, memory://, ..."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .._util.extras import needs
from ..errors import SourceError, redact
from ._patterns import Patterns
from .base import Listing, MetadataFor, SourceBase, SourceItem, metadata_of

_STAMPS = ("ETag", "etag", "md5Hash", "content_hash", "mtime", "LastModified", "last_modified", "updated", "created")


class FsspecSource(SourceBase):
    """The files below an address, each known by its path from there. Needs the extra ``fsspec``, and the package of the
    file system (``s3fs``, ``gcsfs``, ``adlfs``, ``paramiko``).

    A file whose size and ETag, hash or time are those of last time is not read again; one of a file system that tells
    none of them always is. Contents are read one by one, when they are needed.
    """

    def __init__(
        self,
        address: str,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        name: str | None = None,
        metadata: MetadataFor | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            address: ``s3://bucket/folder``, ``zip://folder::/path/to/archive.zip``, ``memory://folder``.
            include, exclude: As for `DirectorySource`.
            name: Name of the source; default: the address.
            storage_options: Given to the file system: keys, endpoint. Never stored.
        """
        self._fsspec = needs("fsspec", "fsspec", purpose="FsspecSource")
        self._address = address
        self._options = dict(storage_options or {})
        self._patterns = Patterns(include, exclude)
        self._metadata = metadata
        self.location = redact(address)
        self.name = name or self.location

    async def list(self) -> Listing:
        return await asyncio.to_thread(self._list)

    def _list(self) -> Listing:
        try:
            system, root = self._fsspec.core.url_to_fs(self._address, **self._options)
            if not system.isdir(root):
                raise SourceError(f"{self.location} is not a folder; pass one, it may be that of a bucket")
            found: dict[str, dict[str, Any]] = system.find(root, detail=True)
        except SourceError:
            raise
        except Exception as error:  # each file system has errors of its own
            raise SourceError(
                f"{self.location} cannot be listed: {redact(f'{type(error).__name__}: {error}')}; check the address, "
                "storage_options and the package of this file system"
            ) from error
        start = len(root.rstrip("/")) + 1 if root.rstrip("/") else 0
        files = {path[start:].lstrip("/"): (path, about) for path, about in found.items()}
        listing = Listing()
        for relative in self._patterns.chosen(files, listing):
            path, about = files[relative]
            stamp = next((f"{about[name]}" for name in _STAMPS if about.get(name)), None)
            listing.items.append(
                SourceItem(
                    document_id=relative,
                    uri=f"{self.location.partition('::')[0].rstrip('/')}/{relative}",
                    filename=relative,
                    metadata=metadata_of(self._metadata, relative),
                    size=about.get("size"),
                    stamp=None if stamp is None else f"{about.get('size')}:{stamp}",
                    read=partial(_read, system, path, relative),
                )
            )
        return listing


def _read(system: Any, path: str, shown: str) -> bytes:
    try:
        data: bytes = system.cat_file(path)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise SourceError(f"{shown} cannot be read: {redact(f'{type(error).__name__}: {error}')}") from error
    return data
