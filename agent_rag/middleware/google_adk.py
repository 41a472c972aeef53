"""Google ADK: ``App(name="app", root_agent=agent, plugins=[RAGMiddleware([knowledge])])``."""

from __future__ import annotations

import base64
import logging
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._util.extras import needs
from ..answers import CheckedAnswer
from ..chat import ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.adapter import CITATIONS_KEY, Adapter, FrameworkChatModel, KnowledgeBases, check_in, checked_with, shown_now
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.parameters import Parameters
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn

_plugins = needs("google-adk", "google.adk.plugins.base_plugin", purpose="agent_rag.middleware.google_adk")
_models = needs("google-adk", "google.adk.models")
_tools = needs("google-adk", "google.adk.tools.base_tool")
_types = needs("google-adk", "google.genai.types")

logger = logging.getLogger("agent_rag")

METADATA_KEY = "agent_rag"
"""In ``Event.custom_metadata``: the citations and flags of each tool result, by the id of the function call."""


@dataclass
class _Run:
    """What belongs to one invocation."""

    turn: Turn
    results: dict[str, ToolResult] = field(default_factory=dict)
    """By the id of the function call."""


# By invocation id, as long as the invocation's context lives. All instances of an app share it.
_runs: dict[str, _Run] = {}


class _HintContent(_types.Content):  # type: ignore[misc, name-defined]
    """A hint in a request, told from the user's words by its class."""


