"""A loopback stand-in for an Elasticsearch server, with its own small engine.

Stands for: Elasticsearch 9.2 and later (`version="8.19.0"` for 8.x) on one node with one shard, as the
official client `AsyncElasticsearch(url)` calls it. Follows the Elasticsearch reference (REST API, Query
DSL, mapping types) and the published examples of elastic/elasticsearch-specification, which the tests
beside it replay.

    with ElasticsearchServer() as server:
        client = AsyncElasticsearch(server.url)

Facts that a store has to know, and that hold here:

* A write is not visible to search, count, delete-by-query or aggregations before a refresh: `refresh=true`,
  `refresh=wait_for` or `_refresh`. This stand-in never refreshes by itself (a server does after about a
  second). GET and `_mget` by id are real time.
* knn scores: cosine and dot_product `(1 + s) / 2`, l2_norm `1 / (1 + d^2)`, max_inner_product `1 + s`, or
  `1 / (1 - s)` below zero. Cosine refuses zero vectors, dot_product all but unit ones. Scores are 32-bit
  floats.
* Since 9.2 `dense_vector` fields are left out of `_source` unless `_source.exclude_vectors` is false or the
  index setting `index.mapping.exclude_source_vectors` is; `fields` returns them always. 8.x returns them in
  `_source` and refuses the flag.
* BM25 is `(k1 + 1) * idf * tf / (tf + k1 * (1 - b + b * dl / avgdl))` with `idf = ln(1 + (N - n + 0.5) / (n
  + 0.5))`. Lucene 8 dropped the constant `(k1 + 1)`; Elasticsearch kept it: its published explain shows
  "boost 2.2".
* `_id` is at most 512 bytes, a keyword 32,766; `from + size` and `num_candidates` 10,000; 1,000 mapped
  fields.
* A date without a time means its first moment for `gte` and `lt`, and its last for `gt` and `lte`.

What differs from a server, so that a green test says nothing about it: knn is exact and unquantised (a
server uses HNSW over int8, from 384 dimensions over one bit: neighbours are approximate, and with int8
scores too); N and n count live documents (a server counts deleted ones until their segment merges, and per
shard); a field's length is exact, while Lucene keeps it in one byte (`lossy_lengths=True` does that too);
every request runs alone, so a bulk is atomic to readers; shards, replicas and routing are accepted and do
nothing. Absent, refused with 400: scripts other than vector functions, nested, geo and range types, dynamic
templates, aliases, scroll, suggesters, highlighting, date math, fuzzy/prefix/wildcard/query_string queries,
retrievers, update-by-query, security.
"""

from __future__ import annotations

import ast
import fnmatch
import gzip
import json
import math
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import product
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from .qdrant_server import Reply, Request, StandinServer

Json = dict[str, Any]
Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.floating[Any]]
Match = tuple[Mask, Scores]


class EsError(Exception):
    """An error answer. `shard` wraps it as a failure of all shards, as search does for what it finds late."""

    def __init__(
        self,
        status: int,
        kind: str,
        reason: str,
        *,
        shard: bool = False,
        about: Json | None = None,
        **more: Any,
    ) -> None:
        super().__init__(reason)
        self.status, self.shard = status, shard
        self.cause: Json = {"type": kind, "reason": reason, **(about or {}), **more}

    def body(self) -> Json:
        root = {key: value for key, value in self.cause.items() if key != "caused_by"}
        error = {"root_cause": [root], **self.cause}
        if self.shard:
            failed = [{"shard": 0, "index": self.cause.get("index"), "node": "standin", "reason": self.cause}]
            wrapped = {"type": "search_phase_execution_exception", "reason": "all shards failed"}
            error = {
                "root_cause": [root],
                **wrapped,
                "phase": "query",
                "grouped": True,
                "failed_shards": failed,
            }
        return {"error": error, "status": self.status}


def illegal(reason: str, *, shard: bool = False, status: int = 400) -> EsError:
    return EsError(status, "illegal_argument_exception", reason, shard=shard)


def parsing(reason: str, **more: Any) -> EsError:
    return EsError(400, "parsing_exception", reason, line=1, col=1, **more)


def invalid(reason: str) -> EsError:
    return EsError(400, "action_request_validation_exception", f"Validation Failed: 1: {reason};")


def no_index(name: str) -> EsError:
    about = {"resource.type": "index_or_alias", "resource.id": name, "index_uuid": "_na_", "index": name}
    return EsError(404, "index_not_found_exception", f"no such index [{name}]", about=about)


# -- values ---------------------------------------------------------------------------------------

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
FLOATS = ("float", "double")
NUMERIC = (*INTEGERS, *FLOATS)
DATE = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(?:(\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?)?)?)?)?$"
)
MAX_TERM_BYTES = 32766
LONG_MAX = 2**63 - 1
METADATA = frozenset({"_id", "_index", "_source", "_routing", "_seq_no", "_version", "_field_names", "_ignored"})
STRICT = "mapping set to strict, dynamic introduction of"


def parse_date(value: Any, *, round_up: bool = False) -> int:
    """Milliseconds since 1970 of `strict_date_optional_time||epoch_millis`, missing parts filled."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not -62_135_596_800_000 <= value <= 253_402_300_799_999:  # years 1 to 9999
            raise ValueError(f"date [{value}] is out of the stand-in's range")
        return int(value)
    match = DATE.match(str(value))
    if match is None:
        if re.fullmatch(r"-?\d+", str(value)):
            return int(value)
        raise ValueError(f"failed to parse date field [{value}] with format [strict_date_optional_time||epoch_millis]")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    hours = int(hour or (23 if round_up else 0))
    minutes = int(minute or (59 if round_up else 0))
    at = int(second or (59 if round_up else 0))
    moment = datetime(int(year), int(month or 1), int(day or 1), hours, minutes, at, tzinfo=UTC)
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        moment += offset if zone[0] == "-" else -offset
    millis = int(fraction.ljust(3, "0")[:3]) if fraction else 999 if round_up and not second else 0
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) + millis


def format_date(millis: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{millis % 1000:03d}Z"


def as_text(value: Any) -> str:
    if isinstance(value, dict):
        raise ValueError(f"Can't get text on a START_OBJECT at {value}")
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def as_number(kind: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"cannot read [{value}] as [{kind}]")
    number = float(value) if isinstance(value, str) and not re.fullmatch(r"-?\d+", value) else value
    if kind in INTEGERS:
        whole = int(number)
        if not -(2 ** (INTEGERS[kind] - 1)) <= whole < 2 ** (INTEGERS[kind] - 1):
            raise ValueError(f"Numeric value ({value}) out of range of {kind}")
        return whole
    limit = float(np.finfo(np.float32).max) if kind == "float" else math.inf
    if not abs(float(number)) <= limit or math.isinf(float(number)):
        raise ValueError(f"[{kind}] supports only finite values, but got [{value}]")
    return float(np.float32(number)) if kind == "float" else float(number)


def as_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in ("true", "false", ""):
        return value == "true"
    raise ValueError(f"Failed to parse value [{value}] as only [true] or [false] are allowed.")


def flatten(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from flatten(item)
    else:
        yield value


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def paths_match(path: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern names `path` or an object above it, as source filtering means it."""
    parts = path.split(".")
    above = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return any(fnmatch.fnmatchcase(candidate, pattern) for pattern in patterns for candidate in above)


def filter_source(value: Any, includes: list[str], excludes: list[str], path: str = "") -> Any:
    if isinstance(value, list):
        return [filter_source(item, includes, excludes, path) for item in value]
    if not isinstance(value, dict):
        return value
    kept: Json = {}
    for key, item in value.items():
        inner = f"{path}.{key}" if path else key
        if paths_match(inner, excludes):
            continue
        nested = any(isinstance(part, dict) for part in as_list(item))
        if not includes or paths_match(inner, includes):
            kept[key] = filter_source(item, [], excludes, inner)
        elif nested:
            below = filter_source(item, includes, excludes, inner)
            if any(part for part in as_list(below)):
                kept[key] = below
    return kept


# -- analysis ---------------------------------------------------------------------------------------

# Words by Unicode text segmentation, an ideograph or kana alone: what `standard` gives for common text.
STANDARD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+(?:['.\u2019][^\W]+)*"
)
TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "whitespace": str.split,
    "standard": STANDARD.findall,
    "keyword": lambda text: [text] if text else [],
}
BUILT_IN = {
    "standard": ("standard", ["lowercase"]),
    "whitespace": ("whitespace", []),
    "keyword": ("keyword", []),
}


def analyse(text: str, analyzer: tuple[str, list[str]]) -> list[str]:
    tokenizer, filters = analyzer
    tokens = TOKENIZERS[tokenizer](text)
    if tokenizer != "keyword":  # max_token_length is 255: a longer token is split there
        tokens = [token[i : i + 255] for token in tokens for i in range(0, len(token), 255)]
    return [token.lower() for token in tokens] if "lowercase" in filters else tokens


def lossy_length(length: int) -> int:
    """Lucene's SmallFloat round trip: exact below 40, then four significant bits."""
    if length < 24:
        return length
    shift = max((length - 24).bit_length() - 4, 0)
    return 24 + ((length - 24) >> shift << shift)


# -- mapping ----------------------------------------------------------------------------------------

SHARED = "type index doc_values store fields meta null_value "
NUMBER = SHARED + "coerce ignore_malformed script on_script_error time_series_dimension time_series_metric"
PARAMETERS = {
    "keyword": SHARED + "ignore_above normalizer norms index_options similarity eager_global_ordinals",
    "text": "type index store fields meta analyzer search_analyzer norms index_options similarity term_vector"
    " position_increment_gap fielddata eager_global_ordinals index_phrases index_prefixes",
    **dict.fromkeys(NUMERIC, NUMBER),
    "date": SHARED + "format locale ignore_malformed",
    "boolean": SHARED + "ignore_malformed",
    "dense_vector": "type dims index similarity index_options element_type meta",
    "flattened": "type index doc_values ignore_above depth_limit null_value meta similarity index_options",
    "binary": "type doc_values store meta",
    "object": "type properties dynamic enabled subobjects",
}
ROOT_KEYS = {"properties", "dynamic", "_meta", "runtime", "date_detection", "_source", "_routing"}
SIMILARITIES = ("cosine", "dot_product", "l2_norm", "max_inner_product")


def mapping_error(reason: str) -> EsError:
    return EsError(400, "mapper_parsing_exception", f"Failed to parse mapping: {reason}")


def document_error(path: str, kind: str, error: Exception) -> EsError:
    cause = {"type": "illegal_argument_exception", "reason": str(error)}
    return EsError(
        400,
        "document_parsing_exception",
        f"[1:1] failed to parse field [{path}] of type [{kind}]",
        caused_by=cause,
    )


@dataclass
class Field:
    """A leaf of the mapping; `below` is the key inside a flattened field."""

    path: str
    kind: str
    params: Json
    subfields: list[Field] = field(default_factory=list)

    @property
    def searchable(self) -> bool:
        return bool(self.params.get("index", True) or (self.kind != "text" and self.params.get("doc_values", True)))

    def convert(self, value: Any) -> Any:
        if self.kind in NUMERIC:
            return as_number(self.kind, value)
        if self.kind == "date":
            return parse_date(value)
        if self.kind == "boolean":
            return as_boolean(value)
        text = as_text(value)
        return text.lower() if self.params.get("normalizer") == "lowercase" else text


