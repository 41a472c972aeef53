"""Pydantic AI: ``Agent(model, capabilities=[RAGMiddleware([knowledge])])``."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from pydantic_core import SchemaValidator, core_schema

from .._util.extras import needs
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.adapter import CITATIONS_KEY, Adapter, FrameworkChatModel, check_in, checked_with, plain_text, shown_now
from .core.citation import Citation, collected
from .core.events import HintEvent
from .core.hint import Hint, with_hints
from .core.rag import is_known_hint
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn

_capabilities = needs("pydantic-ai", "pydantic_ai.capabilities", purpose="agent_rag.middleware.pydantic_ai")
_messages = needs("pydantic-ai", "pydantic_ai.messages")
_models = needs("pydantic-ai", "pydantic_ai.models")
_tools = needs("pydantic-ai", "pydantic_ai.tools")
_toolsets = needs("pydantic-ai", "pydantic_ai.toolsets")
_direct = needs("pydantic-ai", "pydantic_ai.direct")


_ANY = SchemaValidator(core_schema.any_schema())


class _Run:
    """The turn of one agent run, and the message part that asks. All instances of the run hold it."""

    def __init__(self, turn: Turn, ask: Any) -> None:
        self.turn = turn
        self.ask = ask


# Weak: a run's state goes with the per-run capabilities that `for_run` makes.
_runs: WeakValueDictionary[str, _Run] = WeakValueDictionary()


@dataclass(kw_only=True)
class RAGHintEvent(  # type: ignore[call-arg]
    _messages.CapabilityEvent,  # type: ignore[misc, name-defined]
    namespace="agent_rag",
    name="hint",
):
    """In the run's event stream: the hint of a static turn."""

    hint: HintEvent


