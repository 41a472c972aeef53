"""Parsing in processes that can be killed: the pool, one process, and its other side."""
