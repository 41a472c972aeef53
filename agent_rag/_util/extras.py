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


def needs_file(extra: str, package: str, name: str, *, purpose: str, note: str = "") -> Path:
    """A file in a package that is used as data, or say which extra brings it; the package is not imported.

    Args:
        note: Behind the install line.

    Raises: MissingExtraError: the package or the file is not there.
    """
    try:
        return data_file(package, name)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the files in the package {package!r}: "
            f"pip install '{DISTRIBUTION}[{extra}]'{note} ({error})"
        ) from error


def data_file(package: str, name: str) -> Path:
    """A file in an installed package, which is not imported.

    Raises: ImportError: the package or the file is not there.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named {package!r}")
    path = Path(spec.origin).parent / name
    if not path.is_file():
        raise ImportError(f"{path} is missing")
    return path
