"""What a number says, however it is written: ``48.312``, ``twelve``, ``zwölf``, ``十二``, ``1.5 million``."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_GERMAN = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn zwanzig"
)
_ENGLISH_TENS = "thirty forty fifty sixty seventy eighty ninety"
_GERMAN_TENS = "dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
WORDS: dict[str, Decimal] = {
    **{word: Decimal(value) for words in (_ENGLISH, _GERMAN) for value, word in enumerate(words.split())},
    **{
        word: Decimal(10 * tens)
        for words in (_ENGLISH_TENS, _GERMAN_TENS)
        for tens, word in enumerate(words.split(), 3)
    },
}
"""Number words, in lower case. German's "ein" is an article and no number here."""

MULTIPLIERS: dict[str, Decimal] = {
    "hundred": Decimal(100),
    "hundert": Decimal(100),
    **dict.fromkeys(("thousand", "tausend"), Decimal(1_000)),
    **dict.fromkeys(("million", "millions", "millionen", "mio"), Decimal(10**6)),
    **dict.fromkeys(("billion", "billions", "milliarde", "milliarden", "mrd"), Decimal(10**9)),
    **dict.fromkeys(("trillion", "billionen"), Decimal(10**12)),
    **dict.fromkeys("万萬", Decimal(10**4)),
    **dict.fromkeys("亿億", Decimal(10**8)),
}
"""Words that multiply the number before them."""

CJK_DIGITS = "零〇一二三四五六七八九十百千万萬亿億两兩"
_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_PLACES = {"十": 10, "百": 100, "千": 1_000}
_LARGE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_GROUPED = re.compile(r"[1-9]\d{0,2}([.,'’\u00a0\u202f])\d{3}(?:\1\d{3})*")


def value_of(digits: str) -> Decimal:
    """The value of ASCII digits with separators: groups of three behind a number from 1 to 999 are thousands, as in
    ``48.312`` and ``48,312``; else the last of `.` and `,` is the decimal point."""
    if _GROUPED.fullmatch(digits):
        return Decimal(re.sub(r"\D", "", digits))
    whole, point, fraction = digits.replace(",", ".").rpartition(".")
    if not point:
        return Decimal(re.sub(r"\D", "", digits))
    return Decimal(f"{re.sub(r'[^0-9]', '', whole) or '0'}.{re.sub(r'[^0-9]', '', fraction) or '0'}").normalize()


def fraction_of(character: str) -> Decimal | None:
    """Of ``½`` and its like."""
    value = unicodedata.numeric(character, None)
    return None if value is None or value == int(value) else Decimal(str(round(value, 6)))


def chinese_value(run: str) -> Decimal:
    """Of ``一千二百三十四``, ``二〇一三`` (digits one by one) and ``3万`` without its 3."""
    if all(character in _DIGITS for character in run):
        return Decimal("".join(str(_DIGITS[character]) for character in run))
    total = section = digit = 0
    for character in run:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif character in _PLACES:
            section += (digit or 1) * _PLACES[character]
            digit = 0
        else:
            total = (total + section + digit or 1) * _LARGE[character]
            section = digit = 0
    return Decimal(total + section + digit)
