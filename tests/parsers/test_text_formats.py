"""Plain text, Markdown, reStructuredText, JSON, YAML, XML and source code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_rag import Section, TextParser
from agent_rag.chunkers import AutoChunker, MarkdownChunker
from agent_rag.documents import text_section
from agent_rag.errors import EmptyFileError, ParseError, ParseLimitError
from agent_rag.parsers import (
    CodeParser,
    JSONParser,
    MarkdownParser,
    RSTParser,
    XMLParser,
    YAMLParser,
    parse_text,
    parser_for,
)

from .samples import SAMPLES


def _titles(section: Section) -> list[tuple[int, str, str]]:
    """Level and title of each heading, with the line it points to."""
    return [(h.level, h.title, section.text[h.offset :].split("\n")[0]) for h in section.headings]


class TestTextParser:
    async def test_keeps_the_seeds_contract(self, tmp_path: Path) -> None:
        """One Section without metadata from bytes, from a path as str, and from text as str."""
        path = tmp_path / "cats.md"
        path.write_text("# Cats\nCats sleep.\n")

        from_bytes = await TextParser().parse(b"# Cats\nCats sleep.\n", "cats.md")
        from_path = await TextParser().parse(str(path), "cats.md")
        from_text = await TextParser().parse("# Cats\nCats sleep.\n", "cats.md")

        assert from_bytes == from_path == from_text
        assert [(s.text, s.source, s.metadata) for s in from_bytes] == [("# Cats\nCats sleep.\n", "cats.md", {})]

    def test_names_the_seeds_media_types(self) -> None:
        """In the seed's order."""
        assert TextParser.supported_media_types == [
            "text/plain", "text/markdown", "text/csv", "text/html", "text/x-rst",
            "application/json", "application/xml", "application/x-yaml",
        ]  # fmt: skip

    async def test_a_missing_path_is_not_taken_as_text(self, tmp_path: Path) -> None:
        """A Path always means a file."""
        with pytest.raises(FileNotFoundError):
            await TextParser().parse(tmp_path / "nothing.txt", "nothing.txt")

    async def test_parse_text_never_looks_at_the_disk(self, tmp_path: Path) -> None:
        """A user's text that happens to name a file stays text, with any parser."""
        secret = tmp_path / "secret.md"
        secret.write_text("the secret")

        for name in ("user.txt", "user.md", "user.csv", "user.pdf", "user"):
            assert "the secret" not in (await parse_text(str(secret), name))[0].text
        assert (await TextParser().parse_text(str(secret), "user.txt"))[0].text == str(secret)

    async def test_nothing_is_an_error(self) -> None:
        """No bytes, and no characters."""
        with pytest.raises(EmptyFileError, match=r"a\.txt"):
            await TextParser().parse(b"", "a.txt")
        with pytest.raises(EmptyFileError, match=r"a\.txt"):
            await parse_text("", "a.txt")

    async def test_the_size_is_bounded(self, tmp_path: Path) -> None:
        """The limit is named, and a path is not even opened."""
        path = tmp_path / "a.txt"
        path.write_bytes(b"x" * 101)

        for file in (path, b"x" * 101):
            with pytest.raises(ParseLimitError, match=r"a\.txt: 101 bytes.*max_file_bytes=100"):
                await TextParser(max_file_bytes=100).parse(file, "a.txt")

    async def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        """A typed error that names it."""
        with pytest.raises(ParseError, match="not a regular file"):
            await TextParser().parse(tmp_path, "folder")


