"""Whether a message can be understood without the ones before it: English, German, Chinese, by its words."""

from __future__ import annotations

import re
import unicodedata

from .function_words import GERMAN
from .lexical import STOP_WORDS

_WORD = re.compile(r"[^\W_]+")
_IDEOGRAPH = re.compile("[\u3400-\u9fff]")
_OPENING = re.compile(
    r"(?:and|but|or|so|then|also|what about|how about|what else|how so|since when|und|aber|oder|auch|was noch|"
    r"seit wann)\b"
)
_POINTING = frozenset(
    """it its itself they them their theirs he him his she her hers this that these those one ones there then former
    latter er ihn ihm sein seine es sie ihr ihre ihnen das dies diese dieser dieses davon dafür dazu damit dabei daran
    darin darüber darauf deren dessen dort dann""".split()  # noqa: SIM905
)
# Subjects that say nothing without what they are of.
_GENERAL = frozenset(
    """alternative alternatives exception exceptions example examples difference differences price prices cost costs
    give get tell show explain more else other another second third first last next happen happens happened better worse
    cheaper version newer option options reason reasons need please thanks really work works mean means meant
    ausnahme ausnahmen beispiel beispiele unterschied preis preise kostet kosten alternative alternativen passiert
    erkläre zeige besser billiger günstiger zweite dritte erste nächste lange viel viele""".split()  # noqa: SIM905
)
_MOST_POINTING = 3
"""Words with a subject, from which on a pronoun stands for something in the message itself."""
_CHINESE_OPENING = re.compile(r"[那还然]|第[一二三四五]个")
_CHINESE_POINTING = re.compile(r"[它他她这那其]")
_CHINESE_GENERAL = re.compile(
    "为什么|什么时候|什么|谁|哪里|哪一?个|哪|多少|多长|时间|需要|有|是|的|吗|例外|区别|更|便宜|写|负责|价格|钱|了|怎么样?|它|他|她"
)
_LEAST_CHINESE, _MOST_CHINESE_POINTING = 2, 14
"""Characters of a subject, and of a message from which on a pronoun stands for something in it."""


def stands_alone(text: str) -> bool:
    """Whether a question has a subject of its own. "And its warranty?" has none, nor "Are there any exceptions?"."""
    plain = unicodedata.normalize("NFKC", text).casefold().strip()
    if _IDEOGRAPH.search(plain):
        return _chinese_stands_alone(re.sub(r"[\s\W]+", "", plain))
    if _OPENING.match(plain):
        return False
    words = _WORD.findall(plain)
    subjects = [word for word in words if word not in _FUNCTION_WORDS and word not in _GENERAL]
    if not subjects:
        return False
    return len(subjects) > _MOST_POINTING or _POINTING.isdisjoint(words) or any(word.isdigit() for word in subjects)


_FUNCTION_WORDS = STOP_WORDS | GERMAN | {"many", "much", "long", "also", "may", "would", "could", "might"}


def _chinese_stands_alone(text: str) -> bool:
    if _CHINESE_OPENING.match(text) or text.endswith("呢") or len(_CHINESE_GENERAL.sub("", text)) < _LEAST_CHINESE:
        return False
    return len(text) > _MOST_CHINESE_POINTING or not _CHINESE_POINTING.search(text)
