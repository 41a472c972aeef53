"""The service that the docs show: uploads, searches and answers of two tenants."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shared import ROOT

TestClient = pytest.importorskip("starlette.testclient").TestClient
EXAMPLE = ROOT / "examples/fastapi_service.py"
ACME, GLOBEX = {"authorization": "Bearer acme"}, {"authorization": "Bearer globex"}


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("fastapi_service", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "fastapi_service", module)
    spec.loader.exec_module(module)
    with TestClient(module.app) as client:
        yield client


def upload(service: Any, name: str, content: bytes, tenant: dict[str, str]) -> Any:
    return service.put("/documents/7", files={"file": (name, content)}, headers=tenant)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_tenant_has_their_own(service: Any) -> None:
    """One id, two documents; each finds, asks and deletes their own."""
    first = upload(service, "a.md", b"# Canteen\n\nAcme's canteen opens at noon.", ACME)
    upload(service, "b.md", b"# Canteen\n\nGlobex's canteen opens at one.", GLOBEX)

    (hit,) = service.get("/search", params={"q": "canteen"}, headers=ACME).json()
    answer = service.get("/ask", params={"q": "When does the canteen open?"}, headers=GLOBEX).json()
    gone = service.delete("/documents/7", headers=ACME).json()
    left = service.get("/search", params={"q": "canteen"}, headers=GLOBEX).json()

    assert (first.status_code, first.json()["outcome"]) == (200, "added")
    assert "Acme" in hit["text"]
    assert "at one" in answer["text"]
    assert answer["citations"][0].startswith("b.md")
    assert (gone, len(left)) == (1, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_file_that_cannot_be_read_is_an_answer(service: Any) -> None:
    """422 with the reason; without a token 401 or 422."""
    broken = upload(service, "a.pdf", b"%PDF-1.4 broken", ACME)

    assert broken.status_code == 422
    assert "cannot be read as PDF" in broken.json()["detail"]
    assert service.get("/search", params={"q": "x"}).status_code == 422


def test_the_page_shows_the_example() -> None:
    """Byte for byte."""
    page = (ROOT / "docs/how_to/fastapi.md").read_text("utf-8")

    assert EXAMPLE.read_text("utf-8") in page
