"""The contract of a parser as a test class, for the shipped parsers and for those of third parties.

class TestMyParser(ParserContract):
    @pytest.fixture
    def parser(self):
        return MyParser()

    @pytest.fixture
    def sample(self):
        return b"...", "sample.xyz"
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ..documents import Section, storable_metadata
from ..errors import ParseError
from ..parsers.base import ParserBase
from .concurrency import AT_ONCE, many_at_once
from .loop import longest_block

_BLOCKED_S = 0.05


class ParserContract:
    """Subclass it with the fixtures `parser` and `sample`; raise the flags that apply."""

    str_is_text = False
    """The parser takes a str as the text itself, as the seed's own example does, so a path is given as `Path` only."""
    takes_paths = True
    """The parser also reads a path; the seed's own example takes bytes or text only."""
    refuses_garbage = True
    """Bytes that are no such file raise; a parser of plain text may take them."""

    @pytest.fixture
    def parser(self) -> ParserBase:
        raise NotImplementedError("give the fixture `parser`")

    @pytest.fixture
    def sample(self) -> tuple[bytes, str]:
        """Content and file name of a small honest file."""
        raise NotImplementedError("give the fixture `sample`")

    @pytest.fixture
    def samples(self, sample: tuple[bytes, str]) -> list[tuple[bytes, str]]:
        """Files that are read at the same time; more than one makes a mix."""
        data, name = sample
        return [(data, name), (data, f"other-{name}")]

    async def test_gives_sections_that_carry_the_file_name(self, parser: ParserBase, sample: tuple[bytes, str]) -> None:
        """Every Section's source is the given name, and at least one has content."""
        data, name = sample

        sections = await parser.parse(data, name)

        assert sections
        assert all(isinstance(section, Section) and section.source == name for section in sections)
        assert any(section.text.strip() or section.content.type == "data" for section in sections)

    async def test_same_bytes_give_equal_sections(self, parser: ParserBase, sample: tuple[bytes, str]) -> None:
        """There is no random id and no clock in a Section."""
        data, name = sample

        first, second = await parser.parse(data, name), await parser.parse(data, name)

        assert first == second

    async def test_a_path_gives_the_same_as_its_bytes(
        self, parser: ParserBase, sample: tuple[bytes, str], tmp_path: Path
    ) -> None:
        """A Path is read, and a str too where it means a path."""
        if not self.takes_paths:
            pytest.skip("this parser takes no paths: set takes_paths = True when it does")
        data, name = sample
        path = tmp_path / "some file.bin"
        path.write_bytes(data)

        expected = await parser.parse(data, name)

        assert await parser.parse(path, name) == expected
        if not self.str_is_text:
            assert await parser.parse(str(path), name) == expected

    async def test_a_missing_path_is_said_to_be_missing(self, parser: ParserBase, tmp_path: Path) -> None:
        """A Path that is not there raises FileNotFoundError; it is never taken as text."""
        if not self.takes_paths:
            pytest.skip("this parser takes no paths: set takes_paths = True when it does")

        with pytest.raises(FileNotFoundError):
            await parser.parse(tmp_path / "missing.bin", "missing.bin")

    async def test_garbage_is_a_parse_error_that_names_the_file(self, parser: ParserBase) -> None:
        """No library's own exception comes through."""
        if not self.refuses_garbage:
            pytest.skip("this parser takes any text: set refuses_garbage = True when it does not")
        garbage = bytes(range(256)) * 8

        with pytest.raises(ParseError, match="garbage"):
            await parser.parse(garbage, "garbage.bin")

    async def test_metadata_and_headings_can_be_stored(self, parser: ParserBase, sample: tuple[bytes, str]) -> None:
        """Metadata is plain JSON, and headings lie in the text in order."""
        data, name = sample

        for section in await parser.parse(data, name):
            assert json.loads(json.dumps(section.metadata)) == storable_metadata(section.metadata)
            offsets = [heading.offset for heading in section.headings]
            assert offsets == sorted(offsets)
            assert all(offset <= len(section.text) for offset in offsets)

    async def test_the_event_loop_goes_on(self, parser: ParserBase, sample: tuple[bytes, str]) -> None:
        """The loop is never blocked for more than 50 ms while a file is parsed, once the libraries are loaded."""
        data, name = sample
        await parser.parse(data, name)

        stall = min([await longest_block(parser.parse(data, name)) for _ in range(3)])

        assert stall < _BLOCKED_S, f"the event loop stood still for {stall * 1000:.0f} ms"

    async def test_many_at_once_give_what_one_after_another_gives(
        self, parser: ParserBase, samples: list[tuple[bytes, str]]
    ) -> None:
        """80 files at a time from four threads, a loop each, with one parser."""
        files = [samples[number % len(samples)] for number in range(AT_ONCE)]
        alone = [await parser.parse(*file) for file in samples]

        together = await asyncio.to_thread(many_at_once, lambda file: parser.parse(*file), files)

        assert together == [alone[number % len(samples)] for number in range(AT_ONCE)]

    def test_names_its_types(self, parser: ParserBase) -> None:
        """Media types and endings are declared, endings with a dot and in lower case."""
        endings = parser.supported_extensions()

        assert parser.supported_media_types
        assert endings == sorted(set(endings))
        assert all(ending.startswith(".") and ending == ending.lower() for ending in endings)
        assert parser.fingerprint
