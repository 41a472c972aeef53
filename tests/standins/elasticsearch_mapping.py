"""Errors, values, analysis and mapping of the Elasticsearch stand-in (see `elasticsearch_server.py`)."""

from __future__ import annotations

import fnmatch
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

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
