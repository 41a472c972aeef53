"""Query rewriters: from what the user said, in its conversation, to what is worth searching for."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..chat import ChatMessage, ChatModel, as_chat_model, ask, read_json, user
from ..errors import ChatError, ConfigurationError
from .standalone import stands_alone

Rewritten = str | Sequence[str]
QueryRewriter = Callable[[str, Sequence[ChatMessage]], Rewritten | Awaitable[Rewritten]]
"""Called with the query and the earlier user and assistant messages, oldest first (never system prompts, tool traffic
or hints). Answers one query or several, the most important first. When it fails, the query is used as it is."""

DEFAULT_REWRITE_PROMPT = """\
Rewrite the last message of the conversation below as {count} for a search engine. Make it self-contained: replace \
pronouns and references by what they stand for, keep names, numbers and the language of the message, drop politeness. \
Do not answer it. Answer with JSON: {"queries": ["..."]}

{conversation}"""

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
    "required": ["queries"],
    "additionalProperties": False,
}


def passthrough(query: str, history: Sequence[ChatMessage]) -> str:
    """The query as it is."""
    return query


class RecentMessages:
    """The last user messages and the query as one search text, where the query needs them: follow-ups keep their
    subject, without a model. A question that stands alone is searched for alone. (MTRAG-UN, recall@5: follow-ups .773
    alone and .819 with the message before; standalone questions .614 alone and .501 with it.)"""

    def __init__(self, count: int = 1, *, max_characters: int = 2_000, always: bool = False) -> None:
        """
        Args:
            count: Earlier user messages to put before the query.
            max_characters: Of the whole; earlier messages are cut first.
            always: Also before questions that stand alone, as far as that can be told (see `stands_alone`).
        """
        if count < 0 or max_characters < 1:
            raise ConfigurationError(f"{count=} must not be negative and {max_characters=} must be positive")
        self.count = count
        self.max_characters = max_characters
        self.always = always

    def __call__(self, query: str, history: Sequence[ChatMessage]) -> str:
        if not self.always and stands_alone(query):
            return query
        earlier = [message.text for message in history if message.role == "user" and message.text.strip()]
        before = "\n".join(earlier[len(earlier) - min(self.count, len(earlier)) :])
        room = max(self.max_characters - len(query) - 1, 0)
        return f"{before[-room:]}\n{query}" if before and room else query


class LLMQueryRewriter:
    """Lets a chat model write self-contained queries from the last messages. One call for each search."""

    def __init__(
        self,
        model: ChatModel | Any,
        *,
        max_messages: int = 10,
        max_queries: int = 1,
        max_message_characters: int = 1_000,
        prompt: str = DEFAULT_REWRITE_PROMPT,
        max_tokens: int | None = 512,
    ) -> None:
        """
        Args:
            model: As for `LLMReranker`.
            max_messages: Earlier messages it sees.
            max_queries: Queries it may write; their hits are merged by rank.
            max_message_characters: A longer message is cut.
            prompt: With ``{conversation}`` and perhaps ``{count}``.
            max_tokens: Most tokens of the answer, where the model takes such a bound; raise it for models that think.
        """
        if "{conversation}" not in prompt:
            raise ConfigurationError("the rewrite prompt has no {conversation}; put it where the messages belong")
        if min(max_queries, max_message_characters) < 1 or max_messages < 0:
            raise ConfigurationError(f"{max_queries=} must be at least 1 and {max_messages=} not negative")
        self._model = as_chat_model(model)
        self._max_messages = max_messages
        self._max_queries = max_queries
        self._max_characters = max_message_characters
        self._prompt = prompt
        self._max_tokens = max_tokens

    async def __call__(self, query: str, history: Sequence[ChatMessage]) -> list[str]:
        """Raises: ChatError: the model failed or wrote no query."""
        recent = list(history)[len(history) - min(self._max_messages, len(history)) :]
        lines = [f"{message.role}: {message.text[: self._max_characters]}" for message in recent if message.text]
        conversation = "\n".join([*lines, f"last message: {query[: self._max_characters]}"])
        count = "one query" if self._max_queries == 1 else f"at most {self._max_queries} queries"
        prompt = self._prompt.replace("{count}", count).replace("{conversation}", conversation)
        queries = _queries(await ask(self._model, [user(prompt)], _SCHEMA, max_tokens=self._max_tokens))[
            : self._max_queries
        ]
        if not queries:
            raise ChatError("the model wrote no query")
        return queries


def _queries(answer: str) -> list[str]:
    for value in read_json(answer):
        items = value.get("queries") if isinstance(value, dict) else value
        if isinstance(items, str):
            items = [items]
        if isinstance(items, list) and (texts := [item.strip() for item in items if isinstance(item, str)]):
            return [text for text in texts if text]
    text = re.sub(r"^```\w*|```$", "", answer.strip()).strip().strip('"')
    return [text] if text and "{" not in text and len(text) <= 1_000 else []
