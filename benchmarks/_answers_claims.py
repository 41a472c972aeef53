"""Sentences for `answers.py`: quotes and light edits of passages, and falsehoods about them.

Written before the rules of `agent_rag.answers`, and without looking at them since: what is changed is what an editor or
an inattentive model would change. Each maker gives None where a sentence has nothing of its kind to change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "de", "zh"]


@dataclass(frozen=True)
class Passage:
    """A text, and the short answers that people marked in it, which are mostly names, dates and numbers."""

    text: str
    marked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A sentence that an answer could hold, with what it was made from."""

    text: str
    original: str
    kind: str


@dataclass(frozen=True)
class Material:
    """What a maker may use."""

    language: Language
    sentence: str
    passage: Passage
    other: Passage
    """Of another article."""
    random: random.Random


Maker = Callable[[Material], str | None]

_ENDS = {"en": r"(?<=[a-z0-9)][.!?]) (?=[A-Z])", "de": r"(?<=[a-zäöüß0-9)][.!?]) (?=[A-ZÄÖÜ])", "zh": r"(?<=[。！？])"}
_NOT_ENDS = re.compile(r"\b(?:\d|Dr|St|Mr|Mrs|Jr|Sr|vs|No|Inc|ca|z|etc)\.$")


def sentences(text: str, language: Language) -> list[str]:
    """Sentences worth claiming: 5 to 60 words, or 8 to 120 characters of Chinese."""
    parts: list[str] = []
    for part in re.split(_ENDS[language], text.replace("\n", " ")):
        if parts and _NOT_ENDS.search(parts[-1]):
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    sized = [part.strip() for part in parts]
    if language == "zh":
        return [part for part in sized if 8 <= len(part) <= 120 and part[-1] in "。！？"]
    return [part for part in sized if 5 <= len(part.split()) <= 60 and part[-1] in ".!?"]


# --- what is true ---


def quoted(material: Material) -> str:
    """The sentence as it is."""
    return material.sentence


def introduced(material: Material) -> str:
    """With a few words before it."""
    sentence = material.sentence
    first = sentence.split()[0] if material.language != "zh" else ""
    small = first in {
        "The",
        "A",
        "An",
        "In",
        "It",
        "They",
        "This",
        "He",
        "She",
        "Der",
        "Die",
        "Das",
        "Ein",
        "Eine",
        "Sie",
    }
    lowered = sentence[0].lower() + sentence[1:] if small else sentence
    before = {
        "en": ["According to the document, ", "The text says that ", "Yes: ", "As stated in the source, "],
        "de": ["Laut Dokument gilt: ", "Im Text steht: ", "Ja: ", "Der Quelle zufolge gilt: "],
        "zh": ["根据资料，", "文中提到，", "是的，", "文件指出："],
    }[material.language]
    return material.random.choice(before) + lowered


def set_differently(material: Material) -> str:
    """Other quotation marks, dashes and blanks, emphasis, as a list item."""
    text = material.sentence.replace('"', "“").replace("–", "-").replace("'", "’").replace("  ", " ")
    words = text.split(" ")
    place = material.random.randrange(len(words))
    if material.language != "zh" and words[place][:1].isalnum() and words[place][-1:].isalnum():
        words[place] = f"**{words[place]}**"
    return material.random.choice(["- ", "* ", "1. ", ""]) + " ".join(words)


def without_aside(material: Material) -> str | None:
    """Without what stands in parentheses."""
    text = re.sub(r" ?[(（][^()（）]*[)）]", "", material.sentence)
    return text if text != material.sentence else None


def regrouped(material: Material) -> str | None:
    """Large numbers grouped in another way."""
    if material.language == "de":
        text = re.sub(r"(?<![\d.,])(\d{1,3})\.(\d{3})(?![\d.,]\d)", r"\1\2", material.sentence)
    else:
        text = re.sub(r"(?<![\d.,])(\d{1,3}),(\d{3})(?![\d,])", r"\1\2", material.sentence)
        if text == material.sentence:
            text = re.sub(r"(?<![\d.,年])([1-9]\d)(\d{3})(?![\d.,])", r"\1,\2", material.sentence)
    return text if text != material.sentence else None


_WORDS = {
    "en": ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"],
    "de": ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"],
}


