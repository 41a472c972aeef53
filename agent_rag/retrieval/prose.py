"""What a collection holds, as far as its keyword index has to know."""

from __future__ import annotations

from collections.abc import Iterable

from .analysis import FIELDS, GRAMS, Analysis
from .lexical import STOP_WORDS, is_unspaced, words_of

__all__ = ["Composition"]

_ENGLISH_SHARE = 0.27
"""Share of English function words: .32 to .49 in English prose, papers and manuals, .19 to .22 in Python code with its
comments, .03 to .10 in German and Spanish."""
_UNSPACED_SHARE = 0.8
"""Characters of scripts without blanks, above which parts of the other words are not worth their room."""


class Composition:
    """Counts of the words in some texts."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._words = self._function_words = self._spaced = self._unspaced = 0
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            for word in words_of(text):
                if is_unspaced(word):
                    self._unspaced += len(word)
                elif not word.isdigit():
                    self._words += 1
                    self._spaced += len(word)
                    self._function_words += word in STOP_WORDS

    @property
    def is_english_prose(self) -> bool:
        """Whether most of it is."""
        return self._words > 0 and self._function_words >= _ENGLISH_SHARE * self._words

    @property
    def is_unspaced(self) -> bool:
        """Whether nearly all of it is of scripts without blanks between words."""
        return self._unspaced >= _UNSPACED_SHARE * max(1, self._unspaced + self._spaced)

    @property
    def analysis(self) -> Analysis:
        """Parts of words, too, unless it is English prose, where they cost .01 recall at 2,000 tokens, or of scripts
        that have none."""
        return FIELDS if self.is_english_prose or self.is_unspaced else GRAMS
