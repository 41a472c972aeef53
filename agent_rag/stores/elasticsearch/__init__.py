"""Elasticsearch 8 and 9."""

from .store import ElasticsearchStore

__all__ = ["ElasticsearchStore"]