class TestMarkdown:
    async def test_headings_have_offsets_and_paths(self) -> None:
        """ATX, closed ATX and setext; code fences, rules and tables are none."""
        text = (
            "# One\n\ntext\n\n## Two *bold* [link](u) ##\n\n```sh\n# comment\n```\n\nThree\n-----\n\n"
            "| a | b |\n| - | - |\n\n- item\n---\n\n~~~\n## no\n```\n~~~\n\n#hashtag\n    # code\n### Four\n"
        )

        section = (await MarkdownParser().parse(text.encode(), "a.md"))[0]

        assert section.metadata == {"format": "markdown"}
        assert _titles(section) == [
            (1, "One", "# One"),
            (2, "Two bold link", "## Two *bold* [link](u) ##"),
            (2, "Three", "Three"),
            (3, "Four", "### Four"),
        ]
        assert section.heading_path_at(len(section.text)) == ["One", "Three", "Four"]
        assert section.text == text

    async def test_front_matter_becomes_metadata(self) -> None:
        """Plain fields and lists; the format is never overwritten."""
        text = (
            "---\ntitle: 'Rain: a study'\ntags: [wet, cold]\nformat: evil\nauthors:\n  - Ola\n  - Kari\n---\n\n# One\n"
        )

        section = (await MarkdownParser().parse(text.encode(), "a.md"))[0]

        assert section.metadata == {
            "title": "Rain: a study",
            "tags": ["wet", "cold"],
            "format": "markdown",
            "authors": ["Ola", "Kari"],
        }
        assert section.text == "# One\n"

    async def test_any_key_may_stand_in_front_matter(self) -> None:
        """`source` and names of parameters; prose is text too, and a page number there is no place."""
        fields = (
            'title: X\nsource: "https://x"\nheadings: no\npage: 12\ndescription: The launch window opens at 04:15\n'
        )
        text = f"---\n{fields}---\n\n# Hi\n"

        (section,) = await MarkdownParser().parse(text.encode(), "a.md")

        assert section.source == "a.md"
        assert section.metadata == {
            "title": "X",
            "source": "https://x",
            "headings": "no",
            "front_matter_page": "12",
            "description": "The launch window opens at 04:15",
            "format": "markdown",
        }
        assert section.text == "description: The launch window opens at 04:15\n\n# Hi\n"

    async def test_slides_are_no_front_matter(self) -> None:
        """A blank line behind the first dashes, or text that is no mapping."""
        text = "---\n\n# Deck\n\nAgenda\n\n---\n\n# Two\n"

        (section,) = await MarkdownParser().parse(text.encode(), "a.md")

        assert (section.text, [item.title for item in section.headings]) == (text, ["Deck", "Two"])

    @pytest.mark.parametrize(
        ("text", "headings"),
        [
            ("# my_long_name and snake_case_x\n", [(1, "my_long_name and snake_case_x")]),
            ("## `agent_rag.filters`\n", [(2, "agent_rag.filters")]),
            ("# The `*args` and `**kwargs` rules\n", [(1, "The *args and **kwargs rules")]),
            ("<!--\n# hidden\n-->\n\n<pre>\n# no\n</pre>\n\n# Real\n", [(1, "Real")]),
            ("Foo\nBar\n---\n", [(2, "Foo Bar")]),
            ("# a\\_b \\# c &amp; d\n", [(1, "a_b # c & d")]),
            ("# Price ~5 to ~6\n", [(1, "Price ~5 to ~6")]),
            ("# [1.0.0] - today\n\n[1.0.0]: http://x\n", [(1, "1.0.0 - today")]),
            ("# Title {#anchor}\n", [(1, "Title")]),
            ("# [![Build](b.svg)](b)\n\n# ![logo](l.png) Name\n", [(1, "Build"), (1, "Name")]),
            ("- # in a list\n\n> ## in a quote\n", [(1, "in a list"), (2, "in a quote")]),
            ("#\n\n# <!-- no -->\n", []),
        ],
    )
    async def test_titles_are_those_of_commonmark(self, text: str, headings: list[tuple[int, str]]) -> None:
        """As they read, for the parser and the chunker alike."""
        (section,) = await MarkdownParser().parse(text.encode(), "a.md")
        bare = text_section(text, "a.md", format="markdown")

        assert [(item.level, item.title) for item in section.headings] == headings
        assert [chunk.heading_path for chunk in await MarkdownChunker().chunk([bare])] == [
            chunk.heading_path for chunk in await MarkdownChunker().chunk([section])
        ]

    async def test_a_long_text_has_the_headings_of_a_short_one(self) -> None:
        """It is read window by window; a fence, a quote or a list may go on over several."""
        inside = "```\n" + "# no\n" * 30_000 + "```\n\n> quote\n" + "> more\n" * 20_000
        text = "".join(f"# H{i}\n\n{inside}\n[d{i}]: http://x\n\n" for i in range(3)) + "Set [d0]\nUp\n---\n"

        (section,) = await MarkdownParser(isolation="none").parse(text.encode(), "a.md")

        assert [(item.level, item.title, text[item.offset :][:3]) for item in section.headings] == [
            (1, "H0", "# H"),
            (1, "H1", "# H"),
            (1, "H2", "# H"),
            (2, "Set d0 Up", "Set"),
        ]

    @pytest.mark.parametrize("text", ["---\nkey: {a: 1}\n---\nx\n", "---\n\nx\n", "---\nnot yaml at all\n---\nx\n"])
    async def test_front_matter_that_is_more_than_fields_stays_text(self, text: str) -> None:
        """Nothing is lost."""
        assert (await MarkdownParser().parse(text.encode(), "a.md"))[0].text == text


