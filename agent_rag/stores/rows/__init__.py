"""Rows in memory: vectors, an inverted index, and the queue of an embedded engine."""
