"""A git repository as a source: a commit of it, read through git itself."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..errors import MissingExtraError, SourceError, redact
from ._patterns import Patterns
from .base import Listing, MetadataFor, SourceBase, SourceItem, metadata_of

_SCP = re.compile(r"[\w.-]+@[\w.-]+:(?!//)")
_TIMEOUT_S = 600.0


class GitSource(SourceBase):
    """The files of one commit. What git says is unchanged is not read again.

    A repository of this machine is read in place, whatever its work tree looks like. Another one is cloned to a
    temporary folder, its last commit only, at each listing. Links and submodules are reported and left out. git must
    be installed; it never asks for a password.
    """

    def __init__(
        self,
        repository: str | Path,
        *,
        ref: str | None = None,
        subfolder: str = "",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        name: str | None = None,
        metadata: MetadataFor | None = None,
    ) -> None:
        """
        Args:
            repository: Its address (https, ssh, git, file), or a folder of it.
            ref: Branch, tag or commit; default: HEAD.
            subfolder: Documents are those below, known by their path from there.
            include, exclude: As for `DirectorySource`.
            name: Name of the source; default: the last part of the address, with the subfolder.
        """
        self._address = str(repository)
        if self._address.startswith("-") or (ref or "").startswith("-"):
            raise SourceError(f"{redact(self._address)!r} or {ref!r} is no repository or ref of git; check the name")
        self._ref = ref
        self._subfolder = subfolder.strip("/")
        self._patterns = Patterns(include, exclude)
        self._metadata = metadata
        self._clone: tempfile.TemporaryDirectory[str] | None = None
        shown = redact(self._address).rstrip("/").removesuffix(".git")
        self.location = f"git:{shown}" + (f"#{self._subfolder}" if self._subfolder else "")
        self.named = True
        last = re.split(r"[/:]", shown)[-1] or "git"
        self.name = name or "/".join(part for part in (last, self._subfolder) if part)

    async def list(self) -> Listing:
        return await asyncio.to_thread(self._list)

    def _list(self) -> Listing:
        folder = self._folder()
        commit = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{self._wanted(folder)}^{{commit}}").strip()
        tree = commit.decode() + (f":{self._subfolder}" if self._subfolder else "")
        listing = Listing()
        blobs: dict[str, tuple[str, int]] = {}
        for line in filter(None, _git(folder, "ls-tree", "-r", "-l", "-z", "--full-tree", tree).split(b"\0")):
            about, _, name = line.partition(b"\t")
            mode, kind, blob, size = about.decode().split()
            path = name.decode("utf-8", "backslashreplace")
            if mode == "120000" or kind != "blob":
                listing.skipped.append((path, "a link" if mode == "120000" else "a submodule"))
            else:
                blobs[path] = (blob, int(size))
        for path in self._patterns.chosen(blobs, listing):
            name_of_blob, bytes_of_blob = blobs[path]
            listing.items.append(
                SourceItem(
                    document_id=path,
                    uri=f"{self.location.partition('#')[0]}#{'/'.join(filter(None, (self._subfolder, path)))}",
                    filename=path,
                    metadata=metadata_of(self._metadata, path),
                    size=bytes_of_blob,
                    stamp=f"git:{name_of_blob}",
                    read=partial(_git, folder, "cat-file", "blob", name_of_blob),
                )
            )
        return listing

    def _wanted(self, folder: str) -> str:
        return "FETCH_HEAD" if self._clone is not None else self._ref or "HEAD"

    def _folder(self) -> str:
        """Where the repository can be read; an address is fetched."""
        if "://" not in self._address and not _SCP.match(self._address):
            if not os.path.isdir(self._address):
                raise SourceError(f"{self._address} is no folder; pass a repository, or its address")
            return _git(self._address, "rev-parse", "--absolute-git-dir").decode().strip()
        self._clone = tempfile.TemporaryDirectory(prefix="agent-rag-git-")
        weakref.finalize(self, self._clone.cleanup)
        folder = self._clone.name
        _git(folder, "init", "-q", "--bare")
        _git(folder, "fetch", "-q", "--depth", "1", "--no-tags", "--", self._address, self._ref or "HEAD")
        return folder


def _git(folder: str, *arguments: str) -> bytes:
    """What git prints. Raises: SourceError: it fails. MissingExtraError: it is not installed."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments],
            capture_output=True,
            timeout=_TIMEOUT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise MissingExtraError("GitSource needs the program git, which is not installed; install git") from error
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"git {arguments[0]} took more than {_TIMEOUT_S:g} s; is the server up?") from error
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = redact(told[-1] if told else f"exit code {done.returncode}")
        raise SourceError(f"git {arguments[0]}: {reason}; check the repository, the ref and the subfolder")
    return done.stdout