class ChatModel(FrameworkChatModel):
    """An ADK model, or the name of one, as the chat model of `LLMReranker` and `LLMQueryRewriter`."""

    def __init__(self, model: Any) -> None:
        super().__init__(_models.LLMRegistry.new_llm(model) if isinstance(model, str) else model)

    async def answer(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> str:
        instructions = "\n\n".join(message.text for message in messages if message.role == "system")
        request = _models.LlmRequest(
            model=self._model.model,
            contents=[
                _types.Content(role="model" if message.role == "assistant" else "user", parts=_parts(message.content))
                for message in messages
                if message.role != "system"
            ],
            config=_types.GenerateContentConfig(system_instruction=instructions or None, max_output_tokens=max_tokens),
        )
        answers = [answer async for answer in self._model.generate_content_async(request)]
        return "".join(_text(answer.content) for answer in answers if not answer.partial)


class RAGMiddleware(Adapter, _plugins.BasePlugin):  # type: ignore[misc, name-defined]
    """Retrieval as an ADK plugin. Static: a hint after the user's message. Agentic: tools, added to each request.

    Works for all agents of the app, or those named in `agents`. Citations are in
    ``Event.custom_metadata["agent_rag"]`` of the function response's event by call id, and in that of the final answer;
    `citations` reads them. The `scope` callable gets the caller's user id, or what `context` makes of
    the invocation's context. Not in live runs, which have no model callbacks.
    """

    chat_models = (((str, _models.BaseLlm), ChatModel),)

    def __init__(
        self,
        knowledge_bases: KnowledgeBases,
        parameters: Parameters | None = None,
        rerank_model: Any = None,
        *,
        agents: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            agents: Names of the agents that get the hint and the tools; default all.
            options: As for the middleware of every framework.
        """
        self._agents = agents
        super().__init__(knowledge_bases, parameters, rerank_model, **options)

    def _plug(self) -> None:
        _plugins.BasePlugin.__init__(self, name=self.rag.key)
        self._context = self._context or _user_id

    # --- the invocation begins ---

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        """The user's message with the hint, if it is to be stored."""
        run = self._begin(invocation_context)
        hint = await self.rag.hint(run.turn)
        if hint is None or not hint.persist:
            return None
        return _types.Content(role=user_message.role, parts=[*(user_message.parts or []), *_parts(hint.blocks)])

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """For runs without a new message: those that go on."""
        self._begin(invocation_context)

    def _begin(self, invocation_context: Any) -> _Run:
        key = invocation_context.invocation_id
        if key not in _runs:
            weakref.finalize(invocation_context, _runs.pop, key, None)
            _runs[key] = self._started(invocation_context)
        return _runs[key]

    def _started(self, context: Any) -> _Run:
        events = [event for event in context.session.events if event.invocation_id != context.invocation_id]
        return _Run(self._start(self._ask(context.user_content), lambda: list(self._history(events)), context))

    # --- each model call ---

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Put the hint and the tools into the request; ADK makes its contents anew for each."""
        if self._agents is not None and callback_context.agent_name not in self._agents:
            return
        llm_request.append_tools([_Tool(tool, self) for tool in await self.rag.list_tools(refresh=False)])
        hint = await self.rag.hint(self._run(callback_context).turn)
        if hint is not None:
            llm_request.contents[:] = self._placed(llm_request.contents, hint, callback_context.user_content)

    def _placed(self, contents: Sequence[Any], hint: Hint, asked: Any) -> list[Any]:
        users = [content for content in contents if _is_users(content)]
        same = [content for content in users if _text(content) == _text(asked)]
        asking = (same or users or [None])[-1]
        if asking is None:
            return list(contents)
        made = _HintContent(role="user", parts=_parts(hint.blocks))
        if hint.persist and _text(made) not in _text(asking):
            logger.warning("persist_hint: another plugin replaced the message first; the hint is shown, but not kept")
            hint = shown_now(hint)
        return with_hints(
            contents,
            [(hint, made)],
            is_ask=lambda content: content is asking,
            is_hint=lambda content: isinstance(content, _HintContent),
        )

    # --- each tool call ---

    async def answer(self, tool: KnowledgeTool, arguments: Any, context: Any) -> dict[str, Any]:
        """The function response to a call. ADK moves the parts in it to where the model takes them."""
        run = self._run(context)
        result = await tool(arguments, turn=run.turn)
        run.results[context.function_call_id] = result
        images = [_part(block) for block in result.blocks if isinstance(block, DataBlock)]
        return {"result": result.text, **({"images": images} if images else {})}

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Put the citations beside the tool's results and the answer, with its check: in place, since a returned event
        ends the chain of plugins."""
        run = _runs.get(invocation_context.invocation_id)
        ids = [response.id for response in event.get_function_responses()]
        if run is None:
            return
        made: dict[str, Any] = {}
        if shown := {key: run.results[key].structured() for key in ids if key in run.results}:
            made[METADATA_KEY] = shown
        if event.is_final_response() and not event.partial:
            made |= await checked_with([self.rag], _text(event.content), run.turn)
        if event.is_final_response() and not event.partial and run.turn.citations:
            made[CITATIONS_KEY] = [citation.place() for citation in run.turn.citations]
        if made:
            event.custom_metadata = {**(event.custom_metadata or {}), **made}

    def _run(self, context: Any) -> _Run:
        return _runs.get(context.invocation_id) or self._started(context)

    # --- reading ---

    def _own(self, content: Any) -> list[Any]:
        """The parts of a message without a stored hint, which stands at its end."""
        parts = list(content.parts or []) if content is not None else []
        hinted = (index for index, part in enumerate(parts) if part.text and self.rag.is_hint(part.text))
        return parts[: next(hinted, len(parts))]

    def _ask(self, content: Any) -> list[ContentBlock]:
        blocks: list[ContentBlock] = []
        for part in self._own(content):
            blob = part.inline_data
            if part.text:
                blocks.append(TextBlock(text=part.text))
            elif blob is not None and blob.data and (blob.mime_type or "").startswith("image/"):
                data = base64.b64encode(blob.data).decode()
                blocks.append(DataBlock(source=Base64Source(data=data, media_type=blob.mime_type)))
        return blocks

    def _history(self, events: Iterable[Any]) -> Iterator[ChatMessage]:
        for event in events:
            texts = [part.text for part in self._own(event.content) if part.text and not part.thought]
            role = "user" if event.author == "user" else "assistant"
            shown = citations([event])
            yield ChatMessage.model_validate({"role": role, "content": "\n".join(texts), "artifact": shown})
            results = [str((answer.response or {}).get("result", "")) for answer in event.get_function_responses()]
            yield ChatMessage.model_validate({"role": "tool", "content": "\n".join(results)})


class _Tool(_tools.BaseTool):  # type: ignore[misc, name-defined]
    """A knowledge tool in a request."""

    def __init__(self, tool: KnowledgeTool, middleware: RAGMiddleware) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._tool = tool
        self._middleware = middleware

    def _get_declaration(self) -> Any:
        return _types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._tool.parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
        return await self._middleware.answer(self._tool, args, tool_context)


def citations(events: Any) -> list[Citation]:
    """What each number stands for in the events of a run, or of a session."""
    slots = [event.custom_metadata or {} for event in events]
    results = [result["citations"] for slot in slots for result in (slot.get(METADATA_KEY) or {}).values()]
    return collected(*results, *(slot.get(CITATIONS_KEY) or () for slot in slots))


def checked(events: Any) -> CheckedAnswer | None:
    """The check of the last answer in the events of a run, or of a session, with ``check_answer=True``."""
    return check_in(event.custom_metadata for event in events)


def _user_id(invocation_context: Any) -> Any:
    return invocation_context.user_id


# --- translation ---


def _parts(blocks: Iterable[ContentBlock]) -> list[Any]:
    return [_part(block) for block in blocks]


def _part(block: ContentBlock) -> Any:
    if isinstance(block, TextBlock):
        return _types.Part(text=block.text)
    source = block.source
    if isinstance(source, Base64Source):
        return _types.Part.from_bytes(data=base64.b64decode(source.data), mime_type=source.media_type)
    return _types.Part.from_uri(file_uri=str(source.url), mime_type=source.media_type)


def _text(content: Any) -> str:
    parts = (content.parts or []) if content is not None else []
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _is_users(content: Any) -> bool:
    """Whether a content may be the user's message: tool results have the user's role too."""
    responses = any(part.function_response for part in content.parts or [])
    return content.role == "user" and not responses and not isinstance(content, _HintContent)


__all__ = ["METADATA_KEY", "ChatModel", "RAGMiddleware", "checked", "citations"]
