"""How large what a model would be shown is: tokens of a vocabulary that is always here."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

from ..chunkers.lengths import TokenLength, token_length
from ..errors import MissingExtraError

_FILE = "tokenizers/l2_supercat_tokenizer_config.json"


@functools.cache
def llama_tokens() -> TokenLength:
    """Counts tokens of Llama 2's vocabulary, which the wordllama wheel carries: for comparing, not for bills.

    Raises: MissingExtraError: wordllama is not installed.
    """
    from tokenizers import Tokenizer

    # The package itself is not imported: it looks for the tokenizer in the wrong folder and then downloads.
    spec = importlib.util.find_spec("wordllama")
    file = Path(spec.origin).parent / _FILE if spec and spec.origin else None
    if file is None or not file.is_file():
        raise MissingExtraError("budgets of tokens need the package 'wordllama': pip install 'wordllama>=0.4.0'")
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return token_length(tokenizer)
