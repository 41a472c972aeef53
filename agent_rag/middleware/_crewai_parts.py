"""Parts of messages as CrewAI's model classes send them on: it has no form of its own, each provider's API has one."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..content import Base64Source, ContentBlock, DataBlock, TextBlock


def parts(llm: Any, blocks: Iterable[ContentBlock]) -> Iterator[dict[str, Any]]:
    """Parts as the model's class sends them on; the note of an image that it cannot take stands in the text."""
    image = _image_part if getattr(llm, "is_litellm", False) else _IMAGE_PARTS.get(str(llm.provider), _image_part)
    responses = image is _image_part and getattr(llm, "api", None) == "responses"
    for block in blocks:
        if isinstance(block, TextBlock):
            yield {"type": "input_text", "text": block.text} if responses else llm.format_text_content(block.text)
        elif responses:
            yield {"type": "input_image", "image_url": _url(block)}
        elif (part := image(block)) is not None:
            yield part


def _image_part(block: DataBlock) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": _url(block)}}


def _url(block: DataBlock) -> str:
    source = block.source
    return f"data:{source.media_type};base64,{source.data}" if isinstance(source, Base64Source) else str(source.url)


def _anthropic_part(block: DataBlock) -> dict[str, Any]:
    return {"type": "image", "source": block.source.model_dump(exclude=None if _is_data(block) else {"media_type"})}


def _gemini_part(block: DataBlock) -> dict[str, Any]:
    source = block.source
    if isinstance(source, Base64Source):
        return {"inlineData": {"mimeType": source.media_type, "data": source.data}}
    return {"fileData": {"mimeType": source.media_type, "fileUri": str(source.url)}}


def _bedrock_part(block: DataBlock) -> dict[str, Any] | None:
    source = block.source
    if not isinstance(source, Base64Source):
        return None
    kind = source.media_type.rpartition("/")[2]
    return {"image": {"format": kind, "source": {"bytes": base64.b64decode(source.data)}}}


def _is_data(block: DataBlock) -> bool:
    return isinstance(block.source, Base64Source)


_IMAGE_PARTS: dict[str, Callable[[DataBlock], dict[str, Any] | None]] = {
    "anthropic": _anthropic_part,
    "gemini": _gemini_part,
    "google": _gemini_part,
    "bedrock": _bedrock_part,
    "aws": _bedrock_part,
}
"""By the provider of a native model class; the others take OpenAI's."""
