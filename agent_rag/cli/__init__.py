"""The command ``agent-rag``."""

from .app import main

__all__ = ["main"]
