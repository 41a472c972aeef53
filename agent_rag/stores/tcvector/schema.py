"""Names and filter expressions in Tencent Cloud VectorDB.

A collection is two tables there: ``..._chunks`` with a row for each chunk, ``..._heads`` with one for each document and
one for what the collection is.

The database takes filters as text only, without a documented escape: what goes into an expression are field names of
this module, whole numbers and hexadecimal hashes, never a caller's text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from typing import Any

from ...errors import LimitExceededError
from ...filters import FilterLike
from ..engine.filter_tokens import EVERY, Both, Condition, Either, Has, Lacks, condition_of
from ..versions.stored_info import StoredInfo

Document = dict[str, Any]
"""A row as the client takes and gives it."""

ID, VECTOR, SPARSE = "id", "vector", "sparse_vector"
VERSION, HEAD, INDEX, ORDER, TOKENS, TERMS = "g", "h", "i", "o", "x", "w"
CONTENT, COUNTS, TEXT = "c", "t", "text"
"""The chunk as JSON; its terms with their frequencies; on collections with remote embedding, what is embedded."""
KIND, DOCUMENT, REVISION, WRITTEN = "k", "d", "r", "at"
NAME, BODY, SUMS, INFO = "n", "b", "s", "info"
INFO_ID = "info"
CHUNK_FIELDS = {VERSION: "String", HEAD: "String", INDEX: "Uint64", ORDER: "Uint64", TOKENS: "Array", TERMS: "Array"}
HEAD_FIELDS = {
    **dict.fromkeys((KIND, VERSION, HEAD, REVISION, DOCUMENT), "String"),
    **dict.fromkeys((ORDER, WRITTEN), "Uint64"),
    TOKENS: "Array",
}
"""What is filtered and sorted by, with its type."""
NONE = "0"
"""A text that says nothing: each row has all fields of its table."""
PLACEHOLDER = [1.0]
"""Vector of rows that have none, since each row needs one."""
IS_HEAD, IS_GONE = f'{KIND} = "head"', f'{KIND} = "gone"'

_MAX_EXPRESSION = 65_536
_SAFE_VALUE = re.compile(r"[0-9a-z:-]{1,128}")


def tables_of(database: str, name: str) -> tuple[str, str]:
    """Names of the tables of chunks and of heads, equal for equal names only.

    The database is in them, since names are unique in an instance.
    """
    whole = f"{database}.{name}"
    safe = re.sub(r"[^a-zA-Z0-9]", lambda found: f"_{ord(found[0]):x}_", whole)
    if len(safe) > 100:
        safe = f"{safe[:40]}__{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
    return f"rag_{safe}_chunks", f"rag_{safe}_heads"


def digest(text: str) -> str:
    """32 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def order_of(row_id: str) -> int:
    """Where a row comes in a scan."""
    return int(digest(row_id)[:12], 16)


def info_row(info: StoredInfo) -> Document:
    """Its revision says whether the embedding model is known."""
    return {
        ID: INFO_ID,
        VECTOR: PLACEHOLDER,
        KIND: "info",
        VERSION: NONE,
        HEAD: NONE,
        REVISION: NONE if info.fingerprint is None else "1",
        DOCUMENT: NONE,
        ORDER: 0,
        WRITTEN: 0,
        TOKENS: [EVERY],
        INFO: info.model_dump_json(),
    }


def term_text(term: int) -> str:
    return f"{term:08x}"


def listed(values: Iterable[str]) -> str:
    """Values in an expression. All of them are made in this package, from hexadecimal digits.

    Raises: ValueError: one is not, so that it cannot be written.
    """
    found = []
    for value in values:
        if not _SAFE_VALUE.fullmatch(value):
            raise ValueError(f"{value!r} cannot stand in an expression")
        found.append(f'"{value}"')
    return f"({','.join(found)})"


def is_in(field: str, values: Iterable[str]) -> str:
    return f"{field} in {listed(values)}"


def expression(metadata_filter: FilterLike | None, *more: str, without: Collection[str] = ()) -> str | None:
    """All of `more`, the filter, and none of the versions; None for every row.

    Raises: LimitExceededError: it would be longer than the database takes.
    """
    condition = condition_of(metadata_filter)
    parts = [*more, *([] if condition is None else [_written(condition)])]
    if without:
        parts.append(f"{VERSION} not in {listed(sorted(without))}")
    whole = " and ".join(parts)
    if len(whole) > _MAX_EXPRESSION:
        raise LimitExceededError(
            f"a filter takes {len(whole):,} characters in TcVectorStore, which has {_MAX_EXPRESSION:,}; "
            "filter by fewer values"
        )
    return whole or None


def _written(condition: Condition) -> str:
    match condition:
        case Has(tokens):
            return f"{TOKENS} include {listed(tokens)}"
        case Lacks(tokens):
            return f"{TOKENS} exclude {listed(tokens)}"
        case Both(parts):
            return f"({' and '.join(map(_written, parts))})"
        case Either(parts):
            return f"({' or '.join(map(_written, parts))})"
