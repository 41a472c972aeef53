"""Text is decoded by BOM, strict UTF-8, the declared charset, a detector; never by the locale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_rag import TextParser
from agent_rag.errors import ConfigurationError, ParseError
from agent_rag.parsers import HTMLParser
from agent_rag.parsers.text.encoding import decode, in_utf8

FRENCH = "café – “naïve”"
TEXTS = {
    "french": (FRENCH, ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "cp1252"]),
    "one german word": ("Größe", ["cp1252", "utf-16-le", "utf-16-be"]),
    "german csv": ("Name;Größe\nMüller;3\nJosé;4\n", ["cp1252"]),
    "spanish": ("El niño comió piñas. ¿Dónde está la señora? ¡Qué día!", ["cp1252"]),
    "polish": ("Zażółć gęślą jaźń. Proszę przesłać mi fakturę za usługi.", ["cp1250", "iso8859-2"]),
    "hungarian": ("A szerző a megfelelő intézmény öt új főnökét említi.", ["cp1250", "iso8859-2"]),
    "croatian": ("To je nešto što će uspješno završiti čak i noću.", ["cp1250", "iso8859-2"]),
    "czech": ("Příliš žluťoučký kůň úpěl ďábelské ódy. Účet je třeba zaplatit.", ["cp1250"]),
    "turkish": ("İstanbul'da yaşayan kişi sayısı hızla artıyor; şehir çok büyüdü.", ["cp1254"]),
    "russian": (
        "Доброе утро, товарищи! Сегодня мы будем изучать язык.",
        ["cp1251", "koi8-r", "utf-16-le", "utf-16-be"],
    ),
    "greek": ("Καλημέρα σας, η αγορά ανοίγει στις οκτώ το πρωί.", ["cp1253", "iso8859-7"]),
    "hebrew": ("שלום לכם, היום נלמד כיצד לכתוב תוכנה בשפת פייתון.", ["cp1255"]),
    "arabic": ("تعتبر البرمجة بلغة بايثون من أسهل لغات البرمجة في العالم", ["cp1256"]),
    "thai": ("สวัสดีครับ วันนี้อากาศดีมาก เราจะไปเที่ยวสวนสาธารณะ", ["cp874"]),
    "chinese": ("早间新闻：今天的天气非常好，我们去公园散步。", ["gbk", "gb18030", "utf-16-le", "utf-16-be"]),
    "four chinese characters": ("早间新闻", ["gbk", "utf-16-le", "utf-16-be"]),
    "traditional chinese": ("今天天氣很好，我們去公園散步。臺灣的資訊工業發達。", ["big5", "utf-16-le"]),
    "japanese": (
        "これは日本語のテキストです。文字コードを判定します。",
        ["shift_jis", "euc-jp", "iso2022_jp", "utf-16-le"],
    ),
    "korean": ("안녕하세요. 이것은 한국어 텍스트입니다. 오늘 날씨가 좋습니다.", ["cp949"]),
}
ROWS = [(name, text, codec) for name, (text, codecs) in TEXTS.items() for codec in codecs]


@pytest.mark.parametrize(("name", "text", "codec"), ROWS, ids=[f"{name}-{codec}" for name, _, codec in ROWS])
def test_a_short_text_is_read_in_its_encoding(name: str, text: str, codec: str) -> None:
    """P29: a sentence is enough, and for western languages a word."""
    assert decode(text.encode(codec), name) == text


def test_a_declared_charset_is_used_where_the_bytes_are_no_utf8() -> None:
    """It is a label of the web: gb2312 is read as its superset, and a wrong label is passed over."""
    assert decode("镕早".encode("gb18030"), "x", declared="GB2312") == "镕早"
    assert decode("Größe 早间".encode(), "x", declared="iso-8859-1") == "Größe 早间"
    assert decode("Straße".encode("cp1252"), "x", declared="no-such-charset") == "Straße"
    assert decode("Straße".encode("cp1252"), "x", declared="utf-8") == "Straße"


@pytest.mark.parametrize(
    "name", ["undefined", "punycode", "hex", "a\0b", "\udcff", "x" * 5000, "", "unicode_escape", "raw-unicode-escape"]
)
def test_what_is_no_charset_is_passed_over(name: str) -> None:
    """Whatever Python does with such a name, the text is detected, and its backslashes stay."""
    text = "Straße \\x41"

    assert decode(text.encode("cp1252"), "x", declared=name) == text
    assert in_utf8(text.encode("cp1252"), name) == text.encode("cp1252")


async def test_a_page_may_name_what_is_no_charset() -> None:
    """In its own markup too."""
    (section,) = await HTMLParser().parse("<meta charset=undefined><p>Straße</p>".encode("cp1252"), "a.html")

    assert section.text == "Straße"


def test_a_cut_utf8_text_stays_utf8() -> None:
    """A few broken bytes do not turn the whole file into something else."""
    data = ("Größe und Länge. " * 20).encode()[:-3] + b"\xc3"

    assert decode(data, "x").startswith("Größe und Länge. Größe")


def test_marks_and_line_ends_are_cleaned() -> None:
    """A leading U+FEFF goes, one inside a text stays; NULs go; line ends are newlines."""
    assert decode(b"\xef\xbb\xbfa\r\nb\rc\n\xef\xbb\xbf", "x") == "a\nb\nc\n\ufeff"
    assert decode(b"a\x00b" + b" and much more text without any" * 10, "x").startswith("ab and")


def test_terminal_colours_are_no_japanese() -> None:
    """ESC alone does not make ISO-2022."""
    assert decode(b"\x1b[31merror\x1b[0m", "x") == "\x1b[31merror\x1b[0m"


def test_a_log_in_two_charsets_is_read_line_by_line() -> None:
    """Each program writes its own; neither spoils the other's lines."""
    data = "2024 Zürich läuft\n".encode() * 3 + "2024 Köln läuft\n".encode("cp1252") * 3

    assert decode(data, "a.log") == "2024 Zürich läuft\n" * 3 + "2024 Köln läuft\n" * 3