class TestRST:
    async def test_ranks_follow_the_first_use_of_a_style(self) -> None:
        """As docutils does; an underline that is too short is none, and a table is none."""
        text = (
            "=====\nTitle\n=====\n\nSub\n---\n\nSubsub\n~~~~~~\n\nNext\n----\n\nToo long\n---\n\n"
            "==== ====\nA    B\n==== ====\n1    2\n==== ====\n"
        )

        section = (await RSTParser().parse(text.encode(), "a.rst"))[0]

        assert [(h.level, h.title) for h in section.headings] == [(1, "Title"), (2, "Sub"), (3, "Subsub"), (2, "Next")]
        assert section.text[section.headings[0].offset :].startswith("=====\nTitle")
        assert section.metadata == {"format": "rst"}


class TestJSON:
    @pytest.mark.parametrize("ensure_ascii", [True, False])
    async def test_text_in_other_scripts_is_readable(self, ensure_ascii: bool) -> None:
        r"""P47: no \uXXXX sequence is left of it, and it is still the same JSON."""
        value = [{"城市": "北京 😀", "n": 1, "path": "C:\\users", "control": "\x07", "quote": '"'}]

        section = (await JSONParser().parse(json.dumps(value, ensure_ascii=ensure_ascii).encode(), "a.json"))[0]

        assert "城市" in section.text
        assert "北京 😀" in section.text
        assert "\\u5" not in section.text
        assert json.loads(section.text) == value

    async def test_numbers_keep_every_digit(self) -> None:
        """Nothing goes through a float."""
        text = '{"id": 12345678901234567890, "x": 0.10000000000000000001, "half": "\\ud800", "esc": "\\\\u4e2d"}'

        assert (await JSONParser().parse(text.encode(), "a.json"))[0].text == text

    async def test_json_lines_come_in_groups(self) -> None:
        """Told by the ending or by the content; records are counted from 1."""
        data = b"".join(b'{"n": %d}\n' % n for n in range(250))

        for name in ("a.jsonl", "a.json"):
            sections = await JSONParser().parse(data, name)
            assert [s.metadata["records"] for s in sections] == ["1-100", "101-200", "201-250"]
            assert sections[2].text.split("\n")[0] == '{"n": 200}'
        assert len(await JSONParser(records_per_section=250).parse(data, "a.jsonl")) == 1

    async def test_deep_nesting_is_just_text(self) -> None:
        """200,000 brackets: no RecursionError."""
        data = b"[" * 200_000 + b"]" * 200_000

        assert len((await JSONParser().parse(data, "a.json"))[0].text) == 400_000


