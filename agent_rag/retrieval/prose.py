"""What a collection holds, as far as its keyword index has to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .analysis import fields_of
from .languages import FUNCTION_WORDS
from .lexical import ENGLISH, STOP_WORDS, is_unspaced, words_of

__all__ = ["Composition"]

_ENGLISH_SHARE = 0.27
"""Share of English function words: .32 to .49 in English prose, papers and manuals, .19 to .22 in Python code with its
comments, .03 to .10 in German and Spanish."""
_LANGUAGE_SHARE, _LANGUAGE_LEAD = 0.15, 1.5
"""Share of another language's function words, and how much it is above that of the English ones."""
_UNSPACED_SHARE = 0.8
"""Characters of scripts without blanks, above which parts of the other words are not worth their room."""
_LANGUAGES: dict[str, tuple[str, ...]] = dict.fromkeys(STOP_WORDS, (ENGLISH,))
"""Function word -> languages that have it."""
for _language, _words in FUNCTION_WORDS.items():
    for _word in _words:
        _LANGUAGES[_word] = (*_LANGUAGES.get(_word, ()), _language)


class Composition:
    """Counts of the words in some texts."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._words = self._spaced = self._unspaced = 0
        self._function_words: Counter[str] = Counter()
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            for word in words_of(text):
                if is_unspaced(word):
                    self._unspaced += len(word)
                elif not word.isdigit():
                    self._words += 1
                    self._spaced += len(word)
                    self._function_words.update(_LANGUAGES.get(word, ()))

    @property
    def is_english_prose(self) -> bool:
        """Whether most of it is."""
        return self._words > 0 and self._function_words[ENGLISH] >= _ENGLISH_SHARE * self._words

    @property
    def is_unspaced(self) -> bool:
        """Whether nearly all of it is of scripts without blanks between words."""
        return self._unspaced >= _UNSPACED_SHARE * max(1, self._unspaced + self._spaced)

    @property
    def language(self) -> str:
        """Of the words in Latin script: one of `FUNCTION_WORDS` that most of them are of, else English."""
        language, count = max(self._function_words.items(), key=lambda item: (item[1], item[0]), default=(ENGLISH, 0))
        enough = count >= _LANGUAGE_SHARE * self._words and count >= _LANGUAGE_LEAD * self._function_words[ENGLISH]
        return language if enough else ENGLISH

    def fields(self, *, grams: bool | None = None) -> str:
        """The `Chunk.analysis` that suits it.

        Args:
            grams: Parts of words, too; None: unless it is English prose, where they cost .01 recall at 2,000 tokens, or
                of scripts that have none.
        """
        wanted = not (self.is_english_prose or self.is_unspaced) if grams is None else grams
        return fields_of(grams=wanted, language=self.language)
