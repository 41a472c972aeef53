"""Pictures: one Section with the picture as it is."""

from __future__ import annotations

import base64
import importlib
import io
import warnings
from typing import Any, ClassVar

from ...content import Base64Source, DataBlock
from ...documents import Section
from ...errors import ParseError, ParseLimitError
from ..file import MIB, FileIsolation, FileParser
from .ocr import OCREngine, recognized

_MEDIA_TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "WEBP": "image/webp",
    "TIFF": "image/tiff",
}
_PLUGINS = ("Png", "Jpeg", "Mpo", "Gif", "Bmp", "WebP", "Tiff")
"""Pillow loads a few of these by itself; none beyond them is let near a file (its EPS plugin starts Ghostscript)."""
_ORIENTATION = 0x0112


class ImageParser(FileParser):
    """One Section with a DataBlock and metadata ``{"media_type", "width", "height"}``, in pixels as seen.

    The first frame is decoded to prove that it is a picture. The block holds the original bytes, except where a viewer
    would show something else: a turned photograph (EXIF) is turned, CMYK becomes RGB, TIFF becomes PNG.
    With `ocr` the recognised text is the block's caption, so a text-only model can find the picture.

    Args:
        ocr: For example `TesseractOCR()`.
        max_pixels: Width times height; more raises ParseLimitError before anything is decoded.
    """

    format_name = "image"
    supported_media_types: ClassVar[list[str]] = ["image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp"]

    def __init__(
        self,
        *,
        ocr: OCREngine | None = None,
        max_pixels: int = 89_478_485,
        max_file_bytes: int = 128 * MIB,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        self.ocr = ocr
        self.max_pixels = max_pixels

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        content, media_type, size = self._checked(data, filename)
        caption, confidence = None, None
        if self.ocr is not None:
            found = recognized(self.ocr, content)
            caption, confidence = found.text.strip() or None, found.confidence
        metadata: dict[str, Any] = {"media_type": media_type, "width": size[0], "height": size[1]}
        if caption:
            metadata["ocr_confidence"] = confidence
        block = DataBlock(
            source=Base64Source(data=base64.b64encode(content).decode("ascii"), media_type=media_type),
            name=filename,
            caption=caption,
        )
        return [Section(content=block, source=filename, metadata=metadata)]

    def _checked(self, data: bytes, filename: str) -> tuple[bytes, str, tuple[int, int]]:
        """The bytes to keep, their media type and the size in pixels."""
        from PIL import Image, ImageOps, UnidentifiedImageError

        try:
            picture: Any = self._opened(data)
        except UnidentifiedImageError as error:
            raise ParseError(f"{filename}: this is no picture in a known format ({', '.join(_MEDIA_TYPES)})") from error
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise self._too_large(filename, str(error)) from error
        with picture:
            if picture.width * picture.height > self.max_pixels:
                raise self._too_large(filename, f"{picture.width:,} x {picture.height:,} pixels")
            picture.load()
            media_type = _MEDIA_TYPES[picture.format]
            turned = picture.getexif().get(_ORIENTATION, 1) not in (0, 1)
            if not turned and picture.mode != "CMYK" and media_type != "image/tiff":
                return data, media_type, picture.size
            shown = ImageOps.exif_transpose(picture) if turned else picture
            return _encoded(shown, picture.format)

    def _opened(self, data: bytes) -> Any:
        from PIL import Image

        for plugin in _PLUGINS:
            importlib.import_module(f"PIL.{plugin}ImagePlugin")
        formats = [name for name in _MEDIA_TYPES if name != "MPO"]  # opened as JPEG, called MPO afterwards
        if self.max_pixels <= (Image.MAX_IMAGE_PIXELS or 0):
            return Image.open(io.BytesIO(data), formats=formats)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            return Image.open(io.BytesIO(data), formats=formats)

    def _too_large(self, filename: str, what: str) -> ParseLimitError:
        return ParseLimitError(
            f"{filename}: {what} is over the limit max_pixels={self.max_pixels:,}; "
            "scale the picture down, or pass ImageParser(max_pixels=...)"
        )


def _encoded(picture: Any, original: str) -> tuple[bytes, str, tuple[int, int]]:
    kind = "JPEG" if original in ("JPEG", "MPO") else "PNG"
    if picture.mode not in ("L", "RGB", "RGBA", "LA") or (kind == "JPEG" and picture.mode not in ("L", "RGB")):
        picture = picture.convert("RGBA" if kind == "PNG" and "transparency" in picture.info else "RGB")
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({"quality": 90} if kind == "JPEG" else {}))
    return buffer.getvalue(), _MEDIA_TYPES[kind], picture.size
