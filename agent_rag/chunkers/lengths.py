"""How long a text is: in characters, in tokens of a tokeniser, or in tokens as a safe guess."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import regex

from ..errors import ConfigurationError

LengthFunction = Callable[[str], int]
"""Size of a text. It should not shrink when text is added; it need not be additive."""

CHARACTERS = "characters"


def approx_tokens(text: str) -> int:
    """A number of tokens that errs high, without a tokeniser.

    Counts one per started four letters of a lower-case ASCII word (per two of an upper-case one), per digit,
    punctuation mark, symbol and run of more than one white space; two per CJK or other three-byte character; one per
    other two-byte letter; four per character outside the BMP. English comes out at 1.3 to 1.6 times what today's
    tokenisers count, Chinese at 1.4 to 2.7 times, and never below a tokeniser that spends one token per CJK character
    and per punctuation mark. Chunks are therefore smaller than the limit, and none overflows the model.
    """
    ascii_pieces, two_bytes, three_bytes, four_bytes = _token_patterns()
    count = len(ascii_pieces.findall(text))
    if not text.isascii():
        count += len(two_bytes.findall(text)) + 2 * len(three_bytes.findall(text)) + 4 * len(four_bytes.findall(text))
    return count


class TokenLength:
    """Counts the tokens of a text with a tokeniser, without special tokens; built by `token_length`."""

    def __init__(self, tokenizer: Any) -> None:
        if getattr(tokenizer, "truncation", None) or getattr(tokenizer, "padding", None):
            # A tokeniser that truncates never counts above its limit, so any text would seem to fit.
            tokenizer = type(tokenizer).from_str(tokenizer.to_str())
            tokenizer.no_truncation()
            tokenizer.no_padding()
        self.tokenizer = tokenizer

    def __call__(self, text: str) -> int:
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        return len(getattr(encoded, "ids", encoded))

    @property
    def length_name(self) -> str:
        """``tokens:`` and a digest of the tokeniser, so that another vocabulary is another fingerprint."""
        if hasattr(self.tokenizer, "to_str"):
            return "tokens:" + hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()[:12]
        return f"tokens:{getattr(self.tokenizer, 'name_or_path', '') or type(self.tokenizer).__qualname__}"


def token_length(tokenizer: Any) -> TokenLength:
    """The length function of a `tokenizers.Tokenizer`, or of anything whose ``encode(text, add_special_tokens=False)``
    gives a list of ids (Hugging Face `transformers`). A limit set on the tokeniser is left out of the count."""
    return TokenLength(tokenizer)


_BY_NAME: dict[str, LengthFunction] = {CHARACTERS: len, "approx_tokens": approx_tokens}


def register_length(name: str, function: LengthFunction) -> None:
    """Make `function` known, so that a chunker with ``Parameters(length=name)`` can be rebuilt from JSON.

    Raises: ConfigurationError: another function has that name.
    """
    if _BY_NAME.setdefault(name, function) is not function:
        raise ConfigurationError(f"the length {name!r} is already another function; choose another name")


def length_from(name: str) -> LengthFunction:
    """Raises: ConfigurationError: no length of that name is registered."""
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(sorted(_BY_NAME))
        raise ConfigurationError(
            f"no length function named {name!r} (known: {known}); "
            "pass length=function, or call register_length(name, function) first"
        ) from None


def name_of(function: LengthFunction) -> str:
    """Its registered name, its own `length_name`, or where it is defined."""
    for name, known in _BY_NAME.items():
        if known is function:
            return name
    own = getattr(function, "length_name", None)
    if isinstance(own, str):
        return own
    defined = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', '')}.{defined}"


@cache
def _token_patterns() -> tuple[Any, Any, Any, Any]:
    return (
        regex.compile(
            r"[a-z]{1,4}|[A-Z][a-z]{1,3}|[A-Z]{1,2}|[\x21-\x40\x5b-\x60\x7b-\x7e]|\s{2,}|[\x00-\x08\x0a-\x1f]"
        ),
        regex.compile(r"[\u0080-\u07ff]"),
        regex.compile(r"[\u0800-\uffff]"),
        regex.compile(r"[\U00010000-\U0010ffff]"),
    )
