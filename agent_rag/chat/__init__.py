"""Chat models: types and protocol, an OpenAI-compatible client, and one that only quotes (`chat.extractive`)."""

from .base import (
    HINT_NAME,
    ChatMessage,
    ChatModel,
    ChatReply,
    Role,
    ToolCall,
    ToolSpec,
    as_chat_model,
    ask,
    data_url,
    image_note,
    read_json,
    system,
    user,
)
from .openai import OpenAIChatModel

__all__ = [
    "HINT_NAME",
    "ChatMessage",
    "ChatModel",
    "ChatReply",
    "OpenAIChatModel",
    "Role",
    "ToolCall",
    "ToolSpec",
    "as_chat_model",
    "ask",
    "data_url",
    "image_note",
    "read_json",
    "system",
    "user",
]