def digits_for_words(material: Material) -> str | None:
    """One number word as digits."""
    if material.language == "zh":
        return None
    words = _WORDS[material.language]
    for number in range(2, 13):
        text = re.sub(rf"\b{words[number]}\b", str(number), material.sentence, count=1)
        if text != material.sentence:
            return text
    return None


_SYNONYMS = {
    "en": [("began", "started"), ("large", "big"), ("also", "additionally"), ("about", "around"), ("many", "numerous"),
           ("however", "though"), ("often", "frequently"), ("used", "employed"), ("made", "produced"),
           ("near", "close to"), ("because", "since"), ("while", "whereas"), ("such as", "like"),
           ("located", "situated"), ("main", "principal"), ("which", "that"), ("during", "throughout"),
           ("include", "comprise"),
           ("several", "a number of"),
           ("would", "was to"), ("most of", "the majority of"), ("primarily", "mainly"), ("built", "constructed")],
    "de": [("wurde", "ward"), ("muss", "soll"), ("können", "dürfen"), ("beträgt", "liegt bei"), ("seit", "ab"),
           ("etwa", "ungefähr"), ("nur", "lediglich"), ("innerhalb von", "binnen"), ("liefert", "schickt"),
           ("gebaut", "errichtet"), ("mindestens", "wenigstens"), ("sofort", "umgehend"), ("erlaubt", "zulässig"),
           ("möglich", "machbar"), ("gezahlt", "vergütet"), ("geleitet", "geführt"), ("Abstand", "Intervall")],
    "zh": [("因此", "所以"), ("并且", "而且"), ("由于", "因为"), ("之后", "以后"), ("包括", "包含"), ("位于", "坐落于"),
           ("使用", "采用"), ("主要", "主要地"), ("以及", "和"), ("目前", "现在"), ("至今", "迄今"), ("成为", "变成")],
}  # fmt: skip


def one_synonym(material: Material) -> str | None:
    """One word replaced by one that means nearly the same."""
    pairs = list(_SYNONYMS[material.language])
    material.random.shuffle(pairs)
    for word, other in pairs:
        pattern = re.escape(word) if material.language == "zh" else rf"\b{word}\b"
        text = re.sub(pattern, other, material.sentence, count=1)
        if text != material.sentence:
            return text
    return None


def without_opening(material: Material) -> str | None:
    """Without an adverb or a phrase before the first comma."""
    comma = "，" if material.language == "zh" else ", "
    first, _, rest = material.sentence.partition(comma)
    most = 8 if material.language == "zh" else 40
    openings = (
        "In ",
        "On ",
        "At ",
        "During ",
        "However",
        "After ",
        "As ",
        "Additionally",
        "Since ",
        "By ",
        "在",
        "此外",
        "因此",
    )
    if not rest or len(first) > most or not first.startswith(openings):
        return None
    return rest[0].upper() + rest[1:]


def joined(material: Material) -> str | None:
    """With the sentence after it, as one."""
    text = material.passage.text.replace("\n", " ")
    after = text[text.find(material.sentence) + len(material.sentence) :].strip()
    following = sentences(after, material.language)[:1]
    if not following or not after.startswith(following[0]) or len(following[0]) > 200:
        return None
    first = material.sentence[:-1]
    return {
        "en": f"{first}, and {following[0]}",
        "de": f"{first}, und {following[0]}",
        "zh": f"{first}，{following[0]}",
    }[material.language]


LIGHT: dict[str, Maker] = {
    "introduced": introduced,
    "set differently": set_differently,
    "without an aside": without_aside,
    "digits grouped": regrouped,
    "digits for words": digits_for_words,
    "one synonym": one_synonym,
    "without its opening": without_opening,
    "two joined": joined,
}

# --- what is false ---

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_CHINESE_NUMBER = re.compile(r"[一二三四五六七八九十百千万]{1,5}(?=[个位名年月日次人条座种家岁场届章集])")


