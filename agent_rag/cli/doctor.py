"""What is installed, what is not, and whether the configured stores answer."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator
from typing import Literal

from packaging.requirements import Requirement
from pydantic import BaseModel

from .._util.extras import DISTRIBUTION
from ..config.settings import Settings, open_store
from ..errors import AgentRAGError, redact
from .ask import missing_for_chat

_FOR_DEVELOPERS = ("test", "adapter-test", "bench", "docs")


class Finding(BaseModel):
    """The answer to one question."""

    kind: Literal["system", "package", "extra", "program", "model", "store"]
    name: str
    ok: bool
    required: bool = False
    detail: str = ""


async def diagnose(settings: Settings) -> list[Finding]:
    """Look at the interpreter, the packages, the extras, the programs, the keys and the configured stores."""
    findings = [
        Finding(kind="system", name="python", ok=True, detail=platform.python_version()),
        Finding(kind="system", name="sqlite", ok=True, detail=sqlite3.sqlite_version),
        *_packages(),
        *_extras(),
        _ocr(),
        _program("soffice", ".doc and .ppt: apt-get install libreoffice-writer libreoffice-impress"),
        *_models(settings),
    ]
    for name, knowledge_base in settings.knowledge_bases.items():
        try:
            async with open_store(knowledge_base, folder=settings.folder) as store:
                health = await store.ping()
            finding = Finding(kind="store", name=name, ok=health.ok, required=True, detail=health.detail)
        except (AgentRAGError, OSError) as error:
            finding = Finding(kind="store", name=name, ok=False, required=True, detail=redact(str(error)))
        findings.append(finding)
    return findings


def _requirements() -> Iterator[tuple[Requirement, str | None]]:
    """The requirements of the installed distribution with the extra they belong to."""
    for line in importlib.metadata.requires(DISTRIBUTION) or []:
        requirement = Requirement(line)
        extras = importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
        extra = next(
            (
                name
                for name in extras
                if requirement.marker
                and requirement.marker.evaluate({"extra": name})
                and not requirement.marker.evaluate({"extra": ""})
            ),
            None,
        )
        if extra in _FOR_DEVELOPERS:
            continue
        if extra is not None or requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement, extra


def _packages() -> Iterator[Finding]:
    for requirement, extra in _requirements():
        if extra is None:
            version = _version(requirement.name)
            yield Finding(
                kind="package",
                name=requirement.name,
                ok=version is not None and requirement.specifier.contains(version, prereleases=True),
                required=True,
                detail=version or f"pip install '{requirement}'",
            )


def _extras() -> Iterator[Finding]:
    members: dict[str, list[Requirement]] = {}
    for requirement, extra in _requirements():
        if extra is not None:
            members.setdefault(extra, []).append(requirement)
    for extra, requirements in sorted(members.items()):
        missing = [requirement.name for requirement in requirements if _version(requirement.name) is None]
        versions = ", ".join(f"{item.name} {_version(item.name)}" for item in requirements)
        detail = f"pip install '{DISTRIBUTION}[{extra}]'" if missing else versions
        yield Finding(kind="extra", name=extra, ok=not missing, detail=detail)


def _ocr() -> Finding:
    """The program alone recognises nothing."""
    found = _program("tesseract", "OCR of scanned pages and images: apt-get install tesseract-ocr")
    if not found.ok or _version("pytesseract") is not None:
        return found
    return found.model_copy(
        update={"ok": False, "detail": f"{found.detail}; pip install '{DISTRIBUTION}[ocr]' to use it"}
    )


def _program(name: str, purpose: str) -> Finding:
    found = shutil.which(name)
    return Finding(kind="program", name=name, ok=found is not None, detail=found or purpose)


def _models(settings: Settings) -> Iterator[Finding]:
    weights = importlib.util.find_spec("wordllama") is not None
    yield Finding(kind="model", name="local embedding", ok=weights, required=True, detail="wordllama weights, offline")
    missing = missing_for_chat(settings)
    detail = (
        settings.chat.model or os.environ.get("OPENAI_MODEL", "")
        if missing is None
        else f"{missing}; ask quotes sentences without it"
    )
    yield Finding(kind="model", name="chat model", ok=missing is None, detail=detail)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
