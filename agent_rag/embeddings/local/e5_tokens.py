"""The unigram tokenizer of multilingual-e5-small, in Python: 41 MB of memory, where the library's takes 257 MB."""

from __future__ import annotations

import re

from .e5_file import Vocabulary

_BLANK = "\u2581"
"""Begins a word in the vocabulary."""
_WORD = re.compile(f"{_BLANK}[^{_BLANK}]*")
_BLANKS = re.compile(" {2,}")
_UNKNOWN_COST = 10.0
"""How much less likely than the rarest piece an unknown character is, as in SentencePiece."""
_MOST_KNOWN, _LONGEST_KNOWN = 50_000, 32


class UnigramTokenizer:
    """Cuts a text into the pieces whose probabilities have the greatest product. Safe to use from several threads.

    Source: Kudo, "Subword Regularization: Improving Neural Network Translation Models with Multiple Subword
    Candidates", 2018.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._normal = vocabulary.normal
        self._unknown = vocabulary.unknown
        self._pieces = {
            piece: (number, score)
            for number, (piece, score) in enumerate(zip(vocabulary.pieces, vocabulary.scores, strict=True))
            if piece and number != vocabulary.unknown
        }
        self._longest = max(map(len, vocabulary.pieces))
        self._unknown_score = min(vocabulary.scores) - _UNKNOWN_COST
        self._known: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        """Ids of the pieces of `text`, in order, without a first and last token."""
        plain = _BLANKS.sub(" ", text.translate(self._normal)).replace(" ", _BLANK)
        ids: list[int] = []
        for word in _WORD.findall(plain if plain.startswith(_BLANK) else _BLANK + plain):
            found = self._known.get(word)
            if found is None:
                found = self._cut(word)
                if len(word) < _LONGEST_KNOWN:
                    if len(self._known) >= _MOST_KNOWN:
                        self._known.clear()
                    self._known[word] = found
            ids += found
        return ids

    def _cut(self, word: str) -> list[int]:
        """The best way to each place of the word is one to an earlier place and one piece more (Viterbi)."""
        size, longest, find = len(word), self._longest, self._pieces.get
        best = [0.0] + [float("-inf")] * size
        last: list[tuple[int, int]] = [(0, self._unknown)] * (size + 1)
        for start in range(size):
            so_far = best[start]
            for stop in range(start + 1, min(size, start + longest) + 1):
                piece = find(word[start:stop])
                if piece is not None and so_far + piece[1] > best[stop]:
                    best[stop] = so_far + piece[1]
                    last[stop] = start, piece[0]
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1] = so_far + self._unknown_score
                last[start + 1] = start, self._unknown
        ids = []
        while size:
            size, number = last[size]
            ids.append(number)
        return ids[::-1]
