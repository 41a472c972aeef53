"""What a Section, a Chunk, a query or a message is made of: text, or data such as an image."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AnyUrl, BaseModel, Field, PlainSerializer


class TextBlock(BaseModel):
    """Plain text. Two blocks with the same text are equal: there is no random id and no clock."""

    type: Literal["text"] = "text"
    text: str


class Base64Source(BaseModel):
    """Data carried in the block itself."""

    type: Literal["base64"] = "base64"
    data: str
    """The bytes in standard base64, without a ``data:`` prefix."""
    media_type: str
    """IANA media type, for example ``image/png``."""


class URLSource(BaseModel):
    """Data that lives elsewhere. Nothing in this package fetches it."""

    type: Literal["url"] = "url"
    url: Annotated[AnyUrl, PlainSerializer(str)]
    media_type: str


class DataBlock(BaseModel):
    """An image or another non-text content."""

    type: Literal["data"] = "data"
    source: Base64Source | URLSource = Field(discriminator="type")
    name: str | None = None
    """File name to show, for example ``diagram.png``."""
    caption: str | None = None
    """Caption, alternative text or recognised text: what a text-only model can index and show instead."""


ContentBlock = TextBlock | DataBlock
