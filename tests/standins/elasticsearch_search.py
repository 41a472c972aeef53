"""Search of the Elasticsearch stand-in: hits, sort, paging, source filtering and aggregations."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .elasticsearch_index import Reader, knn_matches
from .elasticsearch_mapping import (
    FLOATS,
    INTEGERS,
    LONG_MAX,
    Doc,
    EsError,
    Field,
    Json,
    Mapping,
    as_list,
    as_text,
    format_date,
    illegal,
    invalid,
    parse_date,
    parsing,
)

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
    KINDS = ("terms", "composite", "top_hits", "value_count", "cardinality", "min", "max", "sum")

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

    def _sum(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        """Of all values, also of equal ones in one document; 0.0 when there is none."""
        self.options(name, "sum", body, "field missing")
        missing = [body["missing"]] if "missing" in body else []
        for hit in hits[:1]:
            aggregatable(hit.reader, body["field"], "aggregate", unmapped=True)
        return {"value": float(sum(v for hit in hits for v in hit.doc.values.get(body["field"], missing)))}

    def _min(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        return self._extreme(name, "min", body, hits, min)

    def _max(self, name: str, body: Json, inner: Json, hits: list[Hit]) -> Json:
        return self._extreme(name, "max", body, hits, max)
