"""With AGENT_RAG_NO_SKIPS=1 (CI) a skip is a failure: everything that a test needs can be started there."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

# An ordinary user's PATH lacks them; the embedded PostgreSQL calls useradd when it is started as root.
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

# Frameworks run in environments of their own; a parser that takes no paths has nothing to test there.
_FINE = ("scripts/test adapters", "this parser takes", "AGENT_RAG_SMALL_MODEL")


def _forbid_skip(report: Any) -> None:
    if not os.environ.get("AGENT_RAG_NO_SKIPS") or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(words in reason for words in _FINE):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report
