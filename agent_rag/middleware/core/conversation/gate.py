"""Whether a message asks for anything that a knowledge base could know. In doubt it does.

Told by closed lists of words: a message is let go only when every word of it is a greeting, thanks, agreement or
goodbye, or when it asks for the last answer in another length, language or form and has no word beside that. English,
German, French and Chinese; every other message is searched for.
"""

from __future__ import annotations

import re
import unicodedata

from . import phrases

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_IDEOGRAPH = re.compile("[\u3400-\u9fff]")
_MOST_WORDS = 16
_MOST_CHARACTERS = 160


def asks_for_search(text: str, *, answered: bool = True) -> bool:
    """Whether to search for a message.

    Args:
        answered: Whether there is an answer before it, which a request such as "shorter, please" can be about.
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").strip()
    if len(plain) > _MOST_CHARACTERS or "\n" in plain:
        return True
    if _IDEOGRAPH.search(plain):
        return not _only(plain, phrases.CHINESE, phrases.CHINESE_REQUESTS if answered else ())
    words = _WORD.findall(plain)
    if not words:
        return any(character.isalnum() for character in plain)
    if len(words) > _MOST_WORDS:
        return True
    asked = " ".join(words)
    if asked in phrases.COURTESIES or (answered and asked in phrases.REQUESTS):
        return False
    if phrases.SMALL_TALK.issuperset(words):
        return "?" in plain
    return not (answered and _asks_for_another_form(words))


def _asks_for_another_form(words: list[str]) -> bool:
    """A verb of changing, or a form for "that", and nothing that is a subject of its own."""
    if not (phrases.FORMS | phrases.CHANGES | phrases.AROUND | phrases.REFERENCES).issuperset(words):
        return False
    refers = not (phrases.REFERENCES | phrases.POLITE).isdisjoint(words)
    return not phrases.CHANGES.isdisjoint(words) or (refers and not phrases.FORMS.isdisjoint(words))


def _only(text: str, small_talk: tuple[str, ...], requests: tuple[str, ...]) -> bool:
    """Whether a Chinese message is made of these phrases only, longest first."""
    rest = re.sub(r"[\s,.!~。，！、：:?？…]+", "", text)
    asks = any(phrase in rest for phrase in requests)
    known = (*small_talk, *requests, *(phrases.CHINESE_AROUND if asks else ()))
    for phrase in sorted(known, key=len, reverse=True):
        rest = rest.replace(phrase, "\x00")
    return not rest.strip("\x00")