class Mapping:
    """The mapping as given (`raw`) and as used: leaves and objects by path."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.raw: Json = {}
        self.fields: dict[str, Field] = {}
        self.objects: dict[str, Json] = {}
        self.settings = settings

    def analyzer(self, name: str) -> tuple[str, list[str]]:
        if name in BUILT_IN:
            return BUILT_IN[name]
        prefix = f"analysis.analyzer.{name}."
        own = {key.removeprefix(prefix): value for key, value in self.settings.items() if key.startswith(prefix)}
        tokenizer, filters = own.get("tokenizer"), as_list(own.get("filter", []))
        if own.get("type", "custom") in BUILT_IN:
            return BUILT_IN[own["type"]]
        if tokenizer not in TOKENIZERS or set(filters) - {"lowercase"}:
            raise mapping_error(f"analyzer [{name}] has not been configured in mappings")
        return tokenizer, filters

    def merge(self, update: Json) -> None:
        for key in update:
            if key not in ROOT_KEYS:
                raise mapping_error(f"Root mapping definition has unsupported parameters:  [{key} : {update[key]}]")
        fields, objects = dict(self.fields), dict(self.objects)
        raw = json.loads(json.dumps(self.raw))
        raw.update({key: value for key, value in update.items() if key not in ("properties", "runtime")})
        self._merge_properties(raw, update.get("properties", {}), "", fields, objects)
        for name, definition in update.get("runtime", {}).items():
            if set(definition) - {"type"} or definition.get("type") not in (
                "keyword",
                *NUMERIC,
                "date",
                "boolean",
            ):
                raise mapping_error(f"unknown parameter on runtime field [{name}]: {definition}")
            raw.setdefault("runtime", {})[name] = definition
            fields[name] = Field(name, definition["type"], definition)
        limit = int(self.settings.get("mapping.total_fields.limit", 1000))
        if len(fields) + len(objects) > limit:
            raise illegal(f"Limit of total fields [{limit}] has been exceeded")
        self.raw, self.fields, self.objects = raw, fields, objects

    def _merge_properties(
        self, parent: Json, properties: Json, prefix: str, fields: dict[str, Field], objects: dict[str, Json]
    ) -> None:
        target = parent.setdefault("properties", {}) if properties else {}
        for name, definition in properties.items():
            path = prefix + name
            kind = definition.get("type", "object")
            if kind not in PARAMETERS:
                raise mapping_error(f"No handler for type [{kind}] declared on field [{name}]")
            for key in set(definition) - set(PARAMETERS[kind].split()):
                raise mapping_error(f"unknown parameter [{key}] on mapper [{name}] of type [{kind}]")
            old = "object" if path in objects else fields[path].kind if path in fields else kind
            if old != kind:
                raise illegal(f"mapper [{path}] cannot be changed from type [{old}] to [{kind}]")
            if kind == "object":
                known = target.setdefault(name, {} if "properties" in definition else {"type": "object"})
                known.update({key: value for key, value in definition.items() if key != "properties"})
                objects[path] = known
                self._merge_properties(known, definition.get("properties", {}), path + ".", fields, objects)
                continue
            built = self.build(path, definition)
            for key in ("dims", "similarity", "analyzer", "index", "index_options", "element_type"):
                was, now = fields[path].params.get(key) if path in fields else None, built.params.get(key)
                if path in fields and was is not None and was != now:
                    raise illegal(
                        f"Mapper for [{path}] conflicts with existing mapper:\n"
                        f"\tCannot update parameter [{key}] from [{was}] to [{now}]"
                    )
            target[name] = built.params
            fields[path] = built
            fields.update({sub.path: sub for sub in built.subfields})

    def build(self, path: str, definition: Json) -> Field:
        params = dict(definition)
        kind = params["type"]
        if kind == "text":
            self.analyzer(params.get("analyzer", "standard"))
            self.analyzer(params.get("search_analyzer", "standard"))
        if kind == "dense_vector":
            params.setdefault("index", True)
            dims = params.get("dims")
            if dims is not None and not 1 <= dims <= 4096:
                raise mapping_error(f"The number of dimensions should be in the range [1, 4096] but was [{dims}]")
            if params.get("element_type", "float") != "float":
                raise mapping_error("the stand-in has no element_type but float")
            if params["index"] and params.setdefault("similarity", "cosine") not in SIMILARITIES:
                raise mapping_error(f"Unknown value [{params['similarity']}] for field [similarity]")
            if not params["index"] and "similarity" in params:
                raise mapping_error(
                    "Field [similarity] can only be specified for a [dense_vector] field when it is indexed"
                )
        subfields = [self.build(f"{path}.{name}", inner) for name, inner in params.get("fields", {}).items()]
        return Field(path, kind, params, subfields)

    def resolve(self, path: str) -> Field | None:
        """The leaf at `path`, or the key at `path` inside a flattened field."""
        if path in self.fields:
            return self.fields[path]
        parts = path.split(".")
        for i in range(len(parts) - 1, 0, -1):
            above = self.fields.get(".".join(parts[:i]))
            if above is not None and above.kind == "flattened":
                return Field(path, "flattened", above.params)
        return None

    def vector_paths(self) -> list[str]:
        return [path for path, leaf in self.fields.items() if leaf.kind == "dense_vector"]


@dataclass(eq=False)
class Doc:
    """One version of a document: its source, and what was indexed of it."""

    id: str
    source: Json
    values: dict[str, list[Any]] = field(default_factory=dict)
    tokens: dict[str, list[str]] = field(default_factory=dict)
    vectors: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    seq_no: int = 0
    version: int = 1


class DocumentParser:
    """Turn a source into a `Doc`, collecting the fields that dynamic mapping adds."""

    def __init__(self, mapping: Mapping, doc: Doc) -> None:
        self.mapping, self.doc = mapping, doc
        self.added: Json = {}
        self.added_runtime: Json = {}
        self.new: dict[str, Field] = {}
        for name in METADATA & set(doc.source):
            reason = f"[1:1] Field [{name}] is a metadata field and cannot be added inside a document."
            raise EsError(400, "document_parsing_exception", f"{reason} Use the index API request parameters.")
        self._object(doc.source, "", self.mapping.raw.get("dynamic", True))
        if self.added or self.added_runtime:
            mapping.merge({"properties": self.added, "runtime": self.added_runtime})

    def _object(self, source: Json, prefix: str, dynamic: Any) -> None:
        for key, value in source.items():
            if any(not part.strip() for part in key.split(".")):
                reason = f"[1:1] field name cannot be an empty string or start or end with a dot: [{key}]"
                raise EsError(400, "document_parsing_exception", reason)
            self._place(prefix + key, value, dynamic)

    def _place(self, path: str, value: Any, dynamic: Any) -> None:
        parts = path.split(".")
        for i in range(1, len(parts) + 1):
            above = ".".join(parts[:i])
            if above in self.mapping.objects:
                if self.mapping.objects[above].get("enabled") in (False, "false"):
                    return
                dynamic = self.mapping.objects[above].get("dynamic", dynamic)
            elif i < len(parts) and (above in self.mapping.fields or above in self.new):
                raise document_error(
                    above, "object", ValueError(f"Existing mapping for [{above}] must be of type object")
                )
        leaf = self.mapping.fields.get(path) or self.new.get(path)
        if leaf is not None:
            try:
                self._leaf(leaf, value)
            except (ValueError, OverflowError) as error:
                raise document_error(path, leaf.kind, error) from error
            return
        items = [item for item in flatten(value) if item is not None]
        mapped = path in self.mapping.objects
        if not items and not mapped:
            return
        flag = str(dynamic).lower()
        if not mapped and flag == "strict":
            reason = f"[1:1] {STRICT} [{parts[-1]}] within [_doc] is not allowed"
            raise EsError(400, "strict_dynamic_mapping_exception", reason)
        if not mapped and flag == "false":
            return
        if mapped or isinstance(items[0], dict):
            if not all(isinstance(item, dict) for item in items):
                what = f"[1:1] object mapping for [{path}] tried to parse field [{path}] as object"
                raise EsError(400, "document_parsing_exception", f"{what}, but found a concrete value")
            for item in items:
                self._object(item, path + ".", dynamic)
            return
        definition = self._dynamic(items, value, runtime=flag == "runtime")
        if flag == "runtime":
            self.added_runtime[path] = definition
        else:
            self._add(path, definition)
        self.new[path] = self.mapping.build(path, definition)
        self._place(path, value, dynamic)

    def _add(self, path: str, definition: Json) -> None:
        *above, name = path.split(".")
        target = self.added
        for part in above:
            target = target.setdefault(part, {"properties": {}})["properties"]
        target[name] = definition

    def _dynamic(self, items: list[Any], value: Any, *, runtime: bool) -> Json:
        first = items[0]
        if isinstance(first, bool):
            return {"type": "boolean"}
        if isinstance(first, str):
            if "-" in first and DATE.match(first) and self.mapping.raw.get("date_detection", True):
                return {"type": "date"}
            keyword = {"type": "keyword", "ignore_above": 256}
            return {"type": "keyword"} if runtime else {"type": "text", "fields": {"keyword": keyword}}
        if isinstance(value, list) and 128 <= len(value) <= 4096 and all(isinstance(item, float) for item in value):
            return {"type": "dense_vector", "dims": len(value)}
        if isinstance(first, int):
            return {"type": "long"}
        return {"type": "double" if runtime else "float"}

    def _leaf(self, leaf: Field, value: Any) -> None:
        for sub in leaf.subfields:
            self._leaf(sub, value)
        if leaf.kind == "dense_vector":
            if value is not None:
                self._vector(leaf, value)
        elif leaf.kind == "flattened":
            for item in flatten(value):
                if item is not None and not isinstance(item, dict):
                    raise ValueError("Failed to parse object: expecting token of type [START_OBJECT]")
                self._flattened(leaf, item or {}, leaf.path, 1)
        elif leaf.kind != "binary":
            null = leaf.params.get("null_value")
            for item in flatten(value):
                if item is not None or null is not None:
                    self._value(leaf, leaf.path, leaf.convert(null if item is None else item))

    def _value(self, leaf: Field, path: str, value: Any) -> None:
        if leaf.kind in ("keyword", "flattened"):
            if len(value) > leaf.params.get("ignore_above", LONG_MAX):
                return
            if leaf.searchable and len(value.encode()) > MAX_TERM_BYTES:
                raise ValueError(
                    f'Document contains at least one immense term in field="{path}" '
                    f"(whose UTF8 encoding is longer than the max length {MAX_TERM_BYTES})"
                )
        self.doc.values.setdefault(path, []).append(value)
        if leaf.kind == "text":
            analyzer = self.mapping.analyzer(leaf.params.get("analyzer", "standard"))
            self.doc.tokens.setdefault(path, []).extend(analyse(value, analyzer))

    def _flattened(self, leaf: Field, value: Json, path: str, depth: int) -> None:
        if depth > leaf.params.get("depth_limit", 20):
            raise ValueError(f"The provided [flattened] field [{leaf.path}] exceeds the maximum depth limit of [20].")
        for key, inner in value.items():
            for item in flatten(inner):
                if isinstance(item, dict):
                    self._flattened(leaf, item, f"{path}.{key}", depth + 1)
                elif item is not None:
                    self._value(leaf, leaf.path, as_text(item))
                    self._value(leaf, f"{path}.{key}", as_text(item))

    def _vector(self, leaf: Field, value: Any) -> None:
        if isinstance(value, str):  # base64 of big-endian floats, since 9.3
            raise ValueError("the stand-in takes vectors as arrays of numbers only")
        if leaf.path in self.doc.vectors or any(isinstance(x, bool) or not isinstance(x, int | float) for x in value):
            raise ValueError(
                f"Field [{leaf.path}] of type [dense_vector] holds one array of numbers, got {value!r:.50}"
            )
        if leaf.params.get("dims") is None:
            self._add(leaf.path, {**leaf.params, "dims": len(value)})
        self.doc.vectors[leaf.path] = check_vector(leaf, value, "document")


def check_vector(leaf: Field, value: list[float], what: str) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        vector = np.asarray(value, dtype=np.float32)
    dims = leaf.params.get("dims") or len(value)
    if len(value) != dims:
        if what == "query":
            raise ValueError(
                f"the query vector has a different dimension [{len(value)}] than the index vectors [{dims}]"
            )
        raise ValueError(
            f"The [dense_vector] field [{leaf.path}] has a different number of dimensions [{len(value)}] "
            f"than defined in the mapping [{dims}]"
        )
    if not np.isfinite(vector).all():
        raise ValueError("element_type [float] vectors do not support NaN or infinite values")
    squared = float(vector @ vector)
    preview = f"Preview of invalid vector: {[float(x) for x in vector[:5]]}"
    similarity = leaf.params.get("similarity")
    if similarity == "cosine" and squared == 0:
        raise ValueError(f"The [cosine] similarity does not support vectors with zero magnitude. {preview}")
    if similarity == "dot_product" and abs(squared - 1) > 1e-4:
        raise ValueError(f"The [dot_product] similarity can only be used with unit-length vectors. {preview}")
    return vector


# -- an index: writes, and what a refresh shows -----------------------------------------------------

SETTINGS = re.compile(
    r"(number_of_(shards|replicas)|refresh_interval|codec|hidden|auto_expand_replicas|max_result_window|max_terms_count"
    r"|max_inner_result_window|mapping\.(total_fields\.limit|exclude_source_vectors)|analysis\..+|similarity\..+"
    r"|(translog|merge|blocks|routing|search|sort)\..+)$"
)
BAD_NAME = re.compile(r"[A-Z\\/*?\"<>| ,#:]|^[-_+]|^\.\.?$")


def flat_settings(settings: Json, prefix: str = "") -> Json:
    flat: Json = {}
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            flat.update(flat_settings(value, path + "."))
        else:
            flat[path.removeprefix("index.")] = value
    return flat


class Index:
    def __init__(self, name: str, settings: Json, mappings: Json, *, exclude_vectors: bool) -> None:
        self.name, self.uuid = name, uuid.uuid4().hex[:22]
        self.settings = self.checked(settings)
        self.mapping = Mapping(self.settings)
        self.mapping.merge(mappings)
        own = str(self.settings.get("mapping.exclude_source_vectors", exclude_vectors)).lower()
        self.exclude_vectors = own == "true"
        self.docs: dict[str, Doc] = {}
        self.tombstones: dict[str, int] = {}
        self.next_seq_no = 0
        self.reader = Reader(self, [])

    @staticmethod
    def checked(settings: Json) -> Json:
        flat = flat_settings(settings)
        for key in flat:
            if not SETTINGS.match(key):
                raise illegal(f"unknown setting [index.{key}] please check that any required plugins are installed")
        return flat

    def refresh(self) -> None:
        if self.reader.state != self.next_seq_no or self.reader.fields is not self.mapping.fields:
            self.reader = Reader(self, list(self.docs.values()))

    def conflict(self, doc_id: str, reason: str) -> EsError:
        about = {"index_uuid": self.uuid, "shard": "0", "index": self.name}
        what = f"[{doc_id}]: version conflict, {reason}"
        return EsError(409, "version_conflict_engine_exception", what, about=about)

    def check_seq_no(self, doc_id: str, options: Json) -> None:
        if options.get("if_seq_no") is None:
            return
        wanted, term = int(options["if_seq_no"]), int(options.get("if_primary_term") or 0)
        if term < 1:
            raise invalid("ifSeqNo is set, but primary term is [0]")
        now = self.docs.get(doc_id)
        if now is None or (now.seq_no, 1) != (wanted, term):
            found = (
                "but no document was found"
                if now is None
                else f"current document has seqNo [{now.seq_no}] and primary term [1]"
            )
            raise self.conflict(doc_id, f"required seqNo [{wanted}], primary term [{term}]. {found}")

    def written(self, doc_id: str, version: int, result: str, status: int) -> Json:
        seq_no, self.next_seq_no = self.next_seq_no, self.next_seq_no + 1
        copies = int(self.settings.get("number_of_replicas", 1)) + 1
        shards = {"total": copies, "successful": 1, "failed": 0}
        answer = {
            "_index": self.name,
            "_id": doc_id,
            "_version": version,
            "result": result,
            "_shards": shards,
        }
        return {**answer, "_seq_no": seq_no, "_primary_term": 1, "status": status}

    def put(self, doc_id: str, source: Json, options: Json, *, create: bool = False) -> Json:
        now = self.docs.get(doc_id)
        if create and now is not None:
            raise self.conflict(doc_id, f"document already exists (current version [{now.version}])")
        self.check_seq_no(doc_id, options)
        doc = Doc(doc_id, source, seq_no=self.next_seq_no)
        DocumentParser(self.mapping, doc)
        doc.version = (now.version if now else self.tombstones.pop(doc_id, 0)) + 1
        self.docs.pop(doc_id, None)  # a new version is a new Lucene document, last in index order
        self.docs[doc_id] = doc
        return self.written(doc_id, doc.version, "updated" if now else "created", 200 if now else 201)

    def delete(self, doc_id: str, options: Json) -> Json:
        self.check_seq_no(doc_id, options)
        now = self.docs.pop(doc_id, None)
        version = (now.version if now else self.tombstones.get(doc_id, 0)) + 1
        self.tombstones[doc_id] = version
        return self.written(doc_id, version, "deleted" if now else "not_found", 200 if now else 404)

    def update(self, doc_id: str, body: Json, options: Json) -> Json:
        for key in set(body) - {"doc", "doc_as_upsert", "upsert", "detect_noop", "_source"}:
            raise EsError(400, "x_content_parse_exception", f"[1:2] [UpdateRequest] unknown field [{key}]")
        now = self.docs.get(doc_id)
        self.check_seq_no(doc_id, options)
        if now is None:
            first = body.get("doc") if body.get("doc_as_upsert") else body.get("upsert")
            if first is None:
                about = {"index_uuid": self.uuid, "shard": "0", "index": self.name}
                raise EsError(404, "document_missing_exception", f"[{doc_id}]: document missing", about=about)
            return self.put(doc_id, first, {})
        merged = merge_source(now.source, body.get("doc", {}))
        if merged == now.source and body.get("detect_noop", True):
            answer = {"_index": self.name, "_id": doc_id, "_version": now.version, "result": "noop"}
            shards = {"total": 0, "successful": 0, "failed": 0}
            return {**answer, "_shards": shards, "_seq_no": now.seq_no, "_primary_term": 1, "status": 200}
        return self.put(doc_id, merged, {})

    def source_of(self, doc: Doc, wanted: Any, params: Json) -> Json | None:
        """The `_source` that a request asks for, or None."""
        includes, excludes = params.get("_source_includes"), params.get("_source_excludes")
        vectors = self.exclude_vectors
        if isinstance(wanted, dict):
            known = {"includes", "include", "excludes", "exclude"} | (
                {"exclude_vectors"} if vectors_flag(params) else set()
            )
            for key in set(wanted) - known:
                raise parsing(f"Unknown key for a VALUE in [{key}].")
            includes = wanted.get("includes", wanted.get("include"))
            excludes = wanted.get("excludes", wanted.get("exclude"))
            vectors = wanted.get("exclude_vectors", vectors)
        elif str(wanted).lower() == "false":
            return None
        elif isinstance(wanted, str | list) and str(wanted).lower() not in ("true", ""):
            includes = wanted
        if "_source_exclude_vectors" in params:
            vectors = params["_source_exclude_vectors"] != "false"
        split = [p if isinstance(p, list) else p.split(",") if p else [] for p in (includes, excludes)]
        hidden = self.mapping.vector_paths() if vectors else []
        if not any(split) and not hidden:
            return doc.source
        filtered: Json = filter_source(doc.source, split[0], split[1] + hidden)
        return filtered


def vectors_flag(params: Json) -> bool:
    """Whether this version knows `_source.exclude_vectors` (the server puts the answer among the params)."""
    return bool(params.get(" exclude_vectors", True))


def merge_source(old: Json, new: Json) -> Json:
    merged = dict(old)
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(old.get(key), dict)
        merged[key] = merge_source(old[key], value) if both else value
    return merged


# -- reading: columns of one refresh, and the queries over them ---------------------------------------


@dataclass
class TextColumn:
    postings: dict[str, tuple[npt.NDArray[np.int64], Scores]]
    lengths: Scores
    documents: int


class Reader:
    """The documents of one refresh in index order; a later write does not change them."""

    lossy_lengths = False

    def __init__(self, index: Index, docs: list[Doc]) -> None:
        self.index, self.docs, self.n = index, docs, len(docs)
        self.state, self.fields = index.next_seq_no, index.mapping.fields
        self._inverted: dict[str, dict[Any, list[int]]] = {}
        self._text: dict[str, TextColumn] = {}
        self._holders: dict[str, int] = {}
        self._vectors: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]] = {}

    def nothing(self) -> Match:
        return np.zeros(self.n, dtype=bool), np.zeros(self.n)

    def everything(self, score: float = 1.0) -> Match:
        return np.ones(self.n, dtype=bool), np.full(self.n, score)

    def constant(self, places: Iterable[int], score: float) -> Match:
        mask, scores = self.nothing()
        chosen = list(places)
        mask[chosen], scores[chosen] = True, score
        return mask, scores

    @cached_property
    def by_id(self) -> dict[str, int]:
        return {doc.id: place for place, doc in enumerate(self.docs)}

    def inverted(self, path: str) -> dict[Any, list[int]]:
        if path not in self._inverted:
            lists: dict[Any, list[int]] = {}
            for place, doc in enumerate(self.docs):
                for value in set(doc.values.get(path, ())):
                    lists.setdefault(value, []).append(place)
            self._inverted[path] = lists
        return self._inverted[path]

    def holders(self, path: str) -> int:
        """How many documents have a value at `path`."""
        if path not in self._holders:
            self._holders[path] = sum(path in doc.values for doc in self.docs)
        return self._holders[path]

    def text(self, path: str) -> TextColumn:
        if path not in self._text:
            lengths = np.zeros(self.n)
            lists: dict[str, tuple[list[int], list[int]]] = {}
            documents = 0
            for place, doc in enumerate(self.docs):
                tokens = doc.tokens.get(path)
                documents += bool(tokens)
                lengths[place] = len(tokens or ())
                for token, count in Counter(tokens or ()).items():
                    places, counts = lists.setdefault(token, ([], []))
                    places.append(place)
                    counts.append(count)
            packed = {token: (np.array(p), np.array(c, dtype=float)) for token, (p, c) in lists.items()}
            self._text[path] = TextColumn(packed, lengths, documents)
        return self._text[path]

    def leaf(self, path: str) -> Field | None:
        found = self.index.mapping.resolve(path)
        if found is not None and not found.searchable:
            what = f"Cannot search on field [{path}] since it is not indexed nor has doc values."
            reason = f"failed to create query: {what}"
            raise EsError(400, "query_shard_exception", reason, shard=True, index=self.index.name)
        return found

    def bm25(self, leaf: Field, token: str) -> Match:
        """The scores of one term; see the module's docstring for the formula."""
        column = self.text(leaf.path)
        mask, scores = self.nothing()
        if token not in column.postings:
            return mask, scores
        places, counts = column.postings[token]
        mask[places] = True
        name = leaf.params.get("similarity", "default")
        k1 = float(self.index.settings.get(f"similarity.{name}.k1", 1.2))
        b = float(self.index.settings.get(f"similarity.{name}.b", 0.75))
        if name == "boolean":
            scores[places] = 1.0
            return mask, scores
        if leaf.params.get("norms") is False:
            b = 0.0
        if leaf.params.get("index_options") == "docs":
            counts = np.ones_like(counts)
        lengths = column.lengths[places]
        average = column.lengths.sum() / column.documents
        if self.lossy_lengths:
            lengths = np.array([lossy_length(int(length)) for length in lengths], dtype=float)
        idf = math.log(1 + (column.documents - len(places) + 0.5) / (len(places) + 0.5))
        scores[places] = (k1 + 1) * idf * counts / (counts + k1 * (1 - b + b * lengths / average))
        return mask, scores

    def term(self, leaf: Field | None, value: Any) -> Match:
        if leaf is None:
            return self.nothing()
        if isinstance(value, dict | list) or value is None:
            raise parsing(f"[term] query does not support a value of [{value}]")
        if leaf.kind == "text":
            return self.bm25(leaf, as_text(value))
        if leaf.kind in ("dense_vector", "binary"):
            raise illegal(f"Field [{leaf.path}] of type [{leaf.kind}] does not support term queries", shard=True)
        if leaf.kind == "date":
            return self.range(leaf, {"gte": value, "lte": value})
        try:
            if leaf.kind in INTEGERS and isinstance(value, float) and not value.is_integer():
                return self.nothing()
            wanted = as_text(value) if leaf.kind == "flattened" else leaf.convert(value)
        except ValueError as error:
            if leaf.kind in INTEGERS and "out of range" in str(error):
                return self.nothing()
            raise self.unreadable(error) from error
        places = self.inverted(leaf.path).get(wanted, [])
        score = 1.0
        if leaf.kind in ("keyword", "flattened") and places:  # no norms, frequency 1: what is left is the idf
            documents = self.holders(leaf.path)
            score = math.log(1 + (documents - len(places) + 0.5) / (len(places) + 0.5))
        return self.constant(places, score)

    def unreadable(self, error: Exception) -> EsError:
        reason = f"failed to create query: {error}"
        return EsError(400, "query_shard_exception", reason, shard=True, index=self.index.name)

    def range(self, leaf: Field, bounds: Json) -> Match:
        if leaf.kind in ("dense_vector", "binary"):
            raise illegal(f"Field [{leaf.path}] of type [{leaf.kind}] does not support range queries", shard=True)
        tests: list[Callable[[Any], bool]] = []
        for name, bound in bounds.items():
            if bound is None:
                continue
            try:
                edge: Any
                if leaf.kind == "date":
                    edge = parse_date(bound, round_up=name in ("gt", "lte"))
                elif leaf.kind in NUMERIC:
                    edge = float(bound) if isinstance(bound, str) else as_number("double", bound)
                    edge = bound if isinstance(bound, int) else edge
                else:
                    edge = as_text(bound) if leaf.kind in ("text", "flattened") else leaf.convert(bound)
            except (ValueError, OverflowError) as error:
                raise self.unreadable(error) from error
            tests.append(COMPARE[name](edge))
        terms: dict[Any, Any] = self.inverted(leaf.path)
        if leaf.kind == "text":
            terms = {token: places for token, (places, _) in self.text(leaf.path).postings.items()}
        hits = [place for value, places in terms.items() if all(test(value) for test in tests) for place in places]
        return self.constant(hits, 1.0)

    def exists(self, path: str) -> Mask:
        below = path + "."
        leaves = [p for p in self.fields if p == path or p.startswith(below)]
        leaves = leaves if leaves or self.index.mapping.resolve(path) is None else [path]
        return np.fromiter((any(p in d.values or p in d.vectors for p in leaves) for d in self.docs), bool, self.n)

    def vectors(self, path: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        if path not in self._vectors:
            places = [place for place, doc in enumerate(self.docs) if path in doc.vectors]
            rows = [self.docs[place].vectors[path] for place in places]
            self._vectors[path] = np.array(places, dtype=np.int64), np.array(rows, dtype=np.float32)
        return self._vectors[path]

    # The Query DSL: one method per query type, named `query_<type>`.

    def match(self, query: Any, size: int = 10) -> Match:
        if not isinstance(query, dict) or len(query) != 1:
            raise parsing(
                "query malformed, empty clause found" if query == {} else f"[_na] query malformed: {query!r:.80}"
            )
        ((kind, body),) = query.items()
        method = getattr(self, f"query_{kind}", None)
        if method is None:
            cause = {"type": "named_object_not_found_exception", "reason": f"[1:1] unknown field [{kind}]"}
            raise parsing(f"unknown query [{kind}]", caused_by=cause)
        if not isinstance(body, dict):
            raise parsing(f"[{kind}] query malformed, no start_object after query name")
        if kind == "knn":
            return knn_matches([self], body, size)[0]
        mask, scores = method(body)
        return mask, scores * mask

    def options(self, kind: str, body: Json, allowed: str) -> float:
        """Refuse unknown options; return the boost."""
        for key in set(body) - {"boost", "_name", *allowed.split()}:
            raise parsing(f"[{kind}] query does not support [{key}]")
        boost = float(body.get("boost", 1.0))
        if boost < 0:
            raise illegal(f"negative [boost] are not allowed in [{kind}], use a value between 0 and 1 to deboost")
        return boost

    def one_field(self, kind: str, body: Json, allowed: str, short: str | None) -> tuple[str, Json, float]:
        fields = [key for key in body if key not in ("boost", "_name")]
        if len(fields) != 1:
            found = " and ".join(f"[{name}]" for name in fields)
            raise parsing(f"[{kind}] query doesn't support multiple fields, found {found}")
        inner = body[fields[0]]
        if not isinstance(inner, dict):
            if short is None:
                raise parsing(f"[{kind}] query does not support [{fields[0]}]")
            inner = {short: inner}
        return fields[0], inner, self.options(kind, inner, allowed) * float(body.get("boost", 1.0))

    def query_match_all(self, body: Json) -> Match:
        return self.everything(self.options("match_all", body, ""))

    def query_match_none(self, body: Json) -> Match:
        self.options("match_none", body, "")
        return self.nothing()

    def query_ids(self, body: Json) -> Match:
        boost = self.options("ids", body, "values")
        if "values" not in body:
            raise parsing("[ids] requires providing a list of values")
        return self.constant((self.by_id[i] for i in set(map(str, as_list(body["values"]))) & set(self.by_id)), boost)

    def query_exists(self, body: Json) -> Match:
        boost = self.options("exists", body, "field")
        if "field" not in body:
            raise parsing("[exists] must be provided with a [field]")
        mask = self.exists(body["field"])
        return mask, mask * boost

    def query_term(self, body: Json) -> Match:
        path, inner, boost = self.one_field("term", body, "value", "value")
        if path == "_id":
            return self.query_ids({"values": [inner.get("value")], "boost": boost})
        mask, scores = self.term(self.leaf(path), inner.get("value"))
        return mask, scores * boost

    def query_terms(self, body: Json) -> Match:
        boost = self.options("terms", {k: v for k, v in body.items() if k in ("boost", "_name")}, "")
        fields = [key for key in body if key not in ("boost", "_name")]
        if len(fields) != 1 or not isinstance(body[fields[0]], list):
            raise parsing("[terms] query requires one field with an array of terms")
        limit = int(self.index.settings.get("max_terms_count", 65536))
        if len(body[fields[0]]) > limit:
            raise illegal(
                f"The number of terms [{len(body[fields[0]])}] used in the Terms Query request has exceeded "
                f"the allowed maximum of [{limit}].",
                shard=True,
            )
        if fields[0] == "_id":
            return self.query_ids({"values": body["_id"], "boost": boost})
        leaf, mask = self.leaf(fields[0]), self.nothing()[0]
        for value in body[fields[0]]:
            if value is None:
                raise illegal("No value specified for terms query", shard=True)
            mask |= self.term(leaf, value)[0]
        return mask, mask * boost

    def query_range(self, body: Json) -> Match:
        path, inner, boost = self.one_field("range", body, "gt gte lt lte", None)
        leaf = self.leaf(path)
        if leaf is None:
            return self.nothing()
        mask, scores = self.range(leaf, {key: value for key, value in inner.items() if key in COMPARE})
        return mask, scores * boost

    def query_match(self, body: Json) -> Match:
        path, inner, boost = self.one_field(
            "match", body, "query operator minimum_should_match zero_terms_query", "query"
        )
        leaf = self.leaf(path)
        if inner.get("query") is None:
            raise parsing("No text specified for text query")
        operator = str(inner.get("operator", "or")).lower()
        if operator not in ("or", "and"):
            raise illegal(f"No enum constant org.elasticsearch.index.query.Operator.{operator.upper()}")
        if leaf is None or leaf.kind != "text":
            mask, scores = self.term(leaf, inner["query"])
            return mask, scores * boost
        name: str = leaf.params.get("search_analyzer") or leaf.params.get("analyzer", "standard")
        tokens = analyse(as_text(inner["query"]), self.index.mapping.analyzer(name))
        if not tokens:
            return self.everything(boost) if inner.get("zero_terms_query") == "all" else self.nothing()
        parts = [self.bm25(leaf, token) for token in tokens]
        default = len(tokens) if operator == "and" else 1
        least = minimum_should_match(inner.get("minimum_should_match", default), len(tokens))
        matched = np.sum([mask for mask, _ in parts], axis=0)
        return matched >= max(least, 1), np.sum([scores for _, scores in parts], axis=0) * boost

    def query_bool(self, body: Json) -> Match:
        boost = self.options("bool", body, "must should filter must_not minimum_should_match")
        clauses = {name: as_list(body.get(name, [])) for name in ("must", "should", "filter", "must_not")}
        mask, scores = self.everything(0.0)
        if not any(clauses.values()):
            return self.everything(boost)
        for query in clauses["must"]:
            inner, added = self.match(query)
            mask, scores = mask & inner, scores + added
        for query in clauses["filter"]:
            mask = mask & self.match(query)[0]
        for query in clauses["must_not"]:
            mask = mask & ~self.match(query)[0]
        if clauses["should"]:
            parts = [self.match(query) for query in clauses["should"]]
            default = 0 if clauses["must"] or clauses["filter"] else 1
            least = minimum_should_match(body.get("minimum_should_match", default), len(parts))
            mask = mask & (np.sum([inner for inner, _ in parts], axis=0) >= least)
            scores = scores + np.sum([added for _, added in parts], axis=0)
        return mask, scores * boost

    def query_constant_score(self, body: Json) -> Match:
        boost = self.options("constant_score", body, "filter")
        if "filter" not in body:
            raise parsing("[constant_score] requires a 'filter' element")
        mask = self.match(body["filter"])[0]
        return mask, mask * boost

    def query_script_score(self, body: Json) -> Match:
        boost = self.options("script_score", body, "query script min_score")
        if "query" not in body or "script" not in body:
            raise parsing("script_score requires 'query' and 'script'")
        mask, inner = self.match(body["query"])
        scores = Script(self, body["script"]).run(mask, inner)
        wrong = mask & ((scores < 0) | np.isnan(scores))
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            reason = f"script_score script returned an invalid score [{scores[place]}] for doc [{place}]."
            raise illegal(f"{reason} Must be a non-negative score!", shard=True)
        if "min_score" in body:
            mask = mask & (scores >= body["min_score"])
        return mask, scores * boost

    def query_knn(self, body: Json) -> Match:
        raise NotImplementedError("match() sends knn to knn_matches")


COMPARE: dict[str, Callable[[Any], Callable[[Any], bool]]] = {
    "gt": lambda edge: lambda value: bool(value > edge),
    "gte": lambda edge: lambda value: bool(value >= edge),
    "lt": lambda edge: lambda value: bool(value < edge),
    "lte": lambda edge: lambda value: bool(value <= edge),
}


def minimum_should_match(spec: Any, clauses: int) -> int:
    """An integer or a percentage, negative ones counted from all clauses."""
    if re.fullmatch(r"-?\d+%", str(spec)):
        share = int(clauses * abs(int(str(spec)[:-1])) / 100)
        return clauses - share if str(spec).startswith("-") else share
    try:
        number = int(spec)
    except ValueError as error:
        raise illegal(f"the stand-in does not read minimum_should_match [{spec}]") from error
    return clauses + number if number < 0 else number


class Script:
    """`cosineSimilarity(params.v, 'field')` and `dotProduct(...)` in an arithmetic expression."""

    CALL = re.compile(r"(cosineSimilarity|dotProduct)\(\s*params\.(\w+)\s*,\s*'([^']+)'\s*\)")

    def __init__(self, reader: Reader, script: Any) -> None:
        script = {"source": script} if isinstance(script, str) else script
        for key in set(script) - {"source", "params", "lang"}:
            raise parsing(f"[script] unknown field [{key}]")
        self.reader, self.params = reader, script.get("params", {})
        self.calls: list[tuple[str, str, str]] = []
        text = self.CALL.sub(self._call, script["source"].strip().removeprefix("return ").rstrip("; "))
        try:
            self.tree = ast.parse(re.sub(r"params\.(\w+)", r"params_\1", text), mode="eval").body
        except SyntaxError as error:
            raise EsError(400, "script_exception", f"compile error: {script['source']}", shard=True) from error

    def _call(self, match: re.Match[str]) -> str:
        self.calls.append((match[1], match[2], match[3]))
        return f"call_{len(self.calls) - 1}"

    def run(self, mask: Mask, inner: Scores) -> Scores:
        names: dict[str, Any] = {"_score": inner}
        names.update({f"params_{key}": value for key, value in self.params.items()})
        for number, call in enumerate(self.calls):
            names[f"call_{number}"] = self._similarity(mask, *call)
        scores = self._evaluate(self.tree, names)
        return np.broadcast_to(np.asarray(scores, dtype=float), (self.reader.n,)).copy()

    def _similarity(self, mask: Mask, function: str, param: str, path: str) -> Scores:
        leaf = self.reader.index.mapping.resolve(path)
        if leaf is None or leaf.kind != "dense_vector":
            raise EsError(400, "script_exception", f"runtime error: No field found for [{path}] in mapping", shard=True)
        query = np.asarray(self.params[param], dtype=np.float32)
        places, rows = self.reader.vectors(path)
        scores = np.zeros(self.reader.n)
        missing = mask.copy()
        missing[places] = False
        if missing.any():
            raise illegal("A document doesn't have a value for a vector field!", shard=True)
        if len(places):
            if rows.shape[1] != len(query):
                reason = f"The query vector has a different number of dimensions [{len(query)}]"
                raise illegal(f"{reason} than the document vectors [{rows.shape[1]}].", shard=True)
            scores[places] = rows @ query
            if function == "cosineSimilarity":
                scores[places] /= np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
        return scores

    def _evaluate(self, node: ast.expr, names: dict[str, Any]) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._evaluate(node.operand, names)
        if isinstance(node, ast.BinOp):
            left, right = self._evaluate(node.left, names), self._evaluate(node.right, names)
            for kind, apply in (
                (ast.Add, np.add),
                (ast.Sub, np.subtract),
                (ast.Mult, np.multiply),
                (ast.Div, np.divide),
            ):
                if isinstance(node.op, kind):
                    return apply(left, right)
        raise EsError(400, "script_exception", "compile error: the stand-in knows only vector functions", shard=True)


def knn_matches(readers: list[Reader], spec: Json, size: int) -> list[Match]:
    """The k nearest over all readers, as a match in each; `similarity` is a bound on the raw similarity."""
    known = {
        "field",
        "query_vector",
        "k",
        "num_candidates",
        "filter",
        "boost",
        "similarity",
        "_name",
        "rescore_vector",
    }
    for key in set(spec) - known:
        raise EsError(400, "x_content_parse_exception", f"[1:1] [knn] unknown field [{key}]")
    for key in ("field", "query_vector"):
        if key not in spec:
            raise illegal(f"[knn] requires [{key}]")
    k = spec.get("k", size)
    candidates = spec.get("num_candidates", min(round(1.5 * k), 10_000))
    if k < 1:
        raise illegal("[k] must be greater than 0")
    if candidates < k:
        raise illegal("[num_candidates] cannot be less than [k]")
    if candidates > 10_000:
        raise illegal("[num_candidates] cannot exceed [10000]")
    found: list[tuple[float, int, int]] = []
    for number, reader in enumerate(readers):
        places, scores = knn_scores(reader, spec)
        found += [(-score, number, place) for place, score in zip(places.tolist(), scores.tolist(), strict=True)]
    matches = [reader.nothing() for reader in readers]
    for negative, number, place in sorted(found)[:k]:
        matches[number][0][place] = True
        matches[number][1][place] = -negative * spec.get("boost", 1.0)
    return matches


def knn_scores(reader: Reader, spec: Json) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    path = spec["field"]
    leaf = reader.index.mapping.resolve(path)
    if leaf is None:
        reason = f"failed to create query: field [{path}] does not exist in the mapping"
        raise EsError(400, "query_shard_exception", reason, shard=True, index=reader.index.name)
    if leaf.kind != "dense_vector":
        raise illegal(f"[knn] queries are only supported on [dense_vector] fields, not on [{leaf.kind}]", shard=True)
    if not leaf.params["index"]:
        raise illegal(
            f"to perform knn search on field [{path}], its mapping must have [index] set to [true]",
            shard=True,
        )
    try:
        query = check_vector(leaf, spec["query_vector"], "query")
    except ValueError as error:
        raise illegal(str(error), shard=True) from error
    allowed = reader.everything()[0]
    for inner in as_list(spec.get("filter", [])):
        allowed = allowed & reader.match(inner)[0]
    places, rows = reader.vectors(path)
    keep = allowed[places]
    places, rows = places[keep], rows[keep]
    if not len(places):
        return places, np.zeros(0, dtype=np.float32)
    kind = leaf.params["similarity"]
    if kind == "l2_norm":
        raw = np.linalg.norm(rows - query, axis=1)
        scores = 1 / (1 + raw**2)
    else:
        raw = rows @ query
        if kind == "cosine":
            raw = np.clip(raw / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query)), -1, 1)
        scores = (1 + raw) / 2
        if kind == "max_inner_product":
            scores = np.where(raw < 0, 1 / (1 - np.minimum(raw, 0)), raw + 1)
    if "similarity" in spec:
        close = raw <= spec["similarity"] if kind == "l2_norm" else raw >= spec["similarity"]
        places, scores = places[close], scores[close]
    return places, scores.astype(np.float32)