class ChatModel(FrameworkChatModel):
    """A Pydantic AI model, or the name of one, as the chat model of `LLMReranker` and `LLMQueryRewriter`."""

    async def answer(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> str:
        settings = None if max_tokens is None else {"max_tokens": max_tokens}
        asked = [_model_message(message) for message in messages]
        response = await _direct.model_request(self._model, asked, model_settings=settings)
        return response.text or ""


class RAGMiddleware(Adapter, _capabilities.AbstractCapability):  # type: ignore[misc, name-defined]
    """Retrieval as a Pydantic AI capability. Static: a hint after the user's prompt. Agentic: tools of the agent.

    `citations` reads what was shown from the run's result: from ``ToolReturnPart.metadata`` and from the metadata of
    the answer, which no model is sent. A static turn emits a `RAGHintEvent` into the event stream. The `scope` callable
    gets the run's `deps`. Works in ``run``, ``run_sync``, ``run_stream``, ``run_stream_events`` and ``iter``; a
    realtime session has the tools only.
    """

    chat_models = (((str, _models.Model), ChatModel),)
    _of_run = False
    _run: _Run | None = None
    _told = False

    # The base compares the fields that all capabilities have, by which any two of ours are equal.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # --- the run begins ---

    async def for_run(self, ctx: Any) -> RAGMiddleware:
        """The instance of one run; what belongs to the run is kept there."""
        own = copy.copy(self)
        own._of_run = True
        return own

    def get_toolset(self) -> Any:
        return _KnowledgeToolset(self) if self.rag.tools else None

    # --- each model call ---

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """The request with the hint in its messages; the history is left alone, unless `persist_hint`."""
        run = self._current(ctx, request_context.messages)
        hint = await self.rag.hint(run.turn)
        if hint is None:
            return request_context
        first, self._told = not self._told, True
        if first and hint.event is not None:
            await ctx.emit(RAGHintEvent(hint=hint.event))
        messages = list(request_context.messages)
        if not hint.persist:
            messages = _with_hint(messages, hint, run.ask)
        elif first and not self._is_stored(messages, run.ask):
            for kept in (messages, ctx.messages):
                kept[:] = _with_hint(kept, shown_now(hint), run.ask)
        return replace(request_context, messages=messages)

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """The answer with the citations of its turn and its check in its metadata."""
        turn = self._current(ctx, request_context.messages).turn
        if response.tool_calls:
            return response
        beside = await checked_with([self.rag], response.text, turn)
        if turn.citations:
            beside[CITATIONS_KEY] = [citation.place() for citation in turn.citations]
        return replace(response, metadata={**(response.metadata or {}), **beside}) if beside else response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        """Every tool: one may run a subagent, whose numbers go on with ours."""
        with self._current(ctx, ctx.messages).turn.active():
            return await handler(args)

    # --- turns ---

    def _current(self, ctx: Any, messages: Sequence[Any]) -> _Run:
        """The run that `ctx` belongs to, from `messages` if it is new."""
        run = self._run or _runs.get(ctx.run_id)
        if run is None:
            run = self._begin(ctx, messages)
            if ctx.run_id is not None:
                _runs[ctx.run_id] = run
        if self._of_run:
            self._run = run
        return run

    def _begin(self, ctx: Any, messages: Sequence[Any]) -> _Run:
        ask = self._find_ask(messages, ctx.prompt)
        position = next((index for index, message in enumerate(messages) if _holds(message, ask)), 0)
        earlier = list(messages[:position])
        blocks = _blocks(ask.content) if ask is not None else None
        return _Run(self._start(blocks, lambda: list(self._history(earlier)), ctx.deps), ask)

    def _find_ask(self, messages: Sequence[Any], prompt: Any) -> Any | None:
        """The part with the user's words of this run; in a run that goes on without a prompt, the last there is."""
        parts = [part for message in messages for part in self._prompts(message)]
        asked = [part for part in parts if prompt is not None and part.content == prompt]
        if not asked:
            # What a tool shows to the model beside its result is a prompt part too.
            asked = [part for message in messages if not _has_results(message) for part in self._prompts(message)]
        return asked[-1] if asked else None

    def _is_stored(self, messages: Sequence[Any], ask: Any) -> bool:
        """Whether a hint follows the ask already: a run that goes on after an approval."""
        position = next((index for index, message in enumerate(messages) if _holds(message, ask)), len(messages))
        return any(self._is_hint(part) for message in messages[position:] for part in message.parts)

    def _prompts(self, message: Any) -> list[Any]:
        """The user's own prompt parts of a message."""
        return [part for part in message.parts if part.part_kind == "user-prompt" and not self._is_hint(part)]

    def _is_hint(self, part: Any) -> bool:
        # By its text: messages that follow each other may be merged, with their metadata.
        return part.part_kind == "user-prompt" and is_known_hint(_text(part.content))

    def _history(self, messages: Iterable[Any]) -> Iterator[ChatMessage]:
        for message in messages:
            if message.kind == "response":
                texts = [part.content for part in message.parts if part.part_kind == "text"]
                shown = citations([message])
                yield ChatMessage.model_validate({"role": "assistant", "content": "\n".join(texts), "artifact": shown})
                continue
            for part in message.parts:
                if part.part_kind == "user-prompt":
                    name = HINT_NAME if self._is_hint(part) else None
                    yield ChatMessage.model_validate({"role": "user", "content": _text(part.content), "name": name})
                elif part.part_kind == "tool-return":
                    metadata = part.metadata if isinstance(part.metadata, dict) else {}
                    yield ChatMessage.model_validate(
                        {
                            "role": "tool",
                            "content": part.model_response_str(),
                            "artifact": metadata.get("citations"),
                        }
                    )


class _KnowledgeToolset(_toolsets.AbstractToolset):  # type: ignore[misc, name-defined]
    """The tools of an instance. Arguments come unchecked, since the core's answer to wrong ones is better."""

    def __init__(self, middleware: RAGMiddleware) -> None:
        self._middleware = middleware

    @property
    def id(self) -> str:
        return self._middleware.rag.key

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools = await self._middleware.rag.list_tools(refresh=False)
        return {tool.name: self._offered(tool) for tool in tools}

    def _offered(self, tool: KnowledgeTool) -> Any:
        definition = _tools.ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
        )
        return _toolsets.ToolsetTool(toolset=self, tool_def=definition, max_retries=1, args_validator=_ANY)

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        turn = self._middleware._current(ctx, ctx.messages).turn
        return _tool_return(await self._middleware.rag.call_tool(tool_args, turn, name=name))