def test_nuls_between_texts_are_line_ends() -> None:
    """As `find -print0` writes them: neither Chinese nor one word."""
    assert decode(b"alpha\0beta\0", "x") == "alpha\nbeta\n"
    assert decode("städte/a.txt\0b b.txt\0c.txt".encode(), "x") == "städte/a.txt\nb b.txt\nc.txt"


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 8, b"\x00\x01\x02\x03" * 100, b"\x80\x04\x95\x10\x01\x02\x03" * 50]
)
def test_binary_data_is_an_error(data: bytes) -> None:
    """No garbage text."""
    with pytest.raises(ParseError, match=r"x\.txt: the content is binary data"):
        decode(data, "x.txt")


async def test_a_given_encoding_decides_alone() -> None:
    """A file in another one is an error that says what to do."""
    assert (await TextParser("koi8-r").parse("утро".encode("koi8-r"), "a.txt"))[0].text == "утро"
    with pytest.raises(ParseError, match=r"a\.txt: byte 3 is not utf-8.*leave encoding out"):
        await TextParser("utf-8").parse("café".encode("cp1252"), "a.txt")
    for name in ("utf-99", "undefined", "hex", "a\0b"):
        with pytest.raises(ConfigurationError, match="unknown encoding"):
            TextParser(name)


def test_the_locale_has_no_say(tmp_path: Path) -> None:
    """P29: the same under LC_ALL=C without Python's UTF-8 mode."""
    script = (
        "import asyncio, sys; from agent_rag.parsers import parser_for\n"
        "files = [('a.txt', 'café – “naïve”'.encode('cp1252')), ('b.json', '{\"城市\":\"北京\"}'.encode())]\n"
        "for name, data in files:\n"
        "    text = asyncio.run(parser_for(name, data=data).parse(data, name))[0].text\n"
        "    sys.stdout.buffer.write(text.encode() + b'\\n')\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    path = tmp_path / "script.py"
    path.write_text(script, "utf-8")
    command = [sys.executable, "-X", "utf8=0", path]

    done = subprocess.run(command, capture_output=True, check=True, env=environment)

    assert done.stdout.decode().splitlines() == [FRENCH, '{"城市":"北京"}']


_LATIN = {
    "German": "Die Straße führt über das Gebäude in München; schöne Grüße aus Köln, März und Äpfel für Müller.",
    "French": "L'été dernier, la forêt près de la rivière a été protégée par le conseil général à côté du château.",
    "Spanish": "El niño pequeño comió piña mañana; la señora habló español con él en la estación.",
    "Swedish": "Där bor en ålänning på en ö; hon är från Åbo och går över gatan på våren.",
}


@pytest.mark.parametrize("codec", ["cp1252", "cp850", "cp437", "mac_roman"])
@pytest.mark.parametrize("text", _LATIN.values(), ids=_LATIN)
async def test_code_pages_of_dos_and_classic_mac_os_are_told_from_windows(text: str, codec: str) -> None:
    """Their accents are quotation marks and currency signs in windows-1252, and stand inside words."""
    sections = await TextParser().parse(text.encode(codec, "replace"), "a.txt")

    assert sections[0].text == text.encode(codec, "replace").decode(codec)


@pytest.mark.parametrize("codec", ["cp1251", "koi8-r", "cp866", "mac_cyrillic", "iso8859-5"])
async def test_russian_code_pages_are_told_apart(codec: str) -> None:
    """windows-1251 and Mac Cyrillic share their small letters."""
    text = "Москва - столица России. Петр живёт в Казани, а Мария в Омске. Она любит читать книги и гулять."

    sections = await TextParser().parse(text.encode(codec), "a.txt")

    assert sections[0].text == text


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("Он сказал: “Да”, – и ушёл… «Нет», „конечно“.", "cp1251"),
        ("don’t l’homme cœur Šimek – “Zoë” naïve", "cp1252"),
        ("Naša škola je u Košicama; đak Miloš piše i šalje pošiljke, žena čeka u šumi.", "cp1250"),
        ("テストをするためのシステムです。データベースのインデックスを作成します。ABCテストとXYZデータ。", "cp932"),
    ],
    ids=["quotation marks in windows-1251", "signs of windows-1252", "letters of windows-1250", "Shift-JIS"],
)
async def test_windows_and_japanese_text_is_not_taken_for_dos(text: str, codec: str) -> None:
    """Where the same bytes stand inside words, or beside single Latin letters."""
    sections = await TextParser().parse(text.encode(codec), "a.txt")

    assert sections[0].text == text