# -- search ---------------------------------------------------------------------------------------------


@dataclass
class Hit:
    reader: Reader
    place: int
    score: float
    shard_doc: int

    @property
    def doc(self) -> Doc:
        return self.reader.docs[self.place]


@dataclass(frozen=True)
class SortKey:
    field: str
    descending: bool
    missing: Any
    mode: str

    def of(self, hit: Hit) -> tuple[int, Any]:
        """(rank, value): the rank puts a missing value first or last."""
        values: list[Any] = []
        if self.field == "_score":
            values = [hit.score]
        elif self.field in ("_doc", "_shard_doc"):
            values = [hit.shard_doc]
        elif self.field in hit.reader.fields or hit.reader.index.mapping.resolve(self.field):
            values = [int(v) if isinstance(v, bool) else v for v in hit.doc.values.get(self.field, [])]
        if values:
            return 0, (max if self.mode == "max" else min)(values)
        if self.missing not in ("_last", "_first"):
            return 0, self.missing
        return (1 if (self.missing == "_last") != self.descending else -1), None

    def rank(self, hit: Hit) -> tuple[int, Any]:
        rank, value = self.of(hit)
        return rank, value if rank == 0 else 0

    def shown(self, hit: Hit) -> Any:
        rank, value = self.of(hit)
        leaf = hit.reader.index.mapping.resolve(self.field)
        if rank and leaf is not None and leaf.kind in (*INTEGERS, "date", "boolean"):
            return LONG_MAX if rank == 1 else -LONG_MAX - 1
        if rank and leaf is not None and leaf.kind in FLOATS:
            return "Infinity" if rank == 1 else "-Infinity"
        return value

    def read(self, value: Any, leaf: Field | None) -> tuple[int, Any]:
        """The opposite of `shown`, for search_after."""
        if value is None or value in (LONG_MAX, -LONG_MAX - 1, "Infinity", "-Infinity"):
            return (1 if (self.missing == "_last") != self.descending else -1), None
        return 0, parse_date(value) if leaf is not None and leaf.kind == "date" else value


