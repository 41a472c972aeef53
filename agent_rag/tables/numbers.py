"""Numbers as people write them: 1.234,56 and 1,234.56, with a sign, a currency, a unit or a percent sign."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

Style = Literal["point", "comma"]
"""The decimal sign."""

_SPACES = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2212": "-", "\u2013": "-", "’": "'", "`": "'"})
_CURRENCY = r"[$€£¥₹₽₩₺₴฿]|US\$|EUR|USD|GBP|CHF|JPY|CNY|RMB|INR|SEK|NOK|DKK|PLN|CZK|HUF|AUD|CAD|BRL|Fr\.|kr\.?|zł|Kč"
_WRITTEN = re.compile(
    rf"""(?P<open>\()?\s*(?P<sign>[-+])?\s*(?P<before>{_CURRENCY})?\s*(?P<sign2>[-+])?\s*
    (?P<digits>\d[\d.,' ]*|[.,]\d+)(?P<exponent>[eE][-+]?\d{{1,3}})?
    \s*(?P<minus>-)?\s*(?P<after>{_CURRENCY}|[%‰]|[A-Za-zµΩ°"][A-Za-zµΩ°²³./·-]{{0,11}}(?:\s?[²³])?)?\s*(?P<close>\))?""",
    re.X,
)
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
_GROUPED = {
    ".": re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+"),
    ",": re.compile(r"[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3}"),
    "'": re.compile(r"[1-9]\d{0,2}(?:'\d{3})+"),
    " ": re.compile(r"[1-9]\d{0,2}(?: \d{3})+"),
}


class Written(NamedTuple):
    """A number's parts."""

    negative: bool
    digits: str
    """Digits with points, commas, apostrophes and spaces as written."""
    exponent: str
    unit: str | None


class Number(NamedTuple):
    """A number that was read."""

    value: int | float
    unit: str | None


def written(text: str) -> Written | None:
    """The parts of a text that is a number; None where it is none, or its digits name a thing (0049)."""
    text = text.translate(_SPACES).strip()
    if not text or len(text) > 48:
        return None
    if _PLAIN.fullmatch(text):  # nearly all cells of nearly all files
        digits, _, exponent = text.removeprefix("-").lower().partition("e")
        return _checked(text.startswith("-"), digits, f"e{exponent}" if exponent else "", None)
    found = _WRITTEN.fullmatch(text)
    if found is None or bool(found["open"]) != bool(found["close"]) or (found["before"] and found["after"] == "%"):
        return None
    minus = [found["sign"] == "-", found["sign2"] == "-", bool(found["minus"]), bool(found["open"])]
    if sum(minus) > 1 or (found["minus"] and "+" in (found["sign"], found["sign2"])):
        return None
    unit = found["after"] or found["before"]
    return _checked(any(minus), found["digits"].strip(), found["exponent"] or "", unit)


def _checked(negative: bool, digits: str, exponent: str, unit: str | None) -> Written | None:
    if digits[0] == "0" and digits[1:2] not in ("", ".", ","):
        return None
    return Written(negative, digits, exponent, unit)


def style_of(digits: str) -> Style | None:
    """The decimal sign that a number's digits show; None where both could be (1.234 and 12)."""
    marks = [sign for sign in digits if sign in ".,"]
    if not marks:
        return None
    if len(set(marks)) == 2:
        return "point" if marks[-1] == "." else "comma"
    (mark,) = set(marks)
    if len(marks) > 1:
        return "comma" if mark == "." else "point"
    if "'" in digits or " " in digits:
        return "point" if mark == "." else "comma"
    if _GROUPED[mark].fullmatch(digits):
        return None
    return "point" if mark == "." else "comma"


def vote(numbers: Iterable[Written]) -> Style | None:
    """The style that most numbers show; None where none does, or as many show the other."""
    counts = Counter(style for number in numbers if (style := style_of(number.digits)) is not None)
    if not counts or counts["point"] == counts["comma"]:
        return None
    return counts.most_common(1)[0][0]


def value_of(number: Written, style: Style) -> Number | None:
    """The number in `style`, or in its own where it shows another; None where its groups are none."""
    style = style_of(number.digits) or style
    decimal, group = (".", ",") if style == "point" else (",", ".")
    whole, mark, fraction = number.digits.rpartition(decimal)
    if not mark:
        whole, fraction = number.digits, ""
    elif not fraction.isdecimal():
        return None
    for sign in (group, "'", " "):
        if sign in whole:
            if not _GROUPED[sign].fullmatch(whole):
                return None
            whole = whole.replace(sign, "")
    if not (whole.isdecimal() or (not whole and fraction)):
        return None
    sign = "-" if number.negative else ""
    if not fraction and not number.exponent:
        return Number(int(f"{sign}{whole}"), number.unit)
    value = float(f"{sign}{whole or 0}.{fraction or 0}{number.exponent}")
    return Number(value, number.unit) if abs(value) < float("inf") else None
