"""Files and directories as a source."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, ClassVar

import pathspec

from ..documents import date_text
from ..errors import ConfigurationError, SourceError
from ..parsers.registry import is_known_without_ending, supported_extensions
from ._generated import Generated
from ._walk import FoundFile, Links, Walk, file_uri, keys_of, one_each, printable
from .base import Listing, MetadataFor, SourceBase, SourceItem, metadata_of, stamp_of


class DirectorySource(SourceBase):
    """Every file below a directory that a parser can read, each once, whatever names reach it.

    A document is known by its path below `root`, in Unicode NFC; see `docs/ingestion.md` for what happens to it when
    files or the directory are moved. Files of an embedded store are never taken.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        recursive: bool = True,
        include_hidden: bool = False,
        include_generated: bool = False,
        extensions: Sequence[str] | None = None,
        links: Links = "inside",
        id_prefix: str = "",
        name: str | None = None,
        metadata: MetadataFor | None = None,
        file_facts: bool = False,
    ) -> None:
        """
        Args:
            include: Patterns as in .gitignore, relative to `root`; none: every file with a known extension or
                name (README). A file that a pattern names is taken whatever its extension.
            exclude: Patterns as in .gitignore; ``__pycache__`` and office lock files always are.
            recursive: Also look into sub-directories.
            include_hidden: Also names that start with a dot.
            include_generated: Also what no person wrote: dependencies (node_modules, vendor), lock files, minified and
                generated code, search indexes and print versions of documentation. Without it the listing says in one
                note how much was left out; a file that `include` names is taken.
            extensions: Endings to take instead of `parsers.supported_extensions()`.
            links: Follow symbolic links that stay below `root` ("inside"), also those that leave it ("all"), or
                none ("none"). What a link reaches beside its own name is one document with both names.
            id_prefix: Put before each document id, with a ``/``.
            name: Name of the source. Default: that under which the collection knows the directory, else its own.
            metadata: Of every document, or a function from a document's id to its metadata.
            file_facts: Also `size` (bytes), `modified` (ISO 8601, UTC) and `media_type` (by name) as metadata.
        """
        if links not in ("inside", "all", "none"):
            raise ConfigurationError(f"links is {links!r}; use inside, all or none")
        self.root = Path(root)
        self._include = pathspec.PathSpec.from_lines("gitignore", include) if include else None
        self._exclude = pathspec.PathSpec.from_lines("gitignore", exclude) if exclude else None
        self._recursive = recursive
        self._include_hidden = include_hidden
        self._include_generated = include_generated
        self._extensions = None if extensions is None else frozenset(ending.lower() for ending in extensions)
        self._links: Links = links
        self._id_prefix = id_prefix.strip("/") + "/" if id_prefix.strip("/") else ""
        self._metadata = metadata
        self._file_facts = file_facts
        real = os.path.realpath(self.root)
        self.location = file_uri(real)
        self.named = name is not None
        self.name = name or os.path.basename(real) or "root"

    async def list(self) -> Listing:
        return await asyncio.to_thread(self._list)

    def _list(self) -> Listing:
        if not self.root.is_dir():
            raise SourceError(f"{self.root} is not a directory")
        generated = None if self._include_generated else Generated(os.fspath(self.root))
        walk = Walk(
            os.fspath(self.root),
            recursive=self._recursive,
            include_hidden=self._include_hidden,
            links=self._links,
            takes_folder=lambda relative: (
                not (
                    (self._exclude is not None and self._exclude.match_file(relative + "/"))
                    or (generated is not None and generated.is_folder(relative))
                )
            ),
            takes_file=lambda relative: self._exclude is None or not self._exclude.match_file(relative),
        ).run()
        listing = Listing(skipped=walk.skipped, errors=walk.errors)
        extensions = self._extensions if self._extensions is not None else frozenset(supported_extensions())
        files = one_each(file for file in walk.files if self._is_wanted(file.relative, extensions, generated, listing))
        if generated is not None and (note := generated.note) is not None:
            listing.notes.append(note)
        keys = keys_of(file.relative for file, _ in files)
        listing.items = [
            _item(file, keys[file.relative], also, self._id_prefix, self._metadata, self._file_facts)
            for file, also in files
        ]
        return listing

    def _is_wanted(
        self, relative: str, extensions: frozenset[str], generated: Generated | None, listing: Listing
    ) -> bool:
        if self._include is not None:
            return self._include.match_file(relative)
        ending = os.path.splitext(relative)[1]
        known = ending in extensions or ending.lower() in extensions
        if known or (self._extensions is None and is_known_without_ending(self.root / relative)):
            return generated is None or not generated.is_file(relative)
        listing.skipped.append((printable(relative), f"no parser for {ending or 'a file without extension'}"))
        return False