def compare(one: tuple[int, Any], two: tuple[int, Any]) -> int:
    if one[0] != two[0] or one[0] != 0:
        return (one[0] > two[0]) - (one[0] < two[0])
    return int(one[1] > two[1]) - int(one[1] < two[1])


def sort_keys(spec: Any, readers: list[Reader]) -> list[SortKey]:
    keys: list[SortKey] = []
    for item in as_list(spec):
        ((name, options),) = (item if isinstance(item, dict) else {item: {}}).items()
        options = {"order": options} if isinstance(options, str) else options
        for key in set(options) - {"order", "missing", "mode", "unmapped_type", "format", "numeric_type"}:
            raise parsing(f"[field_sort] unknown field [{key}]")
        order = options.get("order", "desc" if name == "_score" else "asc")
        if order not in ("asc", "desc"):
            raise illegal(f"No enum constant org.elasticsearch.search.sort.SortOrder.{order}")
        if name == "_id":
            raise illegal(
                "Fielddata access on the _id field is disallowed, you can re-enable it by updating the "
                "dynamic cluster setting: indices.id_field_data.enabled",
                shard=True,
            )
        for reader in readers if not name.startswith("_") else []:
            aggregatable(reader, name, "sort on", unmapped="unmapped_type" in options)
        mode = options.get("mode", "max" if order == "desc" else "min")
        keys.append(SortKey(name, order == "desc", options.get("missing", "_last"), mode))
    return keys


