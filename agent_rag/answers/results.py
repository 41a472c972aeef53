"""What the check of an answer says."""

from __future__ import annotations

from collections import Counter
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict

Outcome = Literal[
    "supported", "number", "name", "negation", "never_shown", "not_found", "uncited", "no_text", "no_claim"
]
"""Of one sentence:

* ``supported``: a passage that it cites says it, in nearly these words
* ``number``, ``name``, ``negation``: the passage says nearly this, with another number, another name, or the contrary
* ``never_shown``: it cites a number that stands for nothing
* ``not_found``: no passage that it cites says it in words that are near enough
* ``uncited``: it cites nothing; `Sentence.support` names a passage that says it, where there is one
* ``no_text``: the text of the passage is not at hand, so nothing can be said
* ``no_claim``: a question, a heading, a word of courtesy, or the statement that something was not found
"""
Verdict = Literal["supported", "doubtful", "open"]
"""``supported``; ``doubtful``: something speaks against it; ``open``: nobody knows. None of them says that it is true:
the passage itself may be wrong."""

_DOUBTFUL = frozenset(("number", "name", "negation", "never_shown"))


class Quotable(Protocol):
    """What a number stands for, such as a `Citation`. Its text is that of `passage` where it has this attribute and it
    is not empty."""

    @property
    def number(self) -> int: ...
    @property
    def text(self) -> str: ...


class Support(BaseModel):
    """Where a passage says it."""

    model_config = ConfigDict(frozen=True)

    number: int
    """Of the citation."""
    start: int
    end: int
    """Characters in the text of its passage."""
    quote: str
    """These characters."""


class Sentence(BaseModel):
    """One sentence of an answer."""

    model_config = ConfigDict(frozen=True)

    text: str
    start: int
    end: int
    """Characters in the answer."""
    outcome: Outcome
    numbers: tuple[int, ...] = ()
    """What it cites: by its own markers, or by the next one in its line."""
    never_shown: tuple[int, ...] = ()
    """Those of `numbers` that stand for nothing."""
    support: tuple[Support, ...] = ()
    """What says it; with ``number``, ``name`` and ``negation`` what says nearly this."""
    differs: tuple[str, ...] = ()
    """Words of the sentence that the passage does not have, where they decide."""
    judged: bool = False
    """Whether a model found the support, which is a quote from the passage all the same."""

    @property
    def verdict(self) -> Verdict:
        if self.outcome == "supported":
            return "supported"
        return "doubtful" if self.outcome in _DOUBTFUL else "open"

    @property
    def remark(self) -> str:
        """What a reader should know of it, in a few words; empty where there is nothing to say."""
        cited = ", ".join(f"[{number}]" for number in self.numbers)
        differs = f" ({', '.join(self.differs)})" if self.differs else ""
        found = f"; [{self.support[0].number}] says it" if self.support else ""
        return {
            "number": f"{cited} says nearly this with another number{differs}",
            "name": f"{cited} says nearly this of another name or thing{differs}",
            "negation": f"{cited} and this contradict each other in what they deny",
            "never_shown": f"{', '.join(f'[{number}]' for number in self.never_shown)} stands for nothing",
            "not_found": f"not found in {cited} in these words",
            "uncited": f"names no source{found}",
            "no_text": f"the text of {cited} is not at hand",
        }.get(self.outcome, "")


class CheckedAnswer(BaseModel):
    """An answer, sentence by sentence."""

    model_config = ConfigDict(frozen=True)

    sentences: tuple[Sentence, ...] = ()
    unjudged: int = 0
    """Sentences about which a judge gave no answer."""

    @property
    def unsupported(self) -> list[Sentence]:
        """Sentences that state something and are not supported, in order."""
        return [one for one in self.sentences if one.outcome not in ("supported", "no_claim")]

    @property
    def never_shown(self) -> list[int]:
        """Citation numbers in the answer that stand for nothing, in order."""
        return sorted({number for one in self.sentences for number in one.never_shown})

    @property
    def counts(self) -> dict[Outcome, int]:
        """Outcome -> number of sentences, for those that occur."""
        return dict(Counter(one.outcome for one in self.sentences))
