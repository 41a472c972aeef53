"""Retrieval-augmented generation that attaches to any Python agent framework."""
