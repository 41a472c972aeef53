"""The command ``agent-rag eval``."""

from .command import evaluate

__all__ = ["evaluate"]