class TestYAML:
    async def test_is_kept_as_written(self) -> None:
        """Comments and aliases stay; nothing is loaded."""
        text = "# rain\na: &x [1, 2]\nb: *x\n!!python/object:os.system c: 1\n"

        section = (await YAMLParser().parse(text.encode(), "a.yml"))[0]

        assert (section.text, section.metadata) == (text, {"format": "yaml"})


class TestXML:
    async def test_elements_are_lines_with_names(self) -> None:
        """Attributes, namespaces, CDATA, inline markup, text between children; containers are headings."""
        text = (
            '<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE r [<!ENTITY co "Tarnholm">]>'
            '<r xmlns="urn:x"><!-- no --><book id="7" lang=""><title>Regn &amp; vær</title>'
            "<p>One <b>bold</b> and\n more.</p><raw><![CDATA[a < b]]></raw></book><by>&co;</by>"
            "<mix><i>first</i> then tail<i>last</i> end</mix><empty/><only at='1'/></r>"
        )

        section = (await XMLParser().parse(text.encode("latin-1"), "a.xml"))[0]

        assert section.text == (
            "r\n  book id=7\n    title: Regn & vær\n    p: One bold and more.\n    raw: a < b\n  by: Tarnholm\n  mix\n"
            "    i: first\n    then tail\n    i: last\n    end\n  empty\n  only at=1"
        )
        assert _titles(section) == [(1, "r", "r"), (2, "Regn & vær", "  book id=7"), (2, "mix", "  mix")]

    @pytest.mark.parametrize(
        ("text", "outline", "wrong"),
        [
            (
                '<c><part number="ZX81"/><name>Rotor&nbsp;blade</name><name>Stator</name></c>',
                "c\n  part number=ZX81\n  name: Rotor blade\n  name: Stator",
                "the undeclared entity &nbsp;",
            ),
            ("<c><p>a & b</p><r><![CDATA[a & b]]></r></c>", "c\n  p: a & b\n  r: a & b", "a bare &"),
            ("<c><q>x\x01y&#1;</q><n>&#65;</n></c>", "c\n  q: xy\n  n: A", "a control character"),
            ('<!DOCTYPE c SYSTEM "x.dtd"><c><n>a&auml; &foo;</n></c>', "c\n  n: aä &foo;", "&foo;"),
        ],
    )
    async def test_what_is_nearly_xml_keeps_its_names_and_places(self, text: str, outline: str, wrong: str) -> None:
        """Entities of HTML, a bare ampersand and control characters are mended, and a warning says so."""
        (section,) = await XMLParser().parse(text.encode(), "a.xml")

        assert section.text == outline
        assert wrong in section.warnings[0]

    @pytest.mark.parametrize(
        ("text", "outline"),
        [
            ("<dict><key>Debug</key><true/></dict>", "dict\n  key: Debug\n  true"),
            ("<r><p>It is hot.<br/>Very</p><feature-x/></r>", "r\n  p: It is hot. Very\n  feature-x"),
            (
                "<!-- A licence of many words --><conf><!-- The port to listen on --><port>80</port></conf>",
                "# A licence of many words\nconf\n  # The port to listen on\n  port: 80",
            ),
            (
                "<item><description>&lt;p&gt;Hello &lt;b&gt;you&lt;/b&gt;&lt;/p&gt;</description></item>",
                "item\n  description: Hello you",
            ),
        ],
        ids=["empty", "empty in text", "comments", "escaped HTML"],
    )
    async def test_what_says_something_is_a_line(self, text: str, outline: str) -> None:
        """Elements without text, comments that document, the HTML of feeds."""
        assert (await XMLParser().parse(text.encode(), "a.xml"))[0].text == outline

    async def test_a_title_names_its_element(self) -> None:
        """JATS and DocBook: the path is of titles, not of ids."""
        inner = "<sec id='s2'><title>More</title><p>t</p></sec>"
        text = f"<article><body><sec id='s1'><title>Intro</title>{inner}</sec></body></article>"

        (section,) = await XMLParser().parse(text.encode(), "a.xml")

        assert section.heading_path_at(len(section.text)) == ["article", "body", "Intro", "More"]

    async def test_a_wrong_declaration_does_not_count(self) -> None:
        """UTF-16 that calls itself UTF-8."""
        data = '<?xml version="1.0" encoding="UTF-8"?><a><b>Ærø</b></a>'.encode("utf-16")

        assert (await XMLParser().parse(data, "a.xml"))[0].text == "a\n  b: Ærø"

    async def test_of_a_drawing_its_words_are_read(self) -> None:
        """Title, description and labels; no coordinates, styles and comments of the program that drew it."""
        drawing = (
            '<?xml version="1.0"?><!-- Generator: Some Illustrator 27 --><svg xmlns="http://www.w3.org/2000/svg">'
            "<title>Pump house</title><desc>Seen from the east</desc><style>.a { fill: red }</style>"
            "<defs><path d='M0'/></defs><g id='one'><path d='M0 0L9 9'/>"
            "<text x='1'>Main <tspan>valve</tspan></text><text>1.5 bar</text></g></svg>"
        )
        (section,) = await XMLParser().parse(drawing.encode(), "a.svg")
        (icon,) = await XMLParser().parse(b"<svg><path d='M0 0'/></svg>", "a.svg")

        assert section.text == "Pump house\nSeen from the east\nMain valve\n1.5 bar"
        assert (section.metadata["format"], section.headings) == ("svg", [])
        assert icon.text == ""

    async def test_external_entities_are_not_read(self, tmp_path: Path) -> None:
        """XXE: the file that it names does not get into the text."""
        (tmp_path / "secret").write_text("the secret")
        text = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]><a>&x;</a>'

        try:
            found = (await XMLParser().parse(text.encode(), "a.xml"))[0].text
        except ParseError as error:
            found = str(error)

        assert "the secret" not in found

    async def test_broken_markup_leaves_its_text(self) -> None:
        """A cut file and one nested too deep; what is no XML at all is an error."""
        (cut,) = await XMLParser().parse(b"<a><b>kept</b><c>cu", "a.xml")
        assert (cut.text, len(cut.warnings)) == ("a\n  b: kept\n  c: cu", 1)
        assert "three" in (await XMLParser().parse(b"<a><b>one</b></c></a><e>three</e>", "a.xml"))[0].text
        assert "deep" in (await XMLParser().parse(b"<a>" * 5_000 + b"deep", "a.xml"))[0].text
        with pytest.raises(ParseError, match=r"a\.xml: this is no XML"):
            await XMLParser().parse(b"just words", "a.xml")


