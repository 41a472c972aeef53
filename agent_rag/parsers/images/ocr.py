"""Text recognition for scanned pages and pictures."""

from __future__ import annotations

import asyncio
import base64
import inspect
import io
import threading
from collections.abc import Awaitable, Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..._util.extras import needs
from ...content import Base64Source, DataBlock
from ...documents import Section
from ...errors import ConfigurationError, ParseTimeoutError

_RASTER = ("image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp", "image/tiff")


class OCRText(NamedTuple):
    """What an engine recognised."""

    text: str
    confidence: float
    """Mean over the words, 0 to 100."""


@runtime_checkable
class OCREngine(Protocol):
    """Recognises the text in a picture. `recognize` may be a plain or an async method."""

    def recognize(self, image: bytes) -> OCRText | Awaitable[OCRText]:
        """Args: image: A PNG, JPEG or another file that Pillow reads."""
        ...


class TesseractOCR:
    """Tesseract in a subprocess. Needs the extra ``ocr`` and the program (Debian: ``apt install tesseract-ocr``).

    Args:
        language: Tesseract's codes joined by ``+``, for example ``"eng+deu"``; each needs its language package.
        min_confidence: Words below are dropped, 0 to 100; noise in a photograph is read with low confidence.
        timeout_s: For one picture.
    """

    def __init__(self, language: str = "eng", *, min_confidence: float = 60.0, timeout_s: float = 60.0) -> None:
        if not 0 <= min_confidence <= 100:
            raise ConfigurationError(f"min_confidence is {min_confidence}; it goes from 0 to 100")
        self.language = language
        self.min_confidence = min_confidence
        self.timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"TesseractOCR(language={self.language!r}, min_confidence={self.min_confidence:g})"

    def recognize(self, image: bytes) -> OCRText:
        """Raises: ConfigurationError: the program or a language is missing; ParseTimeoutError."""
        pytesseract: Any = needs("ocr", "pytesseract")
        from PIL import Image

        try:
            with Image.open(io.BytesIO(image)) as picture:
                picture.load()
                table = pytesseract.image_to_data(
                    picture.convert("RGB") if picture.mode not in ("L", "RGB") else picture,
                    lang=self.language,
                    timeout=self.timeout_s,
                    output_type=pytesseract.Output.DICT,
                )
        except pytesseract.TesseractNotFoundError as error:
            raise ConfigurationError(
                "text recognition needs the program tesseract: apt install tesseract-ocr (Debian), "
                "brew install tesseract (macOS)"
            ) from error
        except pytesseract.TesseractError as error:
            raise ConfigurationError(
                f"tesseract cannot read language {self.language!r}: {error.message.strip()[:200]}; "
                "install its language package, for example tesseract-ocr-deu"
            ) from error
        except RuntimeError as error:
            raise ParseTimeoutError(
                f"text recognition took longer than timeout_s={self.timeout_s:g}; pass TesseractOCR(timeout_s=...)"
            ) from error
        return self._joined(table)

    def _joined(self, table: dict[str, list[Any]]) -> OCRText:
        lines: dict[tuple[int, int, int], list[str]] = {}
        confidences: list[float] = []
        for index, word in enumerate(table["text"]):
            confidence = float(table["conf"][index])
            if word.strip() and confidence >= self.min_confidence:
                place = (table["block_num"][index], table["par_num"][index], table["line_num"][index])
                lines.setdefault(place, []).append(word)
                confidences.append(confidence)
        pieces: list[str] = []
        paragraph: tuple[int, int] | None = None
        for place, words in sorted(lines.items()):
            if paragraph is not None:
                pieces.append("\n" if place[:2] == paragraph else "\n\n")
            pieces.append(" ".join(words))
            paragraph = place[:2]
        mean = sum(confidences) / len(confidences) if confidences else 0.0
        return OCRText("".join(pieces), round(mean, 1))


def recognized(engine: OCREngine, image: bytes) -> OCRText:
    """Run an engine from synchronous code, whether its method is plain or async."""
    outcome = engine.recognize(image)
    return _finished(outcome) if inspect.isawaitable(outcome) else outcome


def with_recognized_images(sections: Iterable[Section], engine: OCREngine | None) -> list[Section]:
    """The Sections of a document, the text in its pictures added to their captions; each picture is recognised once.

    What the engine cannot open (drawings in WMF, EMF, SVG) or is too slow on is left as it is, with a warning.

    Raises: ConfigurationError: the engine is not installed as it should be.
    """
    known: dict[str, OCRText | str] = {}
    result = list(sections)
    for section in result if engine is not None else ():
        block = section.content
        if not isinstance(block, DataBlock) or not isinstance(block.source, Base64Source) or engine is None:
            continue
        data = block.source.data
        if data not in known:
            known[data] = _recognized_or_reason(engine, block.source)
        found = known[data]
        if isinstance(found, str):
            section.warnings.append(f"the text in the picture {block.name or ''!r} is not recognised: {found}")
        elif text := found.text.strip():
            section.content = block.model_copy(update={"caption": "\n".join(filter(None, (block.caption, text)))})
            section.metadata = {**section.metadata, "ocr_confidence": found.confidence}
    return result


def _recognized_or_reason(engine: OCREngine, source: Base64Source) -> OCRText | str:
    if source.media_type not in _RASTER:
        return f"{source.media_type} is no picture of pixels"
    try:
        return recognized(engine, base64.b64decode(source.data))
    except ConfigurationError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _finished(awaitable: Awaitable[OCRText]) -> OCRText:
    """The thread that parses may already run an event loop, so the coroutine gets a loop in a thread of its own."""
    box: list[OCRText] = []
    failure: list[BaseException] = []

    async def wait() -> OCRText:
        return await awaitable

    def run() -> None:
        try:
            box.append(asyncio.run(wait()))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return box[0]
