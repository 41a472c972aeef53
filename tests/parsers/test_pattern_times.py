"""No pattern that sees a user's bytes in this process takes more than its length: worst inputs, made from the pattern.

A comment pattern once doubled its time with every comment: 330 bytes took 44 s, before any worker and its time limit.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import regex

import agent_rag._util.languages
import agent_rag._util.markdown
import agent_rag.chunkers
import agent_rag.documents
import agent_rag.parsers.mail
import agent_rag.parsers.sniff
import agent_rag.parsers.text
import agent_rag.parsers.web
from agent_rag.parsers.sniff import detect

_SHORT = 3_000
_LONG = 100_000
_SUSPECT_S = 0.002
_LIMIT_S = 0.2

_SEARCHES = re.compile(r"\0\.(?:search|sub|subn|split|findall|finditer)")

_Pattern = tuple[Any, bool]
"""Of `re` or `regex`, for text or bytes; whether it is searched for, or only matched where a text begins."""


def _modules() -> Iterator[ModuleType]:
    for room in (agent_rag.parsers.text, agent_rag.parsers.web, agent_rag.parsers.mail, agent_rag.chunkers):
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            yield importlib.import_module(found.name)
    yield from (agent_rag.parsers.sniff, agent_rag._util.markdown, agent_rag._util.languages, agent_rag.documents)
    yield importlib.import_module("agent_rag.parsers.tables")


def _patterns() -> dict[str, _Pattern]:
    found: dict[str, tuple[str, _Pattern]] = {}
    for module in _modules():
        source = inspect.getsource(module)
        values = list(vars(module).items())
        if module.__name__.endswith("_boundaries"):
            values += list(vars(module.patterns()).items())
        for name, value in values:
            if isinstance(value, re.Pattern | regex.Pattern):
                where = f"{module.__name__.removeprefix('agent_rag.')}:{name}"
                uses = source.replace(f"{name}.", "\0.")
                searches = f"{name}.match(" not in source or _SEARCHES.search(uses) is not None
                found.setdefault(str(value.pattern), (where, (value, searches)))
    return dict(found.values())


_PATTERNS = _patterns()


def worst_inputs(pattern: str) -> Iterator[str]:
    """Texts that repeat what a pattern looks for and never give it: its words and signs, alone, in pairs, and one
    of them before a long run of another, all with and without an end that does not fit.
    """
    words = [word.replace("\\", "") for word in re.findall(r"(?:\\?[<!\[\]{}&#\"'/=:;|*`~.()@-]|\w){2,}", pattern)]
    signs = {sign for sign in re.sub(r"[\\\[\](){}?*+|^$]", "", pattern) if not sign.isalnum()}
    parts = [*dict.fromkeys([*sorted(words, key=len)[-3:], *sorted(signs)[:6], "a", "A", "1", " ", "\t", "\n"])]
    yield from parts
    for first, second in itertools.permutations(parts, 2):
        yield first + second


@pytest.mark.parametrize("name", _PATTERNS)
def test_a_pattern_is_linear(name: str) -> None:
    """100 kB of its worst input take under .2 s of CPU; inputs of 3 kB that take under 2 ms are not tried longer."""
    pattern, searches = _PATTERNS[name]
    is_text = isinstance(pattern.pattern, str)
    source = pattern.pattern if is_text else pattern.pattern.decode("latin-1")

    for part in worst_inputs(source):
        for ending in ("", "\x00"):
            text, long = (part * (size // len(part)) + ending for size in (_SHORT, _LONG))
            if _seconds(pattern, text if is_text else text.encode("latin-1", "replace"), searches) > _SUSPECT_S:
                worst = long if is_text else long.encode("latin-1", "replace")
                taken = min(_seconds(pattern, worst, searches) for _ in range(3))  # a neighbour takes the cache
                assert taken < _LIMIT_S, f"{taken:.2f} s for {part!r} repeated"


def _seconds(pattern: Any, text: Any, searches: bool) -> float:
    begin = time.process_time()
    pattern.match(text)
    if searches:
        for _ in pattern.finditer(text):
            pass
    return time.process_time() - begin


@pytest.mark.parametrize(
    "data",
    [
        b'<?xml version="1.0"?>' + b"<!-- c -->\n" * 27 + b"<a/>",
        b"<!-- c -->\n" * 400,
        b"a:\n " * 1_000,
        b"a-a:b\r\n" * 600,
        b"{" + b' "' * 2_000,
    ],
)
def test_what_a_file_is_is_told_at_once(data: bytes) -> None:
    """XML with comments, mail headers without end, quotes: all under .05 s of CPU."""
    taken = []
    for _ in range(3):
        begin = time.process_time()
        detect(data)
        taken.append(time.process_time() - begin)

    assert min(taken) < 0.05