class TestTranscript:
    async def test_turns_are_paragraphs_and_places_are_times(self) -> None:
        """Cues of one speaker join; numbers, notes and times are no text."""
        text = (
            "WEBVTT\n\nNOTE made\n\n1\n00:00:01.000 --> 00:00:04.000 align:start\n<v Ann Smith>We should ship</v>\n\n"
            "2\n00:00:04.100 --> 00:00:06.000\n<v Ann Smith>on <i>Friday</i>. &amp; more</v>\n\n"
            "00:07.000 --> 01:06.000\n<v Bo>No.</v>\n"
        )

        sections = await parser_for("a.vtt").parse(text.encode(), "a.vtt")
        chunks = await AutoChunker(chunk_size=45, overlap=0).chunk(sections)

        assert sections[0].text == "Ann Smith: We should ship on Friday. & more\n\nBo: No."
        assert [(chunk.text.strip(), chunk.metadata) for chunk in chunks] == [
            (
                "Ann Smith: We should ship on Friday. & more",
                {"format": "transcript", "time": "00:00:01-00:00:06", "speaker": "Ann Smith"},
            ),
            ("Bo: No.", {"format": "transcript", "time": "00:00:07-00:01:06", "speaker": "Bo"}),
        ]

    async def test_labels_in_the_text_are_speakers(self) -> None:
        """As Zoom writes them, also in SubRip; a cue without one goes on."""
        text = "1\n00:00:01,000 --> 00:00:02,000\nAnn: We ship\n\n2\n00:00:02,000 --> 00:00:03,000\nit: now.\n\n"
        text += "3\n00:00:03,000 --> 00:00:04,000\nBo: No.\n"

        (section,) = await parser_for("a.srt").parse(text.encode(), "a.srt")

        assert section.text == "Ann: We ship it: now.\n\nBo: No."

    async def test_captions_that_roll_say_each_line_once(self) -> None:
        """YouTube's repeat the line before."""
        text = (
            "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nhello<00:00:01.500><c> there</c>\n\n"
            "00:00:02.000 --> 00:00:03.000\nhello there\nhow<00:00:02.500><c> are you</c>\n"
        )

        (section,) = await parser_for("a.vtt").parse(text.encode(), "a.vtt")

        assert section.text == "hello there how are you"