def _model_message(message: ChatMessage) -> Any:
    if message.role == "assistant":
        return _messages.ModelResponse(parts=[_messages.TextPart(message.text)])
    if message.role == "system":
        return _messages.ModelRequest(parts=[_messages.SystemPromptPart(message.text)])
    content = [_content(block) for block in message.content]
    return _messages.ModelRequest(parts=[_messages.UserPromptPart(content)])


def citations(result: Any) -> list[Citation]:
    """What each number in a run's result stands for (or in its messages); of the whole conversation in it."""
    messages = result if isinstance(result, Sequence) else result.all_messages()
    return collected(*(slot for message in messages for slot in _slots(message)))


def checked(result: Any) -> CheckedAnswer | None:
    """The check of the last answer in a run's result (or in its messages), with ``check_answer=True``."""
    messages = result if isinstance(result, Sequence) else result.all_messages()
    return check_in(message.metadata for message in messages)


def _slots(message: Any) -> Iterator[Any]:
    yield (message.metadata or {}).get(CITATIONS_KEY, ())
    for part in message.parts:
        if part.part_kind == "tool-return" and isinstance(part.metadata, dict):
            yield part.metadata.get("citations", ())


# --- placing the hint ---


def _with_hint(messages: Sequence[Any], hint: Hint, ask: Any) -> list[Any]:
    asking = next((message for message in messages if _holds(message, ask)), None)
    if asking is None:
        return list(messages)
    # A copy of the ask's message carries its instructions, which some models read from the last message.
    made = replace(asking, parts=[_messages.UserPromptPart(_hint_content(hint))])
    return with_hints(messages, [(hint, made)], is_ask=lambda message: message is asking, is_hint=_only_prompts)


def _holds(message: Any, ask: Any) -> bool:
    return ask is not None and message.kind == "request" and ask in message.parts


def _has_results(message: Any) -> bool:
    return any(part.part_kind in ("tool-return", "retry-prompt") for part in message.parts)


def _only_prompts(message: Any) -> bool:
    """A hint, or a reminder that was put in line behind the ask."""
    return message.kind == "request" and all(part.part_kind == "user-prompt" for part in message.parts)


# --- translation ---


def _tool_return(result: ToolResult) -> Any:
    images = [_content(block) for block in result.blocks if isinstance(block, DataBlock)]
    # One text: models get a list of several as JSON.
    content = [result.text, *images] if images else result.text
    return _messages.ToolReturn(content, metadata=result.structured())


def _hint_content(hint: Hint) -> str | list[Any]:
    """Text alone as a string: servers of local models take no parts."""
    text = plain_text(hint.blocks)
    return [_content(block) for block in hint.blocks] if text is None else text


def _text(content: Any) -> str:
    return "\n".join(block.text for block in _blocks(content) if isinstance(block, TextBlock))


def _content(block: ContentBlock) -> Any:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block.source, Base64Source):
        return _messages.BinaryContent.from_data_uri(f"data:{block.source.media_type};base64,{block.source.data}")
    return _messages.ImageUrl(str(block.source.url), media_type=block.source.media_type)


def _blocks(content: Any) -> list[ContentBlock]:
    """The text and the images of a prompt."""
    if isinstance(content, str):
        return [TextBlock(text=content)]
    blocks: list[ContentBlock] = []
    for item in content:
        if isinstance(item, str):
            blocks.append(TextBlock(text=item))
        elif isinstance(item, _messages.TextContent):
            blocks.append(TextBlock(text=item.content))
        elif isinstance(item, _messages.BinaryContent) and item.is_image:
            blocks.append(DataBlock(source=Base64Source(data=item.base64, media_type=item.media_type)))
    return blocks


__all__ = ["ChatModel", "RAGHintEvent", "RAGMiddleware", "checked", "citations"]
