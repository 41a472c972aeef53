"""Jupyter notebooks give their cells with what the code printed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from agent_rag import Section
from agent_rag.errors import ParseError
from agent_rag.parsers import JSONParser, NotebookParser, parser_for

from .samples import decoded, notebook_sample, png_sample


def _code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": list(outputs)}


def _markdown(source: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


async def _sections(*cells: dict[str, Any], parser: NotebookParser | None = None, **more: Any) -> list[Section]:
    book = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    return await (parser or NotebookParser()).parse(json.dumps(book).encode(), "a.ipynb")


async def test_each_cell_is_a_section_with_its_number() -> None:
    """Text as it stands, code and printed text in fences; an empty cell gives nothing but counts."""
    text, code = await NotebookParser().parse(notebook_sample(), "a.ipynb")

    assert text.text == "# Rain\n\nIt rains."
    assert text.metadata == {"format": "markdown", "cell": 1, "cell_type": "markdown"}
    assert code.text == "```python\nprint(rain)\n```\n\n```\n763\n2250\n```"
    assert code.metadata == {"format": "markdown", "cell": 2, "cell_type": "code", "language": "python"}
    assert [s.metadata["cell"] for s in await _sections(_markdown("a"), _code(""), _markdown("b"))] == [1, 3]


async def test_headings_stand_above_the_cells_that_follow() -> None:
    """Until one of the same or a higher rank."""
    cells = [
        _markdown("# A"),
        _markdown("## B\n\nx"),
        _code("1"),
        _markdown("text\n\n## C"),
        _code("2"),
        _markdown("# D"),
    ]

    sections = await _sections(*cells)

    assert [(section.text, section.heading_path) for section in sections] == [
        ("# A", []),
        ("## B\n\nx", ["A"]),
        ("```python\n1\n```", ["A", "B"]),
        ("text", ["A", "B"]),
        ("## C", ["A"]),
        ("```python\n2\n```", ["A", "C"]),
        ("# D", []),
    ]


async def test_outputs_are_read_as_they_are_seen() -> None:
    """A table as Markdown rather than as aligned text; no colour codes; the last state of a progress bar."""
    table = "<table><tr><th>a<th>b<tr><td>1<td>2</table>"
    outputs = [
        {"output_type": "execute_result", "data": {"text/html": [table], "text/plain": "   a  b\n0  1  2"}},
        {"output_type": "stream", "text": "10%\r50%\r100%\ndone"},
        {"output_type": "display_data", "data": {"text/html": "<div></div>", "text/plain": "<Figure>"}},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[0;31mE\x1b[0m: v", "line"]},
    ]

    (section,) = await _sections(_code("x", *outputs))

    assert section.text == (
        "```python\nx\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```\n100%\ndone\n```\n\n```\n<Figure>\n```\n\n"
        "```\nE: v\nline\n```"
    )
    (bare,) = await _sections(_code("x", *outputs), parser=NotebookParser(include_outputs=False))
    assert bare.text == "```python\nx\n```"


async def test_images_follow_their_cell() -> None:
    """Of outputs and of attachments, which carry their name."""
    png = base64.b64encode(png_sample()).decode()
    plot = _code("plot()", {"output_type": "display_data", "data": {"image/png": png + "\n", "text/plain": "<Figure>"}})
    note = _markdown("![x](attachment:x.png)", attachments={"x.png": {"image/png": png}})

    code, image, text, attached = await _sections(plot, note)

    assert (code.metadata["cell"], image.metadata["cell"], text.metadata["cell"]) == (1, 1, 2)
    assert image.metadata == {"media_type": "image/png", "cell": 1, "cell_type": "code"}
    assert decoded(image.content) == png_sample()
    assert attached.text == "x.png"
    assert len(await _sections(plot, note, parser=NotebookParser(include_image=False))) == 2


async def test_the_language_is_that_of_the_kernel() -> None:
    """Also from the kernel's specification; an odd name is not written into the fence."""
    (julia,) = await _sections(_code("1"), metadata={"kernelspec": {"language": "julia"}})
    (odd,) = await _sections(_code("1"), metadata={"language_info": {"name": "a\n```"}})

    assert julia.text == "```julia\n1\n```"
    assert odd.text == "```python\n1\n```"


async def test_format_3_is_read() -> None:
    """Worksheets, heading cells, `input`, outputs without a bundle."""
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Rain"},
        {"cell_type": "code", "input": ["1"], "outputs": [{"output_type": "pyout", "text": ["1"]}]},
    ]
    book = {"worksheets": [{"cells": cells}], "metadata": {}, "nbformat": 3}

    heading, code = await NotebookParser().parse(json.dumps(book).encode(), "a.ipynb")

    assert heading.text == "## Rain"
    assert (code.text, code.heading_path) == ("```python\n1\n```\n\n```\n1\n```", ["Rain"])


@pytest.mark.parametrize("data", [b"[1]", b'{"a": 1}', b'{"cells": 3}', b'{"cells": [', b"plain"])
async def test_what_is_no_notebook_is_an_error(data: bytes) -> None:
    """It names the file; odd cells in a notebook are passed over."""
    with pytest.raises(ParseError, match=r"a\.ipynb"):
        await NotebookParser().parse(data, "a.ipynb")


async def test_odd_cells_cost_nothing_else() -> None:
    """Values of the wrong kind are passed over."""
    odd = [7, None, {"cell_type": "code", "source": 3, "outputs": [None, {"data": 5}, {"output_type": "stream"}]}]

    sections = await _sections(*odd, _markdown("kept"))  # type: ignore[arg-type]

    assert sections[-1].text == "kept"


async def test_short_cells_of_thousands_share_sections() -> None:
    """Neighbours of one kind up to 256 characters, under the number of the first; nothing is lost."""
    cells = [_markdown(f"word{number}") for number in range(5_000)]
    cells[2_000] = {"cell_type": "raw", "source": "raw"}

    sections = await _sections(*cells)

    assert " ".join(section.text for section in sections).split() == [
        "raw" if number == 2_000 else f"word{number}" for number in range(5_000)
    ]
    assert max(len(section.text) for section in sections) < 300
    assert [section.metadata["cell"] for section in sections if section.metadata["cell_type"] == "raw"] == [2_001]


def test_it_is_known_by_content_and_name() -> None:
    """Under any name without a meaning; JSON with another name stays JSON."""
    assert isinstance(parser_for("upload.bin", data=notebook_sample()), NotebookParser)
    assert isinstance(parser_for("a.ipynb"), NotebookParser)
    assert isinstance(parser_for("a.json", data=b'{"cells": []}'), JSONParser)