def other_number(material: Material) -> str | None:
    """One number replaced: nearby, with two digits swapped, ten times as much, or another one of the passage."""
    spots = [(match.span(), False) for match in _NUMBER.finditer(material.sentence)]
    words = _WORDS.get(material.language, [])
    for number in range(2, len(words)):
        spots += [(match.span(), True) for match in re.finditer(rf"\b{words[number]}\b", material.sentence)]
    if material.language == "zh":
        spots += [(match.span(), True) for match in _CHINESE_NUMBER.finditer(material.sentence)]
    if not spots:
        return None
    (start, end), in_words = material.random.choice(spots)
    old = material.sentence[start:end]
    new = _other_word(material, old, words) if in_words else _other_digits(material, old)
    return None if new == old else material.sentence[:start] + new + material.sentence[end:]


def _other_word(material: Material, old: str, words: Sequence[str]) -> str:
    if material.language == "zh":
        place = material.random.randrange(len(old))
        digit = material.random.choice([one for one in "二三四五六七八九" if one != old[place]])
        return old[:place] + digit + old[place + 1 :]
    return material.random.choice([word for word in words[2:] if word != old])


def _other_digits(material: Material, old: str) -> str:
    elsewhere: list[str] = [one for one in _NUMBER.findall(material.passage.text) if one not in material.sentence]
    way = material.random.randrange(4)
    if way == 0 and elsewhere:
        return material.random.choice(elsewhere)
    if way == 1 and len(old) > 1 and old[-1] != old[-2] and old[-2].isdigit():
        return old[:-2] + old[-1] + old[-2]
    if way == 2 and old.isdigit() and len(old) < 4:
        return f"{old}0"
    last = int(old[-1])
    return old[:-1] + str((last + material.random.choice([1, 2, 3, 7])) % 10)


_NAME = {
    "en": re.compile(r"(?<=[a-z,] )(?:[A-Z][a-z]{2,}|[A-Z]{3,})(?: (?:[A-Z][a-z]+|of the [A-Z][a-z]+))*"),
    "de": re.compile(
        r"(?:(?<=Graf )|(?<=von )|(?<=Professor )|(?<=Doktor )|(?<=Ingenieur )|(?<=Meister )|(?<=Dirigent )|(?<=Frau )|"
        r"(?<=Herrn )|(?<=Firma )|(?<=Familie )|(?<=Stadt )|(?<=Kapitän )|(?<=Gärtner )|(?<=in )|(?<=aus )|(?<=bei )|"
        r"(?<=nach )|(?<=mit )|(?<=Universität )|(?<=Brauerei )|(?<=Satellit )|(?<=Programm )|(?<=Fluss )|(?<=Insel ))"
        r"[A-ZÄÖÜ][a-zäöüß]+(?: [A-ZÄÖÜ][a-zäöüß]+)?"
    ),
}
# Nouns that the pattern would take for names in German.
_NO_NAMES = {"Minuten", "Tagen", "Chemie", "Schlitten", "Blitz", "Deutsch", "Höhe", "Fahrten", "Umzüge", "Metern"}


def other_name(material: Material) -> str | None:
    """One name replaced by another one of the passage, or of another article."""
    here = _names(material.sentence, material)
    if not here:
        return None
    old = material.random.choice(here)
    pools = [_names(material.passage.text, material), _names(material.other.text, material, material.other)]
    material.random.shuffle(pools)
    for pool in pools:
        fitting = [name for name in pool if name not in material.sentence and name not in old and old not in name]
        if fitting:
            return material.sentence.replace(old, material.random.choice(fitting), 1)
    return None


def _names(text: str, material: Material, passage: Passage | None = None) -> list[str]:
    if material.language != "zh":
        found = [name for name in _NAME[material.language].findall(text) if name.split()[0] not in _NO_NAMES]
        return sorted(set(found))
    marked = (passage or material.passage).marked
    titles = re.findall(r"《([^《》]{2,12})》", text)
    short = [
        name for name in marked if 2 <= len(name) <= 6 and re.fullmatch(r"[\u4e00-\u9fff·]+", name) and name in text
    ]
    return sorted({*titles, *(name for name in short if not _CHINESE_NUMBER.search(name))})


_AUXILIARIES = {
    "en": r"\b(is|was|are|were|can|could|will|would|has|have|had|may|must|should|does|did)\b(?! not\b|n't)",
    "de": r"\b(ist|sind|war|waren|wird|werden|wurde|wurden|kann|können|darf|dürfen|muss|müssen)\b",
    "zh": r"(是|有|能|会|可以|属于|成为|位于|包括)",
}