class FileSource(SourceBase):
    """Files named one by one; they are taken whatever their extension. One that is given twice is one document."""

    scheme: ClassVar[str] = "files:"

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        root: str | Path | None = None,
        name: str | None = None,
        metadata: MetadataFor | None = None,
        file_facts: bool = False,
    ) -> None:
        """
        Args:
            paths: Files; one that is missing is an error of the listing, so that nothing is pruned.
            root: Documents are known by their path from here; default: the folder that all files share.
            name: Name of the source. Default: as for `DirectorySource`, with ``files:`` before it.
            metadata, file_facts: As for `DirectorySource`.
        """
        self.paths = [Path(path) for path in paths]
        if any(not os.fspath(path) for path in paths):
            raise SourceError("a path to ingest is empty; an unset variable of a script looks like this")
        self._root = os.path.realpath(root) if root is not None else _common_parent(self.paths)
        self._metadata = metadata
        self._file_facts = file_facts
        self.location = self.scheme + file_uri(self._root)
        self.named = name is not None
        self.name = name or self.scheme + (os.path.basename(self._root) or "root")

    async def list(self) -> Listing:
        return await asyncio.to_thread(self._list)

    def _list(self) -> Listing:
        listing = Listing()
        given: dict[str, FoundFile] = {}
        for path in self.paths:
            if not path.is_file():
                kind = "is not a file" if path.exists() else "does not exist"
                listing.errors.append((str(path), kind))
                continue
            found = _found(path, self._root)
            if given.setdefault(found.relative, found) is not found:
                note = f"{printable(str(path))} was given more than once; it is one document"
                listing.notes.extend([note] if note not in listing.notes else [])
        files = one_each(given.values())
        keys = keys_of(file.relative for file, _ in files)
        listing.items = [
            _item(file, keys[file.relative], also, "", self._metadata, self._file_facts) for file, also in files
        ]
        return listing


def file_item(path: Path, relative: str, *, metadata: MetadataFor | None = None) -> SourceItem:
    """The item of one file. Opening uses the name on disk; the id is the NFC form of `relative`."""
    real = os.path.realpath(path)
    found = FoundFile(relative, os.fspath(path), real, False, os.stat(path))
    return _item(found, unicodedata.normalize("NFC", printable(relative)), [], "", metadata, False)


def _item(
    file: FoundFile, key: str, also: Sequence[str], prefix: str, metadata: MetadataFor | None, file_facts: bool
) -> SourceItem:
    filename = prefix + unicodedata.normalize("NFC", key)
    # A second file with the same NFC name must not look the same to people.
    document_id = filename if filename == prefix + key else f"{filename}~{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    facts = _facts(file) if file_facts else {}
    return SourceItem(
        document_id=document_id,
        key=key,
        uri=file_uri(file.real),
        also=list(also),
        path=Path(file.path),
        filename=filename,
        metadata={**facts, **metadata_of(metadata, document_id)} if metadata is not None else facts,
        size=file.stat.st_size,
        stamp=stamp_of(file.stat),
    )


def _facts(file: FoundFile) -> dict[str, Any]:
    modified = datetime.fromtimestamp(int(file.stat.st_mtime), UTC)
    kind = mimetypes.guess_type(file.relative, strict=False)[0]
    return {"size": file.stat.st_size, "modified": date_text(modified), **({"media_type": kind} if kind else {})}


def _found(path: Path, root: str) -> FoundFile:
    real = os.path.realpath(path)
    # The name that was given, in its real folder: a link is a name of its own.
    named = os.path.join(os.path.realpath(path.parent), path.name) if path.name not in ("", "..") else real
    relative = PurePath(os.path.relpath(named, root)).as_posix()
    return FoundFile(relative, os.fspath(path), real, named != real, os.stat(path))


def _common_parent(paths: Sequence[Path]) -> str:
    parents = [os.path.realpath(path.parent) for path in paths]
    return os.path.commonpath(parents) if parents else os.getcwd()
