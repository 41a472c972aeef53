"""`DoclingParser` sends what docling-serve's /v1/convert/file expects and takes its Markdown.

The stand-in server stands for docling-serve 1.x: multipart form with `files` and options in, JSON with `document` and
`status` out.
"""

from __future__ import annotations

import email
import email.policy
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent_rag.errors import ParseError, ParseTimeoutError
from agent_rag.parsers import DoclingParser

from .samples import pdf_sample


class _Request:
    """A multipart request, taken apart."""

    def __init__(self, path: str, headers: Any, body: bytes) -> None:
        raw = b"Content-Type: " + headers["content-type"].encode() + b"\r\n\r\n" + body
        self.path = path
        self.headers = headers
        self.fields: dict[str, list[str]] = {}
        self.files: list[tuple[str | None, str, bytes]] = []
        for part in email.message_from_bytes(raw, policy=email.policy.HTTP).iter_parts():
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            if part.get_filename():
                assert name == "files"
                self.files.append((part.get_filename(), part.get_content_type(), content))
            else:
                self.fields.setdefault(name, []).append(content.decode())


@contextmanager
def _docling(answer: Callable[[_Request], tuple[int, Any]]) -> Iterator[tuple[str, list[_Request]]]:
    seen: list[_Request] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(_Request(self.path, self.headers, self.rfile.read(int(self.headers["content-length"]))))
            status, payload = answer(seen[-1])
            body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _success(markdown: str) -> tuple[int, Any]:
    return 200, {"document": {"md_content": markdown}, "status": "success", "errors": [], "processing_time": 0.1}


async def test_the_file_is_posted_and_markdown_comes_back() -> None:
    """One multipart file with name, type and bytes; Markdown is asked for; options and the key go along."""
    options = {"do_ocr": "false", "ocr_lang": ["en", "de"]}
    with _docling(lambda request: _success("# Rain\n\nIt rains.\n\n## Oslo\n\nLess.")) as (url, seen):
        parser = DoclingParser(url + "/", api_key="s3cret", options=options)

        sections = await parser.parse(pdf_sample(), "rain.pdf")

    assert [s.metadata for s in sections] == [{"format": "markdown"}]
    assert sections[0].heading_path_at(len(sections[0].text)) == ["Rain", "Oslo"]
    assert [request.path for request in seen] == ["/v1/convert/file"]
    assert seen[0].files == [("rain.pdf", "application/pdf", pdf_sample())]
    assert seen[0].fields == {
        "to_formats": ["md"], "image_export_mode": ["placeholder"], "do_ocr": ["false"], "ocr_lang": ["en", "de"],
    }  # fmt: skip
    assert seen[0].headers["X-Api-Key"] == "s3cret"
    assert "s3cret" not in repr(parser) + parser.fingerprint


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, {"detail": "out of memory"}), "answered 500.*out of memory"),
        ((404, b"not found"), "answered 404"),
        ((200, b"<html>"), "no document.md_content"),
        ((200, {"status": "success"}), "no document.md_content"),
        ((200, {"document": {"md_content": None}, "status": "failure", "errors": [{"error_message": "bad file"}]}),
         "status 'failure': bad file"),
    ],
)  # fmt: skip
async def test_a_refusal_is_a_parse_error_with_the_reason(answer: tuple[int, Any], words: str) -> None:
    """Whether by status, by shape or in the answer."""
    with _docling(lambda request: answer) as (url, _), pytest.raises(ParseError, match=rf"a\.pdf: .*{words}"):
        await DoclingParser(url).parse(pdf_sample(), "a.pdf")


async def test_a_slow_server_is_a_timeout() -> None:
    """The limit is named."""
    release = threading.Event()

    def wait(request: _Request) -> tuple[int, Any]:
        release.wait(10)
        return _success("late")

    with _docling(wait) as (url, _):
        try:
            with pytest.raises(ParseTimeoutError, match=r"a\.pdf: .*timeout_s=0\.2"):
                await DoclingParser(url, timeout_s=0.2).parse(pdf_sample(), "a.pdf")
        finally:
            release.set()


async def test_no_server_is_a_parse_error() -> None:
    """With its address."""
    with pytest.raises(ParseError, match=r"a\.pdf: docling-serve at http://127\.0\.0\.1:9 cannot be reached"):
        await DoclingParser("http://127.0.0.1:9").parse(pdf_sample(), "a.pdf")
