"""Walking a directory: every file once, whatever names reach it."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote_from_bytes

from ..stores.files import is_store_folder, store_files

Links = Literal["inside", "all", "none"]
_SKIPPED_FOLDERS = frozenset({"__pycache__"})
_SKIPPED_FILES = frozenset({"Thumbs.db", "desktop.ini"})


@dataclass(slots=True)
class FoundFile:
    """One name of a file."""

    relative: str
    """Path from the root, with ``/``, as the file system spells it."""
    path: str
    real: str
    """The file itself, behind every link."""
    by_link: bool
    stat: os.stat_result


class Walk:
    """The files below a directory, and what was left out.

    Links to directories are followed once for each directory, and never to one that they lie in.

    Args:
        links: "inside" follows links that stay below `root`, "all" also those that leave it, "none" no link.
        takes_folder, takes_file: Whether the caller wants a relative path.
    """

    def __init__(
        self,
        root: str,
        *,
        recursive: bool,
        include_hidden: bool,
        links: Links,
        takes_folder: Callable[[str], bool],
        takes_file: Callable[[str], bool],
    ) -> None:
        self.root = root
        self.real_root = os.path.realpath(root)
        self.files: list[FoundFile] = []
        self.skipped: list[tuple[str, str]] = []
        self.errors: list[tuple[str, str]] = []
        self._recursive = recursive
        self._include_hidden = include_hidden
        self._links = links
        self._takes_folder = takes_folder
        self._takes_file = takes_file
        self._linked: set[str] = set()

    def run(self) -> Walk:
        """Look at everything now."""
        self._folder(self.root, self.real_root, "", by_link=False)
        return self

    def _folder(self, folder: str, real: str, prefix: str, *, by_link: bool) -> None:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=_name)
        except OSError as error:
            self.errors.append((prefix.rstrip("/") or folder, f"cannot be listed: {error.strerror or error}"))
            return
        names = {entry.name for entry in entries}
        if is_store_folder(folder, names):
            return
        of_a_store = store_files(names)
        for entry in entries:
            name = entry.name
            if (name[0] == "." and not self._include_hidden) or name in of_a_store:
                continue
            relative = prefix + name
            if entry.is_symlink():
                self._link(entry, relative)
            elif entry.is_dir(follow_symlinks=False):
                if self._recursive and name not in _SKIPPED_FOLDERS and self._takes_folder(relative):
                    self._folder(entry.path, os.path.join(real, name), relative + "/", by_link=by_link)
            elif _is_document(name) and entry.is_file(follow_symlinks=False) and self._takes_file(relative):
                self._file(entry, os.path.join(real, name), relative, by_link=by_link)

    def _file(self, entry: os.DirEntry[str], real: str, relative: str, *, by_link: bool) -> None:
        try:
            stat = entry.stat()
        except OSError:  # it is gone since the folder was listed
            return
        self.files.append(FoundFile(relative, entry.path, real, by_link, stat))

    def _link(self, entry: os.DirEntry[str], relative: str) -> None:
        try:
            real = os.path.realpath(entry.path, strict=True)
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except (OSError, RuntimeError) as error:
            kind = "a broken link" if isinstance(error, FileNotFoundError) else "cannot be opened"
            self.skipped.append((printable(relative), f"{kind}: {getattr(error, 'strerror', None) or error}"))
            return
        if self._links == "none":
            self.skipped.append((printable(relative), 'a link; links="inside" follows those within the directory'))
        elif self._links == "inside" and not _is_below(real, self.real_root):
            what = "a file" if is_file else "a directory"
            self.skipped.append((printable(relative), f"a link to {what} outside the directory"))
        elif is_folder:
            self._linked_folder(entry, real, relative)
        elif is_file and _is_document(entry.name) and self._takes_file(relative):
            self._file(entry, real, relative, by_link=True)

    def _linked_folder(self, entry: os.DirEntry[str], real: str, relative: str) -> None:
        here = os.path.realpath(os.path.dirname(entry.path))
        leads_up = _is_below(here, real)
        wanted = self._recursive and entry.name not in _SKIPPED_FOLDERS and self._takes_folder(relative)
        if leads_up or real in self._linked or not wanted:
            return
        self._linked.add(real)
        self._folder(entry.path, real, relative + "/", by_link=True)


def one_each(files: Iterable[FoundFile]) -> list[tuple[FoundFile, list[str]]]:
    """Each file once, with its further names; the order of `files` does not matter.

    The name that counts is the file's own before that of a link, and then the first in alphabetical order. Hard links
    are names of one file.
    """
    groups: dict[object, list[FoundFile]] = {}
    for file in files:
        inode = (file.stat.st_dev, file.stat.st_ino) if file.stat.st_nlink > 1 and file.stat.st_ino else None
        groups.setdefault(inode or file.real, []).append(file)
    chosen = []
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=lambda file: (file.by_link, file.relative))
        first = group[0]
        also = {printable(file.relative) for file in group[1:]} - {printable(first.relative)}
        chosen.append((first, sorted(also)))
    return sorted(chosen, key=lambda pair: pair[0].relative)


def keys_of(names: Iterable[str]) -> dict[str, str]:
    """Name on disk -> path within the source: its Unicode NFC form.

    Where several names have one NFC form, the one that is in it keeps it, and the others stay as they are on disk.
    """
    forms: dict[str, list[str]] = {}
    for name in names:
        shown = printable(name)
        forms.setdefault(shown if shown.isascii() else unicodedata.normalize("NFC", shown), []).append(name)
    keys = {}
    for form, group in forms.items():
        for name in group:
            keys[name] = form if len(group) == 1 else printable(name)
    return keys


def file_uri(path: str) -> str:
    """The ``file:`` URI of an absolute path without links."""
    if sys.platform == "win32":
        return Path(path).as_uri()
    return "file://" + quote_from_bytes(os.fsencode(path))


def printable(name: str) -> str:
    """`name` with the bytes that are no UTF-8 written as escapes."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_document(name: str) -> bool:
    return not name.startswith("~$") and name not in _SKIPPED_FILES


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