def aggregatable(reader: Reader, path: str, what: str, *, unmapped: bool) -> Field | None:
    leaf = reader.index.mapping.resolve(path)
    if leaf is None and not unmapped:
        reason = f"No mapping found for [{path}] in order to {what}"
        raise EsError(400, "query_shard_exception", reason, shard=True, index=reader.index.name)
    if leaf is not None and (leaf.kind in ("text", "dense_vector", "binary") or leaf.params.get("doc_values") is False):
        raise illegal(
            f"Fielddata is disabled on [{path}] in [{reader.index.name}]. Fields of type [{leaf.kind}] are "
            "not optimised for operations that require per-document field data like aggregations and sorting",
            shard=True,
        )
    return leaf


SEARCH_KEYS = (
    "query knn size from sort search_after pit _source fields aggs aggregations track_total_hits track_scores"
    " min_score timeout version seq_no_primary_term"
)


class Search:
    """One search over the refreshed documents of some indices."""

    def __init__(self, readers: list[Reader], body: Json, params: Json) -> None:
        for key in set(body) - set(SEARCH_KEYS.split()):
            shape = {dict: "START_OBJECT", list: "START_ARRAY", str: "VALUE_STRING", bool: "VALUE_BOOLEAN"}
            raise parsing(f"Unknown key for a {shape.get(type(body[key]), 'VALUE_NUMBER')} in [{key}].")
        self.readers, self.body, self.params = readers, body, params
        self.size = int(params.get("size") or body.get("size", 10))
        self.start = int(params.get("from") or body.get("from", 0))
        if self.size < 0 or self.start < 0:
            raise illegal(f"[size] parameter cannot be negative, found [{min(self.size, self.start)}]")
        for reader in readers:
            window = int(reader.index.settings.get("max_result_window", 10_000))
            if self.size + self.start > window:
                raise illegal(
                    f"Result window is too large, from + size must be less than or equal to: [{window}] but "
                    f"was [{self.size + self.start}]. See the scroll api for a more efficient way.",
                    shard=True,
                )
        self.sort = sort_keys(body.get("sort", []), readers)
        if "pit" not in body and any(key.field == "_shard_doc" for key in self.sort):
            raise invalid("[_shard_doc] sort field cannot be used without [point in time]")
        if "pit" in body and self.sort and all(key.field != "_shard_doc" for key in self.sort):
            self.sort.append(SortKey("_shard_doc", False, "_last", "min"))

    def run(self) -> Json:
        hits = self.matched()
        if "min_score" in self.body:
            hits = [hit for hit in hits if hit.score >= self.body["min_score"]]
        total = len(hits)
        best = max((hit.score for hit in hits), default=None)
        aggs = self.body.get("aggs", self.body.get("aggregations", {}))
        made = Aggregations(self).run(aggs, hits) if aggs else None
        shown = self.page(hits)
        scored = not self.sort or any(key.field == "_score" for key in self.sort) or self.body.get("track_scores")
        answer: Json = {"max_score": best if scored and self.size else None}
        answer["hits"] = [self.render(hit, scored=bool(scored)) for hit in shown]
        track = self.params.get("track_total_hits", self.body.get("track_total_hits", 10_000))
        limit = {"true": total, "false": None}.get(str(track).lower(), track)
        if limit is not None:
            capped = total > int(limit)
            answer["total"] = {
                "value": int(limit) if capped else total,
                "relation": "gte" if capped else "eq",
            }
        shards = {"total": len(self.readers), "successful": len(self.readers), "skipped": 0, "failed": 0}
        result: Json = {"took": 1, "timed_out": False, "_shards": shards, "hits": answer}
        return result if made is None else {**result, "aggregations": made}

    def matched(self) -> list[Hit]:
        specs = as_list(self.body.get("knn", []))
        combined = [reader.nothing() for reader in self.readers]
        if "query" in self.body or not specs:
            query = self.body.get("query", {"match_all": {}})
            combined = [reader.match(query, self.size) for reader in self.readers]
        for spec in specs:
            found = knn_matches(self.readers, spec, self.size)
            combined = [(a[0] | b[0], a[1] + b[1]) for a, b in zip(combined, found, strict=True)]
        return [
            # 32 bits, printed short as Java does
            Hit(reader, place, float(str(np.float32(scores[place]))), (number << 32) + place)
            for number, (reader, (mask, scores)) in enumerate(zip(self.readers, combined, strict=True))
            for place in np.flatnonzero(mask).tolist()
        ]

    def page(self, hits: list[Hit]) -> list[Hit]:
        hits = self.ordered(hits, self.sort)
        after = self.body.get("search_after")
        if after is not None:
            if not self.sort:
                raise illegal("Sort must contain at least one field.", shard=True)
            if self.start:
                raise invalid("`from` parameter must be set to 0 when `search_after` is used")
            if len(after) != len(self.sort):
                raise illegal(f"search_after has {len(after)} value(s) but sort has {len(self.sort)}.", shard=True)
            hits = [hit for hit in hits if self.is_after(hit, after)]
        return hits[self.start : self.start + self.size]

    @staticmethod
    def ordered(hits: list[Hit], keys: list[SortKey]) -> list[Hit]:
        """By the keys, without any by score; ties stay in index order."""
        if not keys:
            return sorted(hits, key=lambda hit: -hit.score)
        for key in reversed(keys):
            hits = sorted(hits, key=key.rank, reverse=key.descending)
        return hits

    def is_after(self, hit: Hit, after: list[Any]) -> bool:
        for key, value in zip(self.sort, after, strict=True):
            order = compare(key.of(hit), key.read(value, hit.reader.index.mapping.resolve(key.field)))
            if order:
                return (order < 0) if key.descending else (order > 0)
        return False

    def render(self, hit: Hit, *, scored: bool, wanted: Any = None) -> Json:
        index, doc = hit.reader.index, hit.doc
        shown: Json = {"_index": index.name, "_id": doc.id, "_score": hit.score if scored else None}
        if self.body.get("version"):
            shown["_version"] = doc.version
        if self.body.get("seq_no_primary_term"):
            shown.update({"_seq_no": doc.seq_no, "_primary_term": 1})
        spec = wanted if wanted is not None else self.body.get("_source", self.params.get("_source", True))
        source = index.source_of(doc, spec, self.params)
        if source is not None:
            shown["_source"] = source
        if "fields" in self.body:
            shown["fields"] = self.fields(doc, index.mapping)
        if self.sort and wanted is None:
            shown["sort"] = [key.shown(hit) for key in self.sort]
        return shown

    def fields(self, doc: Doc, mapping: Mapping) -> Json:
        shown: Json = {}
        for spec in self.body["fields"]:
            pattern = spec["field"] if isinstance(spec, dict) else spec
            for path, leaf in mapping.fields.items():
                if fnmatch.fnmatchcase(path, pattern) and leaf.kind == "dense_vector" and path in doc.vectors:
                    shown[path] = [float(str(x)) for x in doc.vectors[path]]
                elif fnmatch.fnmatchcase(path, pattern) and path in doc.values:
                    values = doc.values[path]
                    shown[path] = [format_date(v) for v in values] if leaf.kind == "date" else list(values)
        return shown


