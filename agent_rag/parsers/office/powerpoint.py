"""PowerPoint presentations (.pptx and its macro, template and show variants)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ...content import TextBlock
from ...documents import Heading, Section
from ...errors import ConfigurationError
from .. import sniff
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation, FileParser
from ..images.ocr import OCREngine, with_recognized_images
from ..sections import ImageSource
from ..tables import TableFormat, check_table_format, render_table
from .ooxml import DEFAULT_MAX_INFLATED_BYTES, Package
from .slides import Picture, Slide, SlideReader, SlideTable, Text, Title


class PPTParser(FileParser):
    """Reads a presentation slide by slide.

    A slide gives one text Section `{"slide": n}`, n from 1, in reading order: title (as ``# Title``, recorded in
    `Section.headings`), shapes by position, tables, charts, SmartArt, then the notes below the line ``Notes:``. Its
    images follow as Sections with `"media_type"`. A hidden slide has `"hidden": True`; an empty one gives nothing.

    Args:
        include_image: Give images as DataBlocks; else their alternative text stands in the text.
        separate_table: Make each table a Section of its own.
        table_format: "markdown" or "json".
        slide_prefix: First line of a slide's text; ``{index}`` is its number; None or "" for none.
        slide_suffix: Last line of a slide's text, likewise.
        include_notes: Add the speaker's notes.
        include_hidden: Read hidden slides.
        include_comments: Add reviewers' comments below the line ``Comments:``.
        ocr: Recognises the text in images, which joins their caption, for example `TesseractOCR()`.
        max_inflated_bytes: Bound on the unpacked size.
        max_file_bytes: Bound on the file's size.
        isolation: Where the file is read: "auto" by its size, "process", or "none" for a thread.

    Raises: ValueError: `table_format` is unknown, or a prefix or suffix has another placeholder than ``{index}``.
    """

    supported_media_types: ClassVar[list[str]] = [
        sniff.PPTX,
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
        "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
        "application/vnd.openxmlformats-officedocument.presentationml.template",
    ]
    format_name: ClassVar[str] = "PowerPoint presentation"
    version: ClassVar[int] = 3

    def __init__(
        self,
        include_image: bool = True,
        separate_table: bool = False,
        table_format: TableFormat = "markdown",
        slide_prefix: str | None = "<slide index={index}>",
        slide_suffix: str | None = "</slide>",
        *,
        include_notes: bool = True,
        include_hidden: bool = True,
        include_comments: bool = False,
        ocr: OCREngine | None = None,
        max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        check_table_format(table_format)
        _check_template("slide_prefix", slide_prefix)
        _check_template("slide_suffix", slide_suffix)
        self.include_image = include_image
        self.separate_table = separate_table
        self.table_format: TableFormat = table_format
        self.slide_prefix = slide_prefix
        self.slide_suffix = slide_suffix
        self.include_notes = include_notes
        self.include_hidden = include_hidden
        self.include_comments = include_comments
        self.ocr = ocr
        self.max_inflated_bytes = max_inflated_bytes

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".potm", ".potx", ".ppsm", ".ppsx", ".pptm", ".pptx"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        package = Package(data, filename, expected=sniff.PPTX, max_inflated_bytes=self.max_inflated_bytes)
        reader = SlideReader(
            package,
            include_image=self.include_image,
            include_notes=self.include_notes,
            include_comments=self.include_comments,
            table_format=self.table_format,
        )
        return self._read(package, reader.slides())

    def _read(self, package: ImageSource, slides: Iterable[Slide]) -> list[Section]:
        sections: list[Section] = []
        hidden = left_out = 0
        for slide in slides:
            left_out += slide.unread_comments
            if slide.hidden and not self.include_hidden:
                hidden += 1
            else:
                sections += self._sections(package, slide)
        for section in sections[:1]:
            section.warnings = [
                f"{count} {what} not read; pass {type(self).__name__}({option}=True)"
                for count, what, option in (
                    (left_out, "comment(s) are", "include_comments"),
                    (hidden, "hidden slide(s) are", "include_hidden"),
                )
                if count
            ]
        return with_recognized_images(sections, self.ocr)

    def _sections(self, package: ImageSource, slide: Slide) -> list[Section]:
        metadata = {"slide": slide.number} | ({"hidden": True} if slide.hidden else {})
        texts = _Texts(package.filename, metadata)
        for item in slide.items:
            if isinstance(item, SlideTable):
                self._add_table(texts, item)
            elif isinstance(item, Title):
                texts.heading(item.text)
            elif isinstance(item, Text):
                texts.line(item.text)
        texts.end()
        texts.frame(self._tag(self.slide_prefix, slide), self._tag(self.slide_suffix, slide))
        pictures = [item for item in slide.items if isinstance(item, Picture)]
        images = [package.image(item.part, alt=item.alt, **metadata) for item in pictures]
        for section in (*texts.sections[1:], *images):
            section.heading_path = [slide.title] if slide.title else []
        return [*texts.sections, *images]

    def _add_table(self, texts: _Texts, table: SlideTable) -> None:
        text = render_table(table.rows, self.table_format)
        if text and self.separate_table:
            texts.end()
            texts.line(text)
            texts.end(framed=False)
        elif text:
            texts.line(text)

    def _tag(self, template: str | None, slide: Slide) -> str:
        return (template or "").format(index=slide.number)


class _Texts:
    """The text Sections of one slide."""

    def __init__(self, filename: str, metadata: dict[str, int | bool]) -> None:
        self.sections: list[Section] = []
        self._framed: list[Section] = []
        self._source = filename
        self._metadata = metadata
        self._lines: list[str] = []
        self._headings: list[Heading] = []

    def line(self, text: str) -> None:
        self._lines.append(text)

    def heading(self, title: str) -> None:
        offset = sum(len(line) + 1 for line in self._lines)
        self._headings.append(Heading(level=1, title=title, offset=offset))
        self._lines.append(f"# {title}")

    def end(self, *, framed: bool = True) -> None:
        """Close the Section being written; one that is not framed gets no slide tags."""
        text = "\n".join(self._lines).rstrip()
        if text:
            section = Section(content=TextBlock(text=text), source=self._source, metadata=dict(self._metadata))
            section.headings = self._headings
            self.sections.append(section)
            self._framed += [section] if framed else []
        self._lines, self._headings = [], []

    def frame(self, prefix: str, suffix: str) -> None:
        """Open the slide's first text with `prefix` and close its last one with `suffix`."""
        if not self._framed:
            return
        first, last = self._framed[0], self._framed[-1]
        if prefix:
            first.content = TextBlock(text=f"{prefix}\n{first.text}")
            shift = len(prefix) + 1
            first.headings = [item.model_copy(update={"offset": item.offset + shift}) for item in first.headings]
        if suffix:
            last.content = TextBlock(text=f"{last.text}\n{suffix}")


def _check_template(name: str, template: str | None) -> None:
    try:
        (template or "").format(index=1)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        raise ConfigurationError(
            f"{name} is {template!r}, which cannot be filled in ({type(error).__name__}: {error}); "
            "its only placeholder is {index}"
        ) from error