def negated(material: Material) -> str | None:
    """A "not" put in, or one taken out."""
    sentence = material.sentence
    taken = {
        "en": [(r"\b(is|was|are|were|can|could|will|would|has|have|had|may|must|should|does|did) not\b", r"\1"),
               (r"\bno longer\b", "still"), (r"\bnever\b", "always"), (r"\bcannot\b", "can"),
               (r"\bno (?=[a-z])", "a ")],
        "de": [(r"\bnicht mehr ", ""), (r"\bnicht ", ""), (r"\bkein(?=e?[nmrs]?\b)", "ein"), (r"\bnie ", "immer ")],
        "zh": [("不是", "是"), ("没有", "有"), ("并不", ""), ("不能", "能"), ("无法", "可以"), ("不会", "会")],
    }[material.language]  # fmt: skip
    for pattern, instead in taken:
        text = re.sub(pattern, instead, sentence, count=1)
        if text != sentence:
            return text
    spots = list(re.finditer(_AUXILIARIES[material.language], sentence))
    if not spots:
        return None
    spot = material.random.choice(spots)
    if material.language == "zh":
        word = {"有": "没有", "是": "不是"}.get(spot[1], f"不{spot[1]}")
        return sentence[: spot.start()] + word + sentence[spot.end() :]
    if material.language == "de":
        return (
            f"{sentence[: spot.end()]} {material.random.choice(['nicht', 'nie', 'keineswegs'])}{sentence[spot.end() :]}"
        )
    word = material.random.choice(["not", "never", "not", "n't" if spot[1] not in ("may", "can", "will") else "not"])
    return f"{sentence[: spot.end()]}{'' if word == chr(110) + chr(39) + 't' else ' '}{word}{sentence[spot.end() :]}"


_OPPOSITES = {
    "en": [("before", "after"), ("increase", "decrease"), ("more", "less"), ("first", "last"), ("north", "south"),
           ("largest", "smallest"), ("won", "lost"), ("high", "low"), ("early", "late"), ("most", "least"),
           ("male", "female")],
    "de": [("erlaubt", "verboten"), ("mindestens", "höchstens"), ("vor", "nach"), ("älteste", "jüngste"),
           ("öffnet", "schließt"), ("geöffnet", "geschlossen"), ("möglich", "unmöglich"), ("oberen", "unteren"),
           ("weniger", "mehr")],
    "zh": [("增加", "减少"), ("最大", "最小"), ("之前", "之后"), ("东", "西"), ("早", "晚"), ("最高", "最低"),
           ("男", "女")],
}  # fmt: skip


def opposite(material: Material) -> str | None:
    """One word replaced by its opposite. Without a bar: told beside the others."""
    pairs = [*_OPPOSITES[material.language], *((b, a) for a, b in _OPPOSITES[material.language])]
    material.random.shuffle(pairs)
    for word, other in pairs:
        pattern = re.escape(word) if material.language == "zh" else rf"\b{word}\b"
        text = re.sub(pattern, other, material.sentence, count=1)
        if text != material.sentence:
            return text
    return None


def of_another(material: Material) -> str | None:
    """A sentence of another article."""
    found = sentences(material.other.text, material.language)
    return material.random.choice(found) if found else None


FALSE: dict[str, Maker] = {
    "another passage": of_another,
    "changed number": other_number,
    "changed name": other_name,
    "negation": negated,
    "opposite": opposite,
}


def claims(passages: Sequence[Passage], language: Language, *, seed: int, most: int) -> list[tuple[Passage, Claim]]:
    """Up to `most` claims of each kind, each with its passage. Passages follow each other by article."""
    chance = random.Random(seed)
    made: list[tuple[Passage, Claim]] = []
    makers: dict[str, Maker] = {"quote": quoted, **LIGHT, **FALSE}
    places = [(place, sentence) for place, one in enumerate(passages) for sentence in sentences(one.text, language)]
    for kind, maker in makers.items():
        chance.shuffle(places)
        count = 0
        for place, sentence in places:
            other = passages[(place + len(passages) // 2) % len(passages)]
            text = maker(Material(language, sentence, passages[place], other, chance))
            if text is not None and count < most:
                made.append((passages[place], Claim(text, sentence, kind)))
                count += 1
    return made
