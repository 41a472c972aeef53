"""The one way to import an optional dependency."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from ..errors import MissingExtraError

DISTRIBUTION = "agent-rag-middleware"


def needs(extra: str, module: str, *, purpose: str | None = None) -> ModuleType:
    """Import `module`, or say which extra brings it.

    Args:
        extra: Name of the extra in pyproject.toml, for example ``"postgres"``.
        module: Dotted name of the module to import.
        purpose: What needs it, for the message; `extra` when None.

    Raises: MissingExtraError: with the exact install line and the original ImportError's text.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose or extra} needs the package {module!r}: "
            f"pip install '{DISTRIBUTION}[{extra}]' (import failed with: {error})"
        ) from error


def data_file(package: str, name: str) -> Path | None:
    """A file in an installed package that is used as data: the package itself is not imported. None where it is not."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / name
    return path if path.is_file() else None
