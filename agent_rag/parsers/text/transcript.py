"""Transcripts of meetings and films: who said what, and when."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from ...documents import Section, text_section
from ...places import CueTimes
from .plain import DecodingParser, as_written

_TIMES = re.compile(
    r"^[ \t]*((?:\d{1,3}:)?\d{1,2}:\d{2})[.,]\d{1,3}[ \t]*-->[ \t]*((?:\d{1,3}:)?\d{1,2}:\d{2})[.,]\d{1,3}"
)
_VOICE = re.compile(r"<v(?:\.[^\s>]{0,100})?[ \t]+([^>\n]{1,200})>")
_TAG = re.compile(r"<[/a-zA-Z0-9][^<>\n]{0,200}>|\{\\[^{}\n]{0,100}\}")
_INLINE_TIME = re.compile(r"<\d{2}:\d{2}")
_LABEL = re.compile(r"([^\W\d_a-zß-ÿ][\w.'’()-]*(?: [^\W\d_][\w.'’()-]*){0,4}): +")
_SENTENCE_END = (".", "?", "!", "…", "。", "？", "！", '."', ".”")
_LINE_CHARACTERS = 240


class TranscriptParser(DecodingParser):
    """WebVTT and SubRip as the minutes that they are: a paragraph a turn, ``Ada: ...``, without numbers and times.

    One Section, metadata ``{"format": "transcript"}``. Cues of one speaker join into sentences; captions that repeat
    the line before (YouTube's) say it once. Each chunk has ``time`` (``00:01:02-00:01:40``) and ``speaker`` in its
    metadata. Speakers are those of ``<v Ada>`` (Teams) or ``Ada: `` (Zoom).
    """

    format_name = "transcript"
    supported_media_types: ClassVar[list[str]] = ["text/vtt", "application/x-subrip", "text/srt"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".srt", ".vtt"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        cues = list(_named(list(_cues(text))))
        if not cues:
            return as_written(text, filename, format="transcript")
        lines: list[str] = []
        marks: list[tuple[int, str, str, str]] = []
        speaker = None
        for cue in _sentences(cues):
            if cue.speaker != speaker:
                lines += [""] if lines else []
                speaker = cue.speaker
                lines.append(f"{speaker}: {cue.text}" if speaker else cue.text)
            else:
                lines.append(cue.text)
            marks.append((len(lines) - 1, cue.speaker, cue.begin, cue.end))
        section = text_section("\n".join(lines), filename, format="transcript")
        section.places = CueTimes(cues=marks)
        return [section]


class _Cue(NamedTuple):
    speaker: str
    begin: str
    end: str
    text: str


def _cues(text: str) -> Iterator[_Cue]:
    """The cues in order; notes, styles and numbers of the file are none."""
    repeats = _INLINE_TIME.search(text) is not None
    last_line = ""
    times: tuple[str, str] | None = None
    lines: list[str] = []
    for line in (*text.split("\n"), ""):
        found = _TIMES.match(line)
        if line.strip() and not found:
            lines.append(line)
            continue
        if times and lines:
            if found and lines[-1].strip().isdigit():
                lines.pop()  # the number of the next cue, without a blank line before it
            shown = [plain for item in lines if (plain := _plain(item))]
            if repeats and shown and shown[0] == last_line:
                del shown[0]
            if shown:
                last_line = shown[-1]
                voice = _VOICE.search(lines[0]) if lines else None
                yield _Cue(" ".join(voice[1].split()) if voice else "", *times, " ".join(shown))
        lines = []
        times = (_clock(found[1]), _clock(found[2])) if found else None


def _plain(line: str) -> str:
    return " ".join(html.unescape(_TAG.sub("", line)).split())


def _clock(time: str) -> str:
    """``00:01:02``"""
    parts = time.split(":")
    return ":".join(part.zfill(2) for part in (["00", *parts] if len(parts) == 2 else parts))


def _named(cues: list[_Cue]) -> Iterator[_Cue]:
    """Cues with the speaker of ``Ada: ...``, where names come again or most cues have one, up to the next name."""
    if any(cue.speaker for cue in cues):
        yield from cues
        return
    labels = [_LABEL.match(cue.text) for cue in cues]
    counts = Counter(label[1] for label in labels if label)
    all_count = 2 * sum(counts.values()) >= len(cues)
    speaker = ""
    for cue, label in zip(cues, labels, strict=True):
        text = cue.text
        if label and (all_count or counts[label[1]] > 1):
            speaker, text = label[1], text[label.end() :]
        yield cue._replace(speaker=speaker, text=text)


def _sentences(cues: list[_Cue]) -> Iterator[_Cue]:
    """Cues of one speaker joined up to the end of a sentence, or to a line's length."""
    held: _Cue | None = None
    for cue in cues:
        if held and held.speaker == cue.speaker and not _is_whole(held.text):
            held = held._replace(end=cue.end, text=f"{held.text} {cue.text}")
            continue
        if held:
            yield held
        held = cue
    if held:
        yield held


def _is_whole(text: str) -> bool:
    return text.endswith(_SENTENCE_END) or len(text) > _LINE_CHARACTERS
