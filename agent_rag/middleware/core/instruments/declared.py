"""What a tool of the middleware is: its name, what a model sees of it, and what answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....chat import ToolSpec
from ....filters import FilterField
from ..answering import Answer
from ..fields import FilterFields
from ..parameters import ToolName
from ..pipeline import Pipeline
from ..turn import Turn


def always(pipeline: Pipeline) -> bool:
    """Offered whatever the knowledge bases can do."""
    return True


@dataclass(frozen=True)
class DeclaredTool:
    """One row of `table.TOOLS`. It holds no state: what it remembers of a turn is in the turn."""

    name: ToolName
    spec: Callable[[Pipeline, Mapping[str, FilterField]], ToolSpec]
    """From the middleware and the fields that the model may filter by; equal options give equal text, so that prompt
    caches hold."""
    answer: Callable[[Pipeline, FilterFields, Any, Turn], Awaitable[Answer]]
    """From the arguments as the model sent them. Raises: ArgumentError: they cannot be used; the message is for the
    model."""
    offered: Callable[[Pipeline], bool] = always
    """Whether a knowledge base of this middleware can answer it; a model is not shown what none can."""