async def test_a_log_loses_its_colours() -> None:
    """And nothing else."""
    (section,) = await parser_for("a.log").parse(b"\x1b[32;1mINFO\x1b[0m [1] up\n\x1b]0;title\x07done\n", "a.log")

    assert section.text == "INFO [1] up\ndone\n"


class TestOutline:
    async def test_keys_and_records_of_yaml_are_headings(self) -> None:
        """Not the lines of block text."""
        text = (
            "web:\n  image: nginx\nitems:\n- name: a\n  note: |\n    key:\n      x: 1\n- name: b\n  deep:\n    n: 1\n"
        )

        (section,) = await parser_for("a.yaml").parse(text.encode(), "a.yaml")

        assert [(item.level, item.title) for item in section.headings] == [
            (1, "web"), (1, "items"), (2, "name: a"), (2, "name: b"), (3, "deep"),
        ]  # fmt: skip

    @pytest.mark.parametrize("name", ["a.ini", "a.toml"])
    async def test_an_option_has_its_section(self, name: str) -> None:
        """As the heading path of its chunk."""
        text = "top = 1\n[server]\nport = 80\n[server.tls]\ncert = x\n[client]\nport = 1\n"
        sections = await parser_for(name).parse(text.encode(), name)

        assert sections[0].heading_path_at(text.index("cert")) == ["server", "server.tls"]
        assert sections[0].heading_path_at(len(text)) == ["client"]


async def test_values_have_their_insert() -> None:
    """As the heading path of each chunk."""
    text = "CREATE TABLE t (\n  id int\n);\nINSERT INTO t (id, name) VALUES\n"
    text += "".join(f"  ({i}, 'name of row {i}'),\n" for i in range(200))

    chunks = await AutoChunker().chunk(await parser_for("a.sql").parse(text.encode(), "a.sql"))

    assert len(chunks) > 3
    assert {chunk.heading_path[-1] for chunk in chunks[1:]} == {"INSERT INTO t (id, name) VALUES"}


class TestCode:
    async def test_names_the_language(self) -> None:
        """From the ending; the text is untouched."""
        section = (await CodeParser().parse(SAMPLES["sample.py"](), "src/Rain.PY"))[0]

        assert section.metadata == {"format": "code", "language": "python"}
        assert section.text == "def rain() -> int:\n    return 763\n"


async def test_too_many_headings_leave_out_the_lowest_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path above a place may be shorter then, but is never that of another place."""
    monkeypatch.setattr("agent_rag._util.markup.MAX_HEADINGS", 10)
    text = "".join(f"# A{i}\n\n## B{i}\n\nx{i}\n\n" for i in range(8))

    (section,) = await MarkdownParser().parse(text.encode(), "a.md")

    assert [heading.title for heading in section.headings] == [f"A{i}" for i in range(8)]
    assert section.heading_path_at(text.index("x7")) == ["A7"]
