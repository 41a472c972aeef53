"""Any file by a docling-serve endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import httpx

from ..documents import Section
from ..errors import ParseError, ParseTimeoutError
from .base import ParserBase
from .file import MIB, read_bytes
from .sniff import detect
from .text.markdown import markdown_headings
from .text.plain import one_section

_PATH = "/v1/convert/file"


class DoclingParser(ParserBase):
    """Sends the file to docling-serve (``POST /v1/convert/file``) and takes Markdown: one Section with its headings.

    Metadata ``{"format": "markdown"}``. The file leaves this machine for `url`. Register it for the types it should
    read: ``register_parser(lambda: DoclingParser("http://localhost:5001"), media_types=["application/pdf"])``.

    Args:
        url: Of the server, without the path.
        timeout_s: For the whole conversion.
        api_key: Sent as ``X-Api-Key``.
        options: Further form fields of the endpoint, for example ``{"do_ocr": "false"}``; a list gives several fields.
        transport: An httpx transport, for proxies and tests.
    """

    supported_media_types: ClassVar[list[str]] = [
        "application/pdf",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "text/html",
        "image/png",
        "image/jpeg",
        "image/tiff",
    ]

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 300.0,
        api_key: str | None = None,
        options: dict[str, str | list[str]] | None = None,
        max_file_bytes: int = 256 * MIB,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self.options = dict(options or {})
        self.max_file_bytes = max_file_bytes
        self._api_key = api_key
        self._transport = transport

    def __repr__(self) -> str:
        return f"DoclingParser({self.url!r})"

    @property
    def fingerprint(self) -> str:
        return f"DoclingParser:1:{self.url}:{sorted(self.options.items())}"

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".docx", ".htm", ".html", ".jpeg", ".jpg", ".pdf", ".png", ".pptx", ".tif", ".tiff", ".xlsx"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        """Raises: ParseTimeoutError: no answer in `timeout_s`; ParseError: the server refuses, fails or is away."""
        data = await asyncio.to_thread(read_bytes, file, filename, self.max_file_bytes)
        markdown = self._markdown(await self._converted(data, filename), filename)
        return one_section(markdown, filename, markdown_headings(markdown), format="markdown")

    async def _converted(self, data: bytes, filename: str) -> httpx.Response:
        fields: dict[str, Any] = {"to_formats": "md", "image_export_mode": "placeholder", **self.options}
        headers = {"X-Api-Key": self._api_key} if self._api_key else {}
        files = {"files": (filename, data, detect(data).media_type)}
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                httpx.AsyncClient(transport=self._transport, timeout=self.timeout_s) as client,
            ):
                return await client.post(self.url + _PATH, data=fields, files=files, headers=headers)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ParseTimeoutError(
                f"{filename}: docling-serve at {self.url} did not answer in timeout_s={self.timeout_s:g}"
            ) from error
        except httpx.HTTPError as error:
            raise ParseError(
                f"{filename}: docling-serve at {self.url} cannot be reached ({type(error).__name__}: {error})"
            ) from error

    def _markdown(self, response: httpx.Response, filename: str) -> str:
        if response.status_code != 200:
            raise ParseError(f"{filename}: docling-serve answered {response.status_code}: {response.text[:300]}")
        try:
            answer = response.json()
            status, markdown = answer.get("status"), answer["document"]["md_content"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ParseError(f"{filename}: docling-serve's answer has no document.md_content") from error
        if status not in ("success", "partial_success") or not isinstance(markdown, str):
            errors = "; ".join(
                str(e.get("error_message", e)) if isinstance(e, dict) else str(e) for e in answer.get("errors") or []
            )
            raise ParseError(
                f"{filename}: docling-serve reports status {status!r}: {errors[:300] or 'no reason given'}"
            )
        return markdown