class Aggregations:
    KINDS = ("terms", "composite", "top_hits", "value_count", "cardinality", "min", "max")

    def __init__(self, search: Search) -> None:
        self.search = search

    def run(self, specs: Json, hits: list[Hit]) -> Json:
        made: Json = {}
        for name, spec in specs.items():
            kinds = [key for key in spec if key not in ("aggs", "aggregations", "meta")]
            if len(kinds) != 1:
                raise parsing(f"Expected one aggregation type in [{name}], found {kinds}")
            if kinds[0] not in self.KINDS:
                cause = {
                    "type": "named_object_not_found_exception",
                    "reason": f"[1:1] unknown field [{kinds[0]}]",
                }
                raise parsing(f"Unknown aggregation type [{kinds[0]}]", caused_by=cause)
            inner = spec.get("aggs", spec.get("aggregations", {}))
            made[name] = getattr(self, f"_{kinds[0]}")(name, spec[kinds[0]], inner, hits)
        return made

    def options(self, name: str, kind: str, body: Json, allowed: str) -> None:
        for key in set(body) - set(allowed.split()):
            raise EsError(400, "x_content_parse_exception", f"[1:1] [{kind}] unknown field [{key}]")

    def values(self, path: str, hit: Hit) -> list[Any]:
        aggregatable(hit.reader, path, "aggregate", unmapped=True)
        return sorted(set(hit.doc.values.get(path, [])))

    def shown_key(self, path: str, value: Any) -> Json:
        kinds = {leaf.kind for r in self.search.readers if (leaf := r.index.mapping.resolve(path))}
        if kinds == {"date"}:
            return {"key": value, "key_as_string": format_date(value)}
        return {"key": int(value), "key_as_string": as_text(value)} if isinstance(value, bool) else {"key": value}

    def _terms(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        self.options(name, "terms", body, "field size order min_doc_count shard_size show_term_doc_count_error")
        groups: dict[Any, list[Hit]] = {}
        for hit in hits:
            for value in self.values(body["field"], hit):
                groups.setdefault(value, []).append(hit)
        order = body.get("order", {"_count": "desc"})
        ranked = sorted(groups.items(), key=lambda item: item[0])
        for part in reversed(as_list(order)):
            ((key, way),) = part.items()
            if key not in ("_key", "_count"):
                raise EsError(400, "aggregation_execution_exception", f"Invalid aggregation order path [{key}]")
            by = (lambda item: item[0]) if key == "_key" else (lambda item: len(item[1]))
            ranked.sort(key=by, reverse=way == "desc")
        ranked = [item for item in ranked if len(item[1]) >= body.get("min_doc_count", 1)]
        kept, rest = ranked[: body.get("size", 10)], ranked[body.get("size", 10) :]
        buckets = [
            {**self.shown_key(body["field"], value), "doc_count": len(group), **self.run(inner, group)}
            for value, group in kept
        ]
        other = sum(len(group) for _, group in rest)
        return {"doc_count_error_upper_bound": 0, "sum_other_doc_count": other, "buckets": buckets}

    def _composite(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        self.options(name, "composite", body, "sources size after")
        sources: list[tuple[str, Json]] = []
        for source in body["sources"]:
            ((label, kinds),) = source.items()
            if set(kinds) != {"terms"}:
                raise parsing(f"the stand-in has only [terms] sources, not {sorted(kinds)}")
            self.options(label, "terms", kinds["terms"], "field order missing_bucket")
            sources.append((label, kinds["terms"]))
        down = [source.get("order", "asc") == "desc" for _, source in sources]
        groups: dict[tuple[Any, ...], list[Hit]] = {}
        for hit in hits:
            columns = [
                self.values(source["field"], hit) or ([None] if source.get("missing_bucket") else [])
                for _, source in sources
            ]
            for key in product(*columns):
                groups.setdefault(key, []).append(hit)

        def rank(value: Any) -> tuple[int, Any]:
            return (-1, 0) if value is None else (0, value)

        keys = list(groups)
        for i in reversed(range(len(sources))):
            keys.sort(key=lambda key, i=i: rank(key[i]), reverse=down[i])  # type: ignore[misc]
        if "after" in body:
            if set(body["after"]) != {label for label, _ in sources}:
                raise illegal(f"[after] has {len(body['after'])} value(s) but [sources] has {len(sources)}")
            after = tuple(body["after"][label] for label, _ in sources)
            keys = [key for key in keys if self._later(key, after, down, rank)]
        keys = keys[: body.get("size", 10)]
        named = [{label: value for (label, _), value in zip(sources, key, strict=True)} for key in keys]
        buckets = [
            {"key": shown, "doc_count": len(groups[key]), **self.run(inner, groups[key])}
            for shown, key in zip(named, keys, strict=True)
        ]
        return {**({"after_key": named[-1]} if named else {}), "buckets": buckets}

    @staticmethod
    def _later(key: tuple[Any, ...], after: tuple[Any, ...], down: list[bool], rank: Callable[[Any], Any]) -> bool:
        for one, two, descending in zip(key, after, down, strict=True):
            order = compare(rank(one), rank(two))
            if order:
                return (order < 0) if descending else (order > 0)
        return False

    def _top_hits(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        self.options(name, "top_hits", body, "size from sort _source")
        size, start = body.get("size", 3), body.get("from", 0)
        if size + start > 100:
            raise illegal(
                f"Top hits result window is too large, the top hits aggregator [{name}]'s from + size must "
                f"be less than or equal to: [100] but was [{size + start}].",
                shard=True,
            )
        keys = sort_keys(body.get("sort", []), self.search.readers)
        top = Search.ordered(hits, keys)[start : start + size]
        scored = not keys
        rendered = []
        for hit in top:
            shown = self.search.render(hit, scored=scored, wanted=body.get("_source", True))
            rendered.append(shown if not keys else {**shown, "sort": [key.shown(hit) for key in keys]})
        best = max((hit.score for hit in hits), default=None) if scored else None
        return {"hits": {"total": {"value": len(hits), "relation": "eq"}, "max_score": best, "hits": rendered}}

    def _value_count(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        self.options(name, "value_count", body, "field")
        return {"value": sum(len(hit.doc.values.get(body["field"], [])) for hit in hits)}

    def _cardinality(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        self.options(name, "cardinality", body, "field precision_threshold")
        return {"value": len({value for hit in hits for value in self.values(body["field"], hit)})}

    def _extreme(self, name: str, kind: str, body: Json, hits: list[Hit], pick: Callable[..., Any]) -> Json:
        self.options(name, kind, body, "field")
        value = pick((v for hit in hits for v in self.values(body["field"], hit)), default=None)
        return {"value": None if value is None else float(value)}

    def _min(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        return self._extreme(name, "min", body, hits, min)

    def _max(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        return self._extreme(name, "max", body, hits, max)


# -- HTTP -----------------------------------------------------------------------------------------------

MEDIA_TYPES = [f"application/{prefix}{kind}" for prefix in ("", "vnd.elasticsearch+") for kind in ("json", "x-ndjson")]
COMMON = {"pretty", "human", "error_trace", "filter_path"}
INDICES = "ignore_unavailable allow_no_indices expand_wildcards"
SOURCE = "_source _source_includes _source_excludes _source_exclude_vectors"
WRITE = (
    "refresh routing timeout wait_for_active_shards pipeline require_alias require_data_stream include_source_on_error"
)
SEARCH_PARAMS = (
    f"{INDICES} {SOURCE} size from track_total_hits allow_partial_search_results preference routing"
    " search_type timeout request_cache ccs_minimize_roundtrips max_concurrent_shard_requests"
)


@dataclass(frozen=True)
class Call:
    args: dict[str, str]
    params: dict[str, str]
    body: bytes

    def json(self, what: str = "request body") -> Json:
        if not self.body.strip():
            return {}
        value = read_json(self.body)
        if not isinstance(value, dict):
            raise parsing(f"Expected [START_OBJECT] in the {what}")
        return value

    @property
    def refresh(self) -> bool:
        value = self.params.get("refresh", "false")
        if value not in ("true", "false", "wait_for", ""):
            raise illegal(f"Unknown value for refresh: [{value}].")
        return value != "false"

    def query_params(self, *, exclude_vectors: bool) -> Json:
        return {**self.params, " exclude_vectors": exclude_vectors}


def read_json(text: bytes) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"Non-standard token '{name}'")

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise EsError(400, "x_content_parse_exception", f"[1:1] {error}") from error


def matches_path(tree: Any, patterns: list[list[str]]) -> Any:
    """`filter_path`: keep what a dotted path with `*` names; list items share the path of their list."""
    if isinstance(tree, list):
        kept = [matches_path(item, patterns) for item in tree]
        return [item for item in kept if item not in ({}, [])]
    if not isinstance(tree, dict):
        return tree
    shown: Json = {}
    for key, value in tree.items():
        rests = [pattern[1:] for pattern in patterns if pattern and fnmatch.fnmatchcase(key, pattern[0])]
        if any(not rest for rest in rests):
            shown[key] = value
        elif rests and isinstance(value, dict | list):
            inner = matches_path(value, rests)
            if inner not in ({}, []):
                shown[key] = inner
    return shown


Handler = Callable[["ElasticsearchServer", Call], tuple[int, Any]]
ROUTES: list[tuple[str, re.Pattern[str], set[str], Handler]] = []


def route(methods: str, path: str, params: str = "") -> Callable[[Handler], Handler]:
    pattern = re.compile("^" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^_/][^/]*)", path.replace("{id}", "(?P<id>[^/]+)")) + "$")

    def register(function: Handler) -> Handler:
        for method in methods.split("|"):
            ROUTES.append((method, pattern, COMMON | set(params.split()), function))
        return function

    return register


class ElasticsearchServer(StandinServer):
    """The stand-in for an Elasticsearch server.

    Args:
        hang: Accept requests and never answer them; may be set and cleared while running.
        version: What the server says it is; 9.2 and later leave vectors out of `_source`.
        lossy_lengths: Keep field lengths in one byte for BM25, as Lucene does.
    """

    max_body_bytes = 100 * 1024 * 1024

    def __init__(self, *, hang: bool = False, version: str = "9.2.0", lossy_lengths: bool = False) -> None:
        super().__init__(hang=hang)
        self.version = version
        self.numbers = tuple(int(part) for part in version.split(".")[:2])
        self.lossy_lengths = lossy_lengths
        self.indices: dict[str, Index] = {}
        self.points_in_time: dict[str, tuple[float, list[Reader]]] = {}

    # -- the transport ------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Reply:
        content: Any
        media = request.headers.get("accept", "application/json")
        with self.lock:
            try:
                status, content = self._run(request)
            except EsError as error:
                status, content = error.status, error.body()
            except (KeyError, TypeError, ValueError, AttributeError) as error:  # a value of the wrong JSON type
                reason = f"the stand-in cannot read this request: {type(error).__name__}: {error}"
                status, content = 400, EsError(400, "x_content_parse_exception", reason).body()
        if "filter_path" in request.query and status < 400:
            patterns = [pattern.split(".") for pattern in request.query["filter_path"].split(",")]
            content = matches_path(content, patterns)
        kind = media if media.startswith("application/vnd.elasticsearch+json") else "application/json"
        headers = {"X-Elastic-Product": "Elasticsearch", "Content-Type": kind}
        return Reply(status, json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"), headers)

    def _run(self, request: Request) -> tuple[int, Any]:
        failure = self.next_failure()
        if failure is not None:
            raise EsError(failure, "standin_failure", "asked for by fail_next")
        if request.body_bytes > self.max_body_bytes:
            raise EsError(
                413,
                "content_too_long_exception",
                "entity content is too long for http.max_content_length [100mb]",
            )
        self._check_media_types(request)
        body = request.body
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for method, pattern, allowed, function in ROUTES:
            match = pattern.match(request.path)
            if match and method == request.method:
                for name in sorted(set(request.query) - allowed):
                    raise illegal(f"request [{request.path}] contains unrecognized parameter: [{name}]")
                args = {key: unquote(value) for key, value in match.groupdict().items()}
                return function(self, Call(args, request.query, body))
        raise illegal(f"no handler found for uri [{request.path}] and method [{request.method}]")

    def _check_media_types(self, request: Request) -> None:
        """Refuse what the server refuses; a Content-Type without a body says nothing (aiohttp sends one)."""
        names = ("accept", "content-type") if request.body_bytes else ("accept",)
        for name in names:
            match = re.search(r"compatible-with=(\d+)", request.headers.get(name, ""))
            if match and int(match[1]) not in (self.numbers[0], self.numbers[0] - 1):
                versions = f"either version {self.numbers[0]} or {self.numbers[0] - 1}"
                reason = f"{name} version must be {versions}, but found {match[1]}"
                kind = "media_type_header_exception"
                raise EsError(400, kind, f"Invalid media-type value on headers [{name}]: {reason}")
        if request.body_bytes:
            media = request.headers.get("content-type", "").split(";")[0].strip()
            if media not in MEDIA_TYPES:
                reason = f"Content-Type header [{media}] is not supported"
                raise EsError(406, "content_type_header_exception", reason)

    @property
    def vectors_flag(self) -> bool:
        return self.numbers >= (9, 2)

    def select(self, expression: str, params: Json) -> list[Index]:
        """The indices that a comma-separated list with `*` names."""
        chosen: dict[str, Index] = {}
        for name in expression.split(","):
            if "*" in name or name == "_all":
                pattern = "*" if name == "_all" else name
                chosen.update(
                    {key: self.indices[key] for key in sorted(self.indices) if fnmatch.fnmatchcase(key, pattern)}
                )
            elif name in self.indices:
                chosen[name] = self.indices[name]
            elif params.get("ignore_unavailable") != "true":
                raise no_index(name)
        if not chosen and params.get("allow_no_indices") == "false":
            raise no_index(expression)
        return list(chosen.values())

    def existing(self, name: str) -> Index:
        if name not in self.indices:
            raise no_index(name)
        return self.indices[name]

    def writable(self, name: str) -> Index:
        """The index of a write, created with dynamic mapping when it is new (`action.auto_create_index`)."""
        return self.indices[name] if name in self.indices else self.create(name, {}, {})

    def create(self, name: str, settings: Json, mappings: Json) -> Index:
        if BAD_NAME.search(name) or len(name.encode()) > 255:
            rules = "must be lowercase, not start with '_', '-' or '+', not contain \\/*?\"<>|,#: or space"
            reason = f"Invalid index name [{name}], {rules}"
            raise EsError(400, "invalid_index_name_exception", reason, index_uuid="_na_", index=name)
        if name in self.indices:
            about = {"index_uuid": self.indices[name].uuid, "index": name}
            reason = f"index [{name}/{self.indices[name].uuid}] already exists"
            raise EsError(400, "resource_already_exists_exception", reason, about=about)
        index = Index(name, settings, mappings, exclude_vectors=self.vectors_flag)
        self.indices[name] = index
        self._show(index)
        return index

    def _show(self, index: Index) -> None:
        index.refresh()
        index.reader.lossy_lengths = self.lossy_lengths

    # -- cluster and indices --------------------------------------------------------------------------------

    @route("GET|HEAD", "/")
    def info(self, call: Call) -> tuple[int, Any]:
        version = {
            "number": self.version,
            "build_flavor": "default",
            "build_type": "standin",
            "lucene_version": "10.3.0",
        }
        names = {"name": "standin", "cluster_name": "standin", "cluster_uuid": "standin"}
        return 200, {**names, "version": version, "tagline": "You Know, for Search"}

    @route("GET", "/_cluster/health", "wait_for_status timeout level local wait_for_no_initializing_shards")
    @route(
        "GET",
        "/_cluster/health/{index}",
        "wait_for_status timeout level local wait_for_no_initializing_shards",
    )
    def health(self, call: Call) -> tuple[int, Any]:
        return 200, {"cluster_name": "standin", "status": "green", "timed_out": False, "number_of_nodes": 1}

    @route("PUT", "/{index}", "timeout master_timeout wait_for_active_shards")
    def create_index(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"settings", "mappings"}:
            raise EsError(400, "parse_exception", f"unknown key [{key}] for create index")
        self.create(call.args["index"], body.get("settings") or {}, body.get("mappings") or {})
        return 200, {"acknowledged": True, "shards_acknowledged": True, "index": call.args["index"]}

    @route("GET|HEAD", "/{index}", f"{INDICES} include_defaults flat_settings features local master_timeout")
    def get_index(self, call: Call) -> tuple[int, Any]:
        chosen = self.select(call.args["index"], call.params)
        shown = {i.name: {"aliases": {}, "mappings": i.mapping.raw, "settings": self.settings_of(i)} for i in chosen}
        return 200, shown

    @staticmethod
    def settings_of(index: Index) -> Json:
        defaults = {
            "number_of_shards": "1",
            "number_of_replicas": "1",
            "uuid": index.uuid,
            "provided_name": index.name,
        }
        shown: Json = {}
        for key, value in {**defaults, **index.settings}.items():
            *above, name = key.split(".")
            target = shown
            for part in above:
                target = target.setdefault(part, {})
            target[name] = value if isinstance(value, list) else as_text(value)
        return {"index": shown}

    @route("DELETE", "/{index}", f"{INDICES} timeout master_timeout")
    def delete_index(self, call: Call) -> tuple[int, Any]:
        if "*" in call.args["index"]:
            raise illegal("Wildcard expressions or all indices are not allowed")
        for index in self.select(call.args["index"], call.params):
            del self.indices[index.name]
        return 200, {"acknowledged": True}

    @route("GET", "/_mapping", f"{INDICES} master_timeout local")
    @route("GET", "/{index}/_mapping", f"{INDICES} master_timeout local")
    def get_mapping(self, call: Call) -> tuple[int, Any]:
        chosen = self.select(call.args.get("index", "*"), call.params)
        return 200, {index.name: {"mappings": index.mapping.raw} for index in chosen}

    @route("PUT|POST", "/{index}/_mapping", f"{INDICES} timeout master_timeout write_index_only")
    def put_mapping(self, call: Call) -> tuple[int, Any]:
        for index in self.select(call.args["index"], call.params):
            index.mapping.merge(call.json())
        return 200, {"acknowledged": True}

    @route("GET", "/{index}/_settings", f"{INDICES} include_defaults flat_settings master_timeout local")
    def get_settings(self, call: Call) -> tuple[int, Any]:
        return 200, {i.name: {"settings": self.settings_of(i)} for i in self.select(call.args["index"], call.params)}

    @route("PUT", "/{index}/_settings", f"{INDICES} timeout master_timeout preserve_existing reopen")
    def put_settings(self, call: Call) -> tuple[int, Any]:
        update = Index.checked(call.json().get("settings", call.json()))
        for index in self.select(call.args["index"], call.params):
            for key in update:
                if re.match(r"number_of_shards|analysis|similarity|mapping\.exclude", key):
                    raise illegal(
                        f"Can't update non dynamic settings [[index.{key}]] for open indices [[{index.name}]]"
                    )
            index.settings.update(update)
        return 200, {"acknowledged": True}

    @route("GET|POST", "/_refresh", INDICES)
    @route("GET|POST", "/{index}/_refresh", INDICES)
    @route("POST", "/{index}/_flush", f"{INDICES} force wait_if_ongoing")
    @route(
        "POST",
        "/{index}/_forcemerge",
        f"{INDICES} flush max_num_segments only_expunge_deletes wait_for_completion",
    )
    def refresh_index(self, call: Call) -> tuple[int, Any]:
        chosen = self.select(call.args.get("index", "*"), call.params)
        for index in chosen:
            self._show(index)
        return 200, {"_shards": {"total": len(chosen), "successful": len(chosen), "failed": 0}}

    # -- documents --------------------------------------------------------------------------------

    @route("PUT|POST", "/{index}/_doc/{id}", f"{WRITE} op_type if_seq_no if_primary_term")
    @route("POST", "/{index}/_doc", f"{WRITE} op_type")
    def put_document(self, call: Call) -> tuple[int, Any]:
        doc_id = call.args.get("id") or uuid.uuid4().hex[:20]
        check_id(doc_id)
        index = self.writable(call.args["index"])
        create = call.params.get("op_type") == "create"
        return self.wrote(index, index.put(doc_id, call.json("document"), call.params, create=create), call)

    @route("PUT|POST", "/{index}/_create/{id}", WRITE)
    def create_document(self, call: Call) -> tuple[int, Any]:
        check_id(call.args["id"])
        index = self.writable(call.args["index"])
        return self.wrote(index, index.put(call.args["id"], call.json("document"), {}, create=True), call)

    @route("POST", "/{index}/_update/{id}", f"{WRITE} {SOURCE} if_seq_no if_primary_term retry_on_conflict lang")
    def update_document(self, call: Call) -> tuple[int, Any]:
        index = self.writable(call.args["index"])
        return self.wrote(index, index.update(call.args["id"], call.json(), call.params), call)

    @route("DELETE", "/{index}/_doc/{id}", f"{WRITE} if_seq_no if_primary_term version version_type")
    def delete_document(self, call: Call) -> tuple[int, Any]:
        index = self.existing(call.args["index"])
        return self.wrote(index, index.delete(call.args["id"], call.params), call)

    def wrote(self, index: Index, answer: Json, call: Call) -> tuple[int, Any]:
        if call.refresh:
            self._show(index)
        return answer.pop("status"), answer

    @route("GET|HEAD", "/{index}/_doc/{id}", f"{SOURCE} realtime refresh routing preference version")
    def get_document(self, call: Call) -> tuple[int, Any]:
        wanted = call.params.get("_source", True)
        shown = self.found(self.existing(call.args["index"]), call.args["id"], wanted, call)
        return (200 if shown["found"] else 404), shown

    def found(self, index: Index, doc_id: str, wanted: Any, call: Call) -> Json:
        doc = index.docs.get(doc_id)
        shown: Json = {"_index": index.name, "_id": doc_id, "found": doc is not None}
        if doc is None:
            return shown
        shown.update({"_version": doc.version, "_seq_no": doc.seq_no, "_primary_term": 1})
        source = index.source_of(doc, wanted, call.query_params(exclude_vectors=self.vectors_flag))
        return shown if source is None else {**shown, "_source": source}

    @route("GET|POST", "/_mget", f"{SOURCE} realtime refresh routing preference")
    @route("GET|POST", "/{index}/_mget", f"{SOURCE} realtime refresh routing preference")
    def get_documents(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"docs", "ids"}:
            raise parsing(f"unknown key [{key}] for a START_ARRAY, expected [docs] or [ids]")
        items = [{"_id": doc_id} for doc_id in body.get("ids", [])] + body.get("docs", [])
        if not items:
            raise invalid("no documents to get")
        docs: list[Json] = []
        for item in items:
            name = item.get("_index", call.args.get("index"))
            if name is None:
                raise invalid(f"index is missing for doc {len(docs)}")
            if name not in self.indices:
                docs.append({"_index": name, "_id": item["_id"], "error": no_index(name).body()["error"]})
                continue
            wanted = item.get("_source", call.params.get("_source", True))
            docs.append(self.found(self.indices[name], item["_id"], wanted, call))
        return 200, {"docs": docs}

    @route("POST|PUT", "/_bulk", f"{WRITE} {SOURCE} list_executed_pipelines require_data_stream")
    @route("POST|PUT", "/{index}/_bulk", f"{WRITE} {SOURCE} list_executed_pipelines require_data_stream")
    def bulk(self, call: Call) -> tuple[int, Any]:
        actions = list(read_bulk(call.body, call.args.get("index")))
        refresh = call.refresh
        items: list[Json] = []
        for kind, options, source in actions:
            doc_id = options.get("_id") or uuid.uuid4().hex[:20]
            try:
                index = (self.existing if kind == "delete" else self.writable)(options["_index"])
                answer = self.bulk_item(index, kind, doc_id, options, source)
            except EsError as error:
                failed = {"status": error.status, "error": error.cause}
                answer = {"_index": options["_index"], "_id": doc_id, **failed}
            items.append({kind: answer})
        if refresh:
            for name in {options["_index"] for _, options, _ in actions} & set(self.indices):
                self._show(self.indices[name])
        errors = any("error" in answer for item in items for answer in item.values())
        return 200, {"errors": errors, "took": 1, "items": items}

    @staticmethod
    def bulk_item(index: Index, kind: str, doc_id: str, options: Json, source: bytes) -> Json:
        if kind == "delete":
            return index.delete(doc_id, options)
        body = read_json(source)
        if not isinstance(body, dict):
            raise EsError(400, "document_parsing_exception", "[1:1] failed to parse: expected an object")
        if kind == "update":
            return index.update(doc_id, body, options)
        return index.put(doc_id, body, options, create=kind == "create")

    @route(
        "POST",
        "/{index}/_delete_by_query",
        f"{INDICES} {WRITE} conflicts slices max_docs scroll_size wait_for_completion requests_per_second",
    )
    def delete_by_query(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"query", "max_docs"}:
            raise parsing(f"Unknown key for a START_OBJECT in [{key}].")
        if "query" not in body:
            raise invalid("query is missing")
        if call.params.get("wait_for_completion") == "false":
            raise illegal("the stand-in has no tasks: wait_for_completion must be true")
        hits = [
            (index, index.reader.docs[place])
            for index in self.select(call.args["index"], call.params)
            for place in np.flatnonzero(index.reader.match(body["query"])[0])
        ][: int(call.params.get("max_docs") or body.get("max_docs", LONG_MAX))]
        deleted, failures = 0, []
        for index, doc in hits:
            now = index.docs.get(doc.id)
            if now is doc:
                index.delete(doc.id, {})
                deleted += 1
                continue
            found = (
                "but no document was found"
                if now is None
                else f"current document has seqNo [{now.seq_no}] and primary term [1]"
            )
            cause = index.conflict(doc.id, f"required seqNo [{doc.seq_no}], primary term [1]. {found}").cause
            failures.append({"index": index.name, "id": doc.id, "cause": cause, "status": 409})
        if call.refresh:
            for index in {index for index, _ in hits}:
                self._show(index)
        proceed = call.params.get("conflicts") == "proceed"
        counts = {"total": len(hits), "deleted": deleted, "batches": math.ceil(len(hits) / 1000), "noops": 0}
        rest = {"retries": {"bulk": 0, "search": 0}, "throttled_millis": 0, "requests_per_second": -1.0}
        shown = {"took": 1, "timed_out": False, **counts, **rest, "throttled_until_millis": 0}
        shown.update({"version_conflicts": len(failures), "failures": [] if proceed else failures})
        return (409 if failures and not proceed else 200), shown

    # -- search -----------------------------------------------------------------------------------

    @route("GET|POST", "/_search", SEARCH_PARAMS)
    @route("GET|POST", "/{index}/_search", SEARCH_PARAMS)
    def search(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        pit = body.get("pit")
        params = call.query_params(exclude_vectors=self.vectors_flag)
        if pit is None:
            readers = [index.reader for index in self.select(call.args.get("index", "*"), call.params)]
            return 200, Search(readers, body, params).run()
        if "index" in call.args:
            raise invalid("[indices] cannot be used with point in time. Do not specify any index with point in time.")
        expires, readers = self.points_in_time.get(pit["id"], (0.0, []))
        if expires < time.monotonic():
            reason = f"No search context found for id [{pit['id']}]"
            raise EsError(404, "search_context_missing_exception", reason, shard=True)
        if "keep_alive" in pit:
            self.points_in_time[pit["id"]] = (time.monotonic() + seconds(pit["keep_alive"]), readers)
        return 200, {"pit_id": pit["id"], **Search(readers, body, params).run()}

    @route("GET|POST", "/_count", f"{INDICES} routing preference")
    @route("GET|POST", "/{index}/_count", f"{INDICES} routing preference")
    def count(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"query"}:
            raise parsing(f"request does not support [{key}]")
        readers = [index.reader for index in self.select(call.args.get("index", "*"), call.params)]
        total = sum(int(reader.match(body.get("query", {"match_all": {}}))[0].sum()) for reader in readers)
        shards = {"total": len(readers), "successful": len(readers), "skipped": 0, "failed": 0}
        return 200, {"count": total, "_shards": shards}

    @route("POST", "/{index}/_pit", f"{INDICES} keep_alive routing preference allow_partial_search_results")
    def open_pit(self, call: Call) -> tuple[int, Any]:
        if "keep_alive" not in call.params:
            raise invalid("[keep_alive] is not specified")
        readers = [index.reader for index in self.select(call.args["index"], call.params)]
        pit_id = uuid.uuid4().hex
        self.points_in_time[pit_id] = (time.monotonic() + seconds(call.params["keep_alive"]), readers)
        shards = {"total": len(readers), "successful": len(readers), "skipped": 0, "failed": 0}
        return 200, {"id": pit_id, "_shards": shards}

    @route("DELETE", "/_pit")
    def close_pit(self, call: Call) -> tuple[int, Any]:
        known = self.points_in_time.pop(str(call.json().get("id")), None) is not None
        return (200 if known else 404), {"succeeded": known, "num_freed": int(known)}


def seconds(keep_alive: str) -> float:
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", keep_alive)
    if match is None:
        raise illegal(f"failed to parse setting [keep_alive] with value [{keep_alive}] as a time value")
    return int(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def check_id(doc_id: str) -> None:
    if len(doc_id.encode()) > 512:
        raise invalid(f"id [{doc_id}] is too long, must be no longer than 512 bytes but was: {len(doc_id.encode())}")


BULK_OPTIONS = "_index _id routing if_seq_no if_primary_term retry_on_conflict require_alias pipeline"


def read_bulk(body: bytes, default_index: str | None) -> Iterator[tuple[str, Json, bytes]]:
    """The (action, options, source line) of each item; a malformed action line fails the whole request."""
    if not body.strip():
        raise invalid("no requests added")
    if not body.endswith(b"\n"):
        raise illegal("The bulk request must be terminated by a newline [\\n]")
    lines = iter(enumerate(body[:-1].split(b"\n"), 1))
    for number, line in lines:
        if not line.strip():
            continue
        action = read_json(line)
        kind = next(iter(action), None) if isinstance(action, dict) and len(action) == 1 else None
        if kind not in ("index", "create", "update", "delete"):
            expected = "expected one of [create, delete, index, update]"
            raise illegal(f"Malformed action/metadata line [{number}], {expected} but found [{kind}]")
        options = {"_index": default_index, **action[kind]}
        for key in set(options) - set(BULK_OPTIONS.split()):
            raise illegal(f"Action/metadata line [{number}] contains an unknown parameter [{key}]")
        if options["_index"] is None:
            raise invalid("index is missing")
        if options.get("_id") is not None:
            options["_id"] = str(options["_id"])
            check_id(options["_id"])
        elif kind in ("update", "delete"):
            raise invalid("id is missing")
        yield kind, options, b"" if kind == "delete" else next(lines, (0, b"null"))[1]
