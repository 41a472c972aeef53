"""Files and directories as a source."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import pathspec

from ..errors import SourceError
from .base import Listing, MetadataFor, SourceBase, SourceItem, metadata_of

_ALWAYS_SKIPPED = ("__pycache__/", "node_modules/", "~$*", "Thumbs.db", "desktop.ini")


class DirectorySource(SourceBase):
    """Every file below a directory that a parser can read."""

    def __init__(
        self,
        root: str | Path,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        recursive: bool = True,
        include_hidden: bool = False,
        extensions: Sequence[str] | None = None,
        id_prefix: str = "",
        name: str | None = None,
        metadata: MetadataFor | None = None,
    ) -> None:
        """
        Args:
            include: Patterns as in .gitignore, relative to `root`; none: every file with a known extension. A file that
                a pattern names is taken whatever its extension.
            exclude: Patterns as in .gitignore; ``__pycache__``, ``node_modules`` and office lock files always are.
            recursive: Also look into sub-directories. Links to directories, and to files outside `root`, are not
                followed.
            include_hidden: Also names that start with a dot.
            extensions: Endings to take instead of `parsers.supported_extensions()`.
            id_prefix: Put before each document id, with a ``/``.
            name: Default: the directory's own URI.
            metadata: Of every document, or a function from a document's id to its metadata.
        """
        self.root = Path(root)
        self._include = pathspec.PathSpec.from_lines("gitignore", include) if include else None
        self._exclude = pathspec.PathSpec.from_lines("gitignore", [*_ALWAYS_SKIPPED, *exclude])
        self._recursive = recursive
        self._include_hidden = include_hidden
        self._extensions = None if extensions is None else {ending.lower() for ending in extensions}
        self._id_prefix = id_prefix.strip("/") + "/" if id_prefix.strip("/") else ""
        self._metadata = metadata
        self.name = name or _uri(self.root)

    async def list(self) -> Listing:
        return await asyncio.to_thread(self._list)

    def _list(self) -> Listing:
        if not self.root.is_dir():
            raise SourceError(f"{self.root} is not a directory")
        extensions = self._extensions if self._extensions is not None else _supported_extensions()
        listing = Listing()
        for path in self._walk(self.root, listing):
            relative = path.relative_to(self.root).as_posix()
            if self._include is not None:
                if not self._include.match_file(relative):
                    continue
            elif path.suffix.lower() not in extensions:
                listing.skipped.append((relative, f"no parser for {path.suffix or 'a file without extension'}"))
                continue
            listing.items.append(file_item(path, self._id_prefix + relative, metadata=self._metadata))
        return listing

    def _walk(self, folder: Path, listing: Listing) -> Iterator[Path]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            listing.errors.append((str(folder), f"cannot be listed: {error.strerror or error}"))
            return
        for entry in entries:
            if entry.name.startswith(".") and not self._include_hidden:
                continue
            path = Path(entry.path)
            relative = path.relative_to(self.root).as_posix()
            if entry.is_dir(follow_symlinks=False):
                if self._recursive and not self._exclude.match_file(relative + "/"):
                    yield from self._walk(path, listing)
            elif not self._exclude.match_file(relative) and self._is_ours(entry, relative, listing):
                yield path

    def _is_ours(self, entry: os.DirEntry[str], relative: str, listing: Listing) -> bool:
        """Whether an entry is a file to read; a link must stay inside the directory."""
        try:
            if not entry.is_file():
                return False
            if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(self.root.resolve()):
                listing.skipped.append((_printable(relative), "a link to a file outside the directory"))
                return False
        except (OSError, RuntimeError) as error:  # a link that leads to itself
            listing.skipped.append((_printable(relative), f"cannot be opened: {error}"))
            return False
        return True


class FileSource(SourceBase):
    """Files named one by one; they are taken whatever their extension."""

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        root: str | Path | None = None,
        name: str | None = None,
        metadata: MetadataFor | None = None,
    ) -> None:
        """
        Args:
            paths: Files; one that is missing is an error of the listing, so that nothing is pruned.
            root: Document ids are relative to it; default: the folder that all files share.
            name: Default: ``files:`` and the root's URI.
            metadata: As for `DirectorySource`.
        """
        self.paths = [Path(path) for path in paths]
        if any(not str(path) for path in paths):
            raise SourceError("a path to ingest is empty; an unset variable of a script looks like this")
        self._root = Path(root) if root is not None else None
        self._metadata = metadata
        self.name = name or f"files:{_uri(self._root or _common_parent(self.paths))}"

    async def list(self) -> Listing:
        return await asyncio.to_thread(self._list)

    def _list(self) -> Listing:
        root = (self._root or _common_parent(self.paths)).resolve()
        listing = Listing()
        for path in self.paths:
            if not path.is_file():
                kind = "is not a file" if path.exists() else "does not exist"
                listing.errors.append((str(path), kind))
                continue
            resolved = path.resolve()
            relative = resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else path.name
            listing.items.append(file_item(path, relative, metadata=self._metadata))
        return listing


def file_item(path: Path, relative: str, *, metadata: MetadataFor | None = None) -> SourceItem:
    """The item of a file. Opening uses the name on disk; the id is its NFC form."""
    normal = unicodedata.normalize("NFC", _printable(relative))
    return SourceItem(
        document_id=normal,
        uri=_uri(path),
        title=str(PurePosixPath(normal).with_suffix("")),
        path=path,
        filename=normal,
        metadata=metadata_of(metadata, normal),
    )


def _printable(name: str) -> str:
    """`name` with the bytes that are no UTF-8 written as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _uri(path: Path) -> str:
    return path.resolve().as_uri()


def _common_parent(paths: Sequence[Path]) -> Path:
    parents = [str(path.resolve().parent) for path in paths]
    return Path(os.path.commonpath(parents)) if parents else Path.cwd()


def _supported_extensions() -> set[str]:
    from ..parsers import supported_extensions

    return set(supported_extensions())
