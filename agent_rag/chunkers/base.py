"""The contract of a chunker: Sections in, Chunks out."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from ..documents import Chunk, Section
from ..errors import ConfigurationError

_BY_TYPE: dict[str, type[ChunkerBase]] = {}
P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class HasParameters(Protocol[P_co]):
    """A class with a nested class `Parameters`."""

    @property
    def Parameters(self) -> type[P_co]: ...


class ChunkerBase(ABC):
    """Cuts Sections into Chunks.

    Never merges across Sections; a DataBlock passes through whole; blank text gives no chunk; `chunk_index` runs from
    0 over the result and every chunk carries the same `total_chunks`. Subclass it, give it a unique `chunker_type`,
    put its options into `Parameters` and implement `chunk`.
    """

    chunker_type: ClassVar[str] = ""
    """Identifies the chunker when it is rebuilt from stored parameters; unique within an application."""

    class Parameters(BaseModel):
        """Options; its JSON schema serves forms and validation."""

        model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, parameters: BaseModel | Mapping[str, Any] | None = None, **options: Any) -> None:
        """Args:
            parameters: An instance of this class's `Parameters`, or a mapping of its fields; None for defaults.
            options: Fields of `Parameters` by name, instead of `parameters`.

        Raises: ValueError: an option is out of range. TypeError: `parameters` belongs to another chunker, or was given
            together with options.
        """
        if options and parameters is not None:
            raise TypeError(f"{type(self).__name__} takes parameters or {', '.join(sorted(options))}, not both")
        if parameters is None:
            parameters = self.Parameters(**options)
        elif isinstance(parameters, Mapping):
            parameters = self.Parameters.model_validate(parameters)
        elif not isinstance(parameters, self.Parameters):
            raise TypeError(
                f"{type(self).__name__} takes {type(self).__name__}.Parameters, got {type(parameters).__name__}"
            )
        self._parameters: BaseModel = parameters

    @property
    def parameters(self: HasParameters[P]) -> P:
        """The options, of this class's own `Parameters`."""
        return cast(P, cast(ChunkerBase, self)._parameters)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "chunker_type" not in cls.__dict__ or not cls.chunker_type:
            return
        known = _BY_TYPE.get(cls.chunker_type)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigurationError(
                f"chunker_type {cls.chunker_type!r} of {cls.__name__} is already taken by {known.__name__}; "
                "choose another"
            )
        _BY_TYPE[cls.chunker_type] = cls

    @property
    def fingerprint(self) -> str:
        """Changes when this chunker would cut differently; ingestion re-chunks then."""
        parameters = re.sub(r" at 0x[0-9a-fA-F]+", "", self.parameters.model_dump_json(fallback=repr))
        return f"{self.chunker_type or type(self).__name__}:{parameters}"

    @abstractmethod
    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        """Cut `sections`. CPU work runs off the event loop."""

    async def chunks(self, sections: list[Section]) -> Iterable[Chunk]:
        """What `chunk` gives; made one after the other, where a chunker can, so that not all are in memory."""
        return await self.chunk(sections)


def chunker_from(chunker_type: str, parameters: str | dict[str, Any] | None = None) -> ChunkerBase:
    """Rebuild a chunker from its type and its Parameters (a dict or JSON text).

    Raises: ConfigurationError: no chunker of that type has been imported. ValueError: an option is out of range.
    """
    cls = _BY_TYPE.get(chunker_type)
    if cls is None:
        raise ConfigurationError(f"no chunker of type {chunker_type!r}; known types: {', '.join(sorted(_BY_TYPE))}")
    if isinstance(parameters, str):
        return cls(cls.Parameters.model_validate_json(parameters))
    return cls(cls.Parameters.model_validate(parameters or {}))
