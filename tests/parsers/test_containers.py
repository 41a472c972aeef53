"""E-mail with attachments, and EPUB."""

from __future__ import annotations

import base64
import time
from email.message import EmailMessage

import pytest

from agent_rag.errors import EncryptedFileError, ParseError, ParseLimitError
from agent_rag.parsers import EmailParser, EPUBParser

from .samples import docx_sample, email_sample, epub_sample, pdf_sample, picture, zip_of


def _message(subject: str = "Rain", body: str = "Hello.\n") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Subject"] = "Ola <ola@example.org>", subject
    message.set_content(body)
    return message


async def test_a_message_and_its_attachments_are_sections() -> None:
    """Headers and plain text first; the HTML alternative is not repeated; attachments as the registry reads them."""
    sections = await EmailParser().parse(email_sample(), "a.eml")

    assert sections[0].text == (
        "From: Ola <ola@example.org>\nTo: kari@example.org\nSubject: Regn i Bergen – målt\n\nThe table is attached."
    )
    assert sections[0].metadata == {"title": "Regn i Bergen – målt"}
    assert sections[1].metadata == {"format": "markdown", "rows": "2-2", "attachment": "rain.csv"}
    assert sections[1].source == "a.eml"
    assert "| Oslo | 763 |" in sections[1].text


async def test_every_kind_of_attachment_is_read() -> None:
    """By content, though all are called application/octet-stream; one that cannot be read is listed."""
    message = _message()
    files = [
        ("a.docx", docx_sample()),
        ("b.pdf", pdf_sample()),
        ("c.png", picture("PNG")),
        ("d.bin", b"\x00\x01\x02" * 50),
    ]
    for name, content in files:
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)

    sections = await EmailParser().parse(message.as_bytes(), "a.eml")

    found = [s.metadata.get("attachment") for s in sections]
    assert list(dict.fromkeys(found)) == [None, "a.docx", "b.pdf", "c.png"]
    assert [s.metadata["page"] for s in sections if s.metadata.get("attachment") == "b.pdf"] == [1, 2]
    (skipped,) = sections[0].metadata["skipped_attachments"]
    assert skipped.startswith("d.bin: d.bin: no parser for application/octet-stream")


async def test_html_alone_becomes_markdown() -> None:
    """In its charset."""
    message = _message()
    message.set_content("<h1>Größe</h1><script>x</script><p>Two <b>words</b></p>", subtype="html", charset="iso-8859-1")

    assert (await EmailParser().parse(message.as_bytes(), "a.eml"))[0].text.endswith("\n\n# Größe\n\nTwo words")


def _mime(kind: str, *parts: str) -> bytes:
    """A message of these parts, each with its own header fields."""
    body = "".join(f"--B\n{part}\n" for part in parts)
    return f"From: a@x.no\nMIME-Version: 1.0\nContent-Type: {kind}; boundary=B\n\n{body}--B--\n".encode()


_PLAIN, _HTML = "Content-Type: text/plain\n\n", "Content-Type: text/html\n\n"
_STATUS = "Content-Type: message/delivery-status\n\n"
_IMAGE = "Content-Type: image/png\nContent-Disposition: inline\n\nx"
_LONG = "The invoice 4711 of 512.40 EUR is due on 3 May, the next one on 3 June, the last one on 3 July 2027."
_SENT = base64.b64encode(b"From: b@x.no\nSubject: Inner\n\nDeep.\n").decode()


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        (_mime("multipart/mixed", f"{_PLAIN}One.", _IMAGE, f"{_PLAIN}Two."), ["One.\n\nTwo."]),
        (_mime("multipart/mixed", f"{_HTML}<p>Body</p>", f"{_PLAIN}Footer"), ["Body\n\nFooter"]),
        (_mime("multipart/mixed", f"{_HTML}<p>One</p>", f"{_HTML}<p>Two</p>"), ["One\n\nTwo"]),
        (_mime("multipart/alternative", _PLAIN, f"{_HTML}<p>Body</p>"), ["Body"]),
        (_mime("multipart/alternative", f"{_PLAIN}Body text", f"{_HTML}<p>Body <b>text</b></p>"), ["Body text"]),
        (_mime("multipart/alternative", f"{_PLAIN}View online: http://x.no/1", f"{_HTML}<p>{_LONG}</p>"), [_LONG]),
        (_mime("multipart/alternative", f"{_PLAIN}{_LONG}", f"{_HTML}<p>Enable images</p>"), [_LONG]),
        (
            _mime("multipart/alternative", f"{_PLAIN}Alpha bravo charlie", f"{_HTML}<p>Delta echo golf hotel</p>"),
            ["Alpha bravo charlie\n\nDelta echo golf hotel"],
        ),
        (
            _mime(
                "multipart/report", f"{_PLAIN}Failed.", "Content-Type: message/delivery-status\n\nA: 1\n\nB: 5.1.1\n"
            ),
            ["Failed.\n\nA: 1\n\nB: 5.1.1"],
        ),
        (
            _mime("multipart/report", "Content-Type: text/rfc822-headers\n\nSubject: Rain\nTo: b@x.no"),
            ["Subject: Rain\nTo: b@x.no"],
        ),
        (
            _mime("multipart/mixed", f"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{_SENT}"),
            ["", "From: b@x.no\nSubject: Inner\n\nDeep."],
        ),
        (_mime("multipart/digest", "\nFrom: b@x.no\n\nDeep."), ["", "From: b@x.no\n\nDeep."]),
        (
            b"From: a@x.no\nContent-Type: message/partial; id=1; number=1; total=2\n\nSubject: Inner\n\nBegin.\n",
            ["Subject: Inner\n\nBegin."],
        ),
        ("From: a@x.no\nTo: b\nSubject: Größe\n\nIt rains.".encode("utf-16"), ["To: b\nSubject: Größe\n\nIt rains."]),
        ("From: a@x.no\nSubject: Größe 你好\n\nx".encode(), ["Subject: Größe 你好\n\nx"]),
    ],
)
async def test_every_text_of_a_message_is_read_in_its_order(message: bytes, texts: list[str]) -> None:
    """Whatever it is called; of alternatives the one that says the most, and both where they say different things."""
    sections = await EmailParser().parse(message, "a.eml")

    found = [
        section.text.removeprefix("From: a@x.no").strip() for section in sections if section.content.type == "text"
    ]
    assert found == texts


async def test_what_is_not_read_is_said() -> None:
    """In the warnings of the first Section."""
    external = (
        'Content-Type: message/external-body; access-type=URL; URL="http://x.no/1"\n\nContent-Type: text/plain\n\n'
    )
    alternative = "Content-Type: multipart/alternative; boundary=C\n\n" + (
        f"--C\n{_PLAIN}View online\n--C\n{_HTML}<p>{_LONG}</p>\n--C--\n"
    )

    sections = await EmailParser().parse(_mime("multipart/mixed", alternative, external, _IMAGE), "a.eml")

    assert sections[0].warnings[:2] == [
        "an alternative text of 2 words is not read; the one that is read has 18",
        "a part is not in the message itself: http://x.no/1",
    ]
    assert sections[0].warnings[2].startswith("attachment attachment-3: attachment-3: this is no picture")


async def test_fifty_thousand_attachments_cost_seconds() -> None:
    """Those over the limit are neither decoded nor listed one by one."""
    part = "Content-Type: text/plain\nContent-Disposition: attachment; filename=a.txt\n\nnote"
    data = _mime("multipart/mixed", f"{_PLAIN}Body", *[part] * 50_000, f"{_PLAIN}End")

    started = time.process_time()
    (section,) = EmailParser().read(data, "a.eml")

    assert time.process_time() - started < 10
    assert section.text.endswith("Body\n\nEnd")


async def test_attached_messages_are_followed_to_a_depth() -> None:
    """Their own attachments too."""
    inner = _message("Inner", "Deep.\n")
    inner.add_attachment(b"a,b\n1,2\n", maintype="text", subtype="csv", filename="t.csv")
    outer = _message("Outer")
    outer.add_attachment(inner)

    sections = await EmailParser().parse(outer.as_bytes(), "a.eml")
    shallow = await EmailParser(max_depth=0).parse(outer.as_bytes(), "a.eml")

    assert [s.metadata.get("attachment") for s in sections] == [None, "attachment-2", "t.csv"]
    assert "Deep." in sections[1].text
    assert len(shallow) == 1
    assert "max_depth" in shallow[0].metadata["skipped_attachments"][0]


async def test_attachments_are_bounded() -> None:
    """By number and by size."""
    message = _message()
    for number in range(3):
        message.add_attachment(b"some text here", maintype="text", subtype="plain", filename=f"{number}.txt")

    few = await EmailParser(max_attachments=1).parse(message.as_bytes(), "a.eml")
    small = await EmailParser(max_attachment_bytes=5).parse(message.as_bytes(), "a.eml")

    assert [s.metadata.get("attachment") for s in few] == [None, "0.txt"]
    assert len(few[0].metadata["skipped_attachments"]) == 2
    assert len(small[0].metadata["skipped_attachments"]) == 3
    with pytest.raises(ParseLimitError, match="max_file_bytes=10"):
        await EmailParser(max_file_bytes=10).parse(message.as_bytes(), "a.eml")


async def test_what_has_no_header_is_no_message() -> None:
    """A typed error with the name."""
    with pytest.raises(ParseError, match=r"a\.eml: this is no e-mail"):
        await EmailParser().parse(b"\njust text\n", "a.eml")


async def test_chapters_come_in_the_order_of_the_spine() -> None:
    """Not in that of the manifest or the zip; blank pages leave no Section."""
    sections = await EPUBParser().parse(epub_sample(), "a.epub")

    assert [(s.text, s.metadata) for s in sections] == [
        ("# Oslo\n\nIt rains less.", {"format": "markdown", "chapter": 1, "title": "The Book of Rain"}),
        ("# Bergen\n\nIt rains on 239 days.", {"format": "markdown", "chapter": 2, "title": "The Book of Rain"}),
    ]
    assert sections[1].heading_path_at(5) == ["Bergen"]


async def test_a_protected_or_broken_book_is_an_error() -> None:
    """DRM is named; obfuscated fonts are no DRM; a zip without a package document is damaged."""
    encryption = '<encryption xmlns:e="e"><e:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></encryption>'
    drm = {"mimetype": "application/epub+zip", "META-INF/encryption.xml": encryption, "a.opf": "<package/>"}

    with pytest.raises(EncryptedFileError, match=r"a\.epub: the EPUB is encrypted"):
        await EPUBParser().parse(zip_of(drm), "a.epub")
    with pytest.raises(ParseError, match=r"a\.epub.*no package document"):
        await EPUBParser().parse(zip_of({"mimetype": "application/epub+zip"}), "a.epub")
    with pytest.raises(ParseLimitError, match="max_inflated_bytes=100"):
        await EPUBParser(max_inflated_bytes=100).parse(epub_sample(), "a.epub")
