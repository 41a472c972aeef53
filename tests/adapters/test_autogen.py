"""The AutoGen adapter: the shared contract, and what only AutoGen has."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("autogen_agentchat", reason="scripts/test adapters autogen installs it")

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import MemoryQueryEvent, ModelClientStreamingChunkEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, FunctionCall
from autogen_core import Image as AutogenImage
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import ImageResultContent, ToolResult
from PIL import Image

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.autogen import RAGMiddleware as AutoGenRAG
from agent_rag.middleware.autogen import checked, citations, rag_options
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import PIXEL


class ScriptedClient(ChatCompletionClient):
    """An AutoGen client that asks a ScriptedChatModel."""

    def __init__(self, script: ScriptedChatModel) -> None:
        self.script = script
        self.made: list[str] = []
        """Chunks so far."""

    async def create(self, messages: Any, *, tools: Any = (), **options: Any) -> CreateResult:
        if (token := options.get("cancellation_token")) is not None and token.is_cancelled():
            raise asyncio.CancelledError
        reply = await self.script([one for message in messages for one in neutral(message)], tools=specs(tools))
        return CreateResult(
            finish_reason="function_calls" if reply.tool_calls else "stop",
            content=calls(reply) or reply.text,
            usage=RequestUsage(0, 0),
            cached=False,
        )

    async def create_stream(self, *args: Any, **options: Any) -> AsyncGenerator[str | CreateResult, None]:
        result = await self.create(*args, **options)
        if isinstance(result.content, str):
            for chunk in chunks_of(result.content):
                self.made.append(chunk)
                yield chunk
        yield result

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, *args: Any, **options: Any) -> int:
        return 0

    remaining_tokens = count_tokens

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=self.script.supports_images,
            function_calling=True,
            json_output=False,
            family="scripted",
            structured_output=False,
        )

    capabilities = model_info


def chunks_of(text: str) -> list[str]:
    """Two halves."""
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


def calls(reply: ChatReply) -> list[FunctionCall]:
    return [FunctionCall(id=one.id, name=one.name, arguments=json.dumps(one.arguments)) for one in reply.tool_calls]


def specs(tools: Any) -> list[ToolSpec]:
    keep = ("name", "description", "parameters")
    return [ToolSpec(**{key: tool[key] for key in keep}) for tool in tools]


def neutral(message: Any) -> list[ChatMessage]:
    if isinstance(message, SystemMessage):
        return [ChatMessage(role="system", content=[TextBlock(text=message.content)])]
    if isinstance(message, FunctionExecutionResultMessage):
        return [ChatMessage(role="tool", content=[TextBlock(text=result.content)]) for result in message.content]
    if isinstance(message, AssistantMessage):
        text = message.content if isinstance(message.content, str) else ""
        return [ChatMessage(role="assistant", content=[TextBlock(text=text)])]
    content = [message.content] if isinstance(message.content, str) else message.content
    return [ChatMessage(role="user", content=[block(part) for part in content])]


def block(part: str | AutogenImage) -> TextBlock | DataBlock:
    if isinstance(part, str):
        return TextBlock(text=part)
    return DataBlock(source=Base64Source(data=encoded(part.image), media_type="image/png"))


def encoded(image: Image.Image) -> str:
    """PIXEL for an image with its pixels: AutoGen has pixels, not files."""
    pixel = Image.open(io.BytesIO(base64.b64decode(PIXEL))).convert("RGB")
    return PIXEL if (image.size, image.tobytes()) == (pixel.size, pixel.tobytes()) else "other"


def agent_of(model: ScriptedChatModel, *middlewares: RAGMiddleware, name: str = "a", **options: Any) -> AssistantAgent:
    own = ("model_client_stream",)
    keep = {key: options.pop(key) for key in own if key in options}
    mine = {key: options.pop(key) for key in ("context", "supports_images") if key in options}
    made = rag_options(*(AutoGenRAG(middleware, **mine) for middleware in middlewares), **options)
    return AssistantAgent(name, ScriptedClient(model), max_tool_iterations=10, **keep, **made)


def outcome_of(result: TaskResult, agent: AssistantAgent) -> Outcome:
    found = [item.metadata for one in result.messages if isinstance(one, MemoryQueryEvent) for item in one.content]
    return Outcome(
        text=result.messages[-1].content,
        citations=[citation for about in found if "tool" in about for citation in about["citations"]],
        events=[about for about in found if "tool" not in about],
        cited=citations(result),
        checked=checked(agent._model_context),
    )


class TestAutoGen(AdapterContract):
    same_agent = False
    tool_images = False
    subagents = False  # nothing is around the agent's other tools

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        made = SimpleNamespace(context=None)
        made.agent = agent_of(
            model, *middlewares, context=lambda: made.context, supports_images=supports_images, **self.options()
        )
        return made

    def options(self) -> dict[str, Any]:
        return {}

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        return outcome_of(await agent.agent.run(task=text), agent.agent)

    async def stored(self, agent: Any, session: str = "s") -> str:
        return json.dumps(await agent.agent.save_state())

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        parts = [part async for part in agent.agent.run_stream(task=text)]
        return outcome_of(parts[-1], agent.agent)


class TestStreamedAutoGen(TestAutoGen):
    """The same scenarios through `run_stream` with a streaming client."""

    def options(self) -> dict[str, Any]:
        return {"model_client_stream": True}

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        return await self.stream(agent, text)

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        """Each answer comes in its chunks, before the message that holds it."""
        parts = [part async for part in agent.agent.run_stream(task=text)]
        outcome = outcome_of(parts[-1], agent.agent)
        chunks = [part.content for part in parts[:-2] if isinstance(part, ModelClientStreamingChunkEvent)]
        assert chunks == chunks_of(outcome.text)
        return outcome


async def test_a_stream_is_live() -> None:
    """The hint's event comes before the model speaks, and each chunk before the next is made."""
    client = ScriptedClient(ScriptedChatModel(call(query="more"), "one two"))
    agent = AssistantAgent(
        "a",
        client,
        max_tool_iterations=10,
        model_client_stream=True,
        **rag_options(static(FactBase()), agentic(FactBase("faq"))),
    )

    parts = [(part, list(client.made)) async for part in agent.run_stream(task="hello")]

    _, hint, *between, first, second, answer, result = parts
    assert isinstance(hint[0], MemoryQueryEvent)
    assert [len(client.script.inputs), hint[1]] == [2, []]
    assert "MemoryQueryEvent" in [type(part).__name__ for part, made in between if not made]
    assert [(part.content, made) for part, made in (first, second)] == [("one", ["one"]), (" two", ["one", " two"])]
    assert (answer[0].content, type(result[0])) == ("one two", TaskResult)


async def test_concurrent_runs_of_one_agent_share_its_context() -> None:
    """Probe, without a middleware: the second run's model reads the first's question, so each run has its own agent."""
    model = ScriptedChatModel(otherwise="done", delay_s=0.05)
    agent = AssistantAgent("a", ScriptedClient(model))

    await asyncio.gather(agent.run(task="one"), agent.run(task="two"))

    assert "one" in spoken(model.inputs[-1])
    assert "two" in spoken(model.inputs[-1])


def test_an_image_of_a_tool_result_is_base64_text() -> None:
    """Probe: AutoGen flattens tool results to text, images to their base64, so ours have none."""
    image = AutogenImage.from_base64(PIXEL)

    text = ToolResult(name="t", result=[ImageResultContent(content=image)]).to_text()

    assert image.to_base64() in text


async def test_a_cancelled_token_ends_the_run() -> None:
    """A search that the token cancels does not leave the run waiting for ever."""
    base, token = FactBase(delay_s=30), CancellationToken()
    agent = agent_of(ScriptedChatModel(call(query="x"), "done"), agentic(base))
    running = asyncio.create_task(agent.run(task="hello", cancellation_token=token))
    await base.asked.wait()

    token.cancel()

    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_team_shares_the_middleware_and_its_events() -> None:
    """In a team both agents get the hint for the user's message, and no message type has to be registered."""
    base = FactBase()
    first, second = ScriptedChatModel(call(query="more"), "one"), ScriptedChatModel("two")
    rag = [static(base), agentic(FactBase("faq"))]
    agents = [agent_of(first, *rag, name="first"), agent_of(second, *rag, name="second")]

    result = await RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3)).run(task="hello")

    assert [message.content for message in result.messages if message.source == "second"][-1] == "two"
    assert "FACT(hello)" in spoken(second.inputs[0])
    assert "one" in spoken(second.inputs[0])
    assert base.queries == [["hello"], ["hello"]]


async def test_contexts_memories_and_tools_of_the_user_stay() -> None:
    """What the agent has besides is kept, and a bounded context goes on bounding."""

    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    model = ScriptedChatModel("one", "two", "three")
    agent = agent_of(
        model, agentic(FactBase()), static(FactBase("faq")), tools=[add], model_context=BufferedChatCompletionContext(1)
    )

    for text in ("first", "second"):
        await agent.run(task=text)

    assert [tool.name for tool in model.tools[1]] == ["add", "search_knowledge"]
    assert "first" not in spoken(model.inputs[1])
    assert "FACT(second)" in spoken(model.inputs[1])


async def test_fields_of_the_store_reach_the_model() -> None:
    """With filter_fields="auto" the tool is described when the model is asked."""

    class Listing(FactBase):
        async def list_documents(self) -> list[Any]:
            return [SimpleNamespace(metadata={"kind": "manual"})]

    model = ScriptedChatModel("done")

    await agent_of(model, agentic(Listing(), filter_fields="auto")).run(task="hello")

    assert "- kind (text, one of manual)" in model.tools[0][0].parameters["properties"]["filter"]["description"]


async def test_history_is_given_to_the_rewriter() -> None:
    """Messages of earlier runs, oldest first, without hints."""
    seen: list[Any] = []

    async def rewrite(text: str, history: Sequence[ChatMessage]) -> list[str]:
        seen.append([(message.role, message.text) for message in history])
        return [text]

    parameters = RAGMiddleware.Parameters(mode="static", persist_hint=True)
    agent = agent_of(ScriptedChatModel("one", "two"), RAGMiddleware([FactBase()], parameters, query_rewriter=rewrite))

    await agent.run(task="hello")
    await agent.run(task="second")

    assert seen == [[], [("user", "hello"), ("assistant", "one")]]


async def test_a_loaded_conversation_goes_on() -> None:
    """State saved by one agent is the conversation of another."""
    model = ScriptedChatModel("one", "two")
    before, after = agent_of(model, static(FactBase())), agent_of(model, static(FactBase()))
    await before.run(task="hello")

    await after.load_state(await before.save_state())
    await after.run(task="second")

    assert [message.text for message in model.inputs[1] if message.role != "system"][:3] == ["hello", "one", "second"]
    assert isinstance((await after.model_context.get_messages())[0], UserMessage)


def test_the_example_runs() -> None:
    """examples/agents/autogen_agent.py prints a cited answer, offline."""
    example = Path(__file__).resolve().parents[2] / "examples/agents/autogen_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    kinds = ["UserMessage", "AssistantMessage", "FunctionExecutionResultMessage", "AssistantMessage"]
    assert result.stdout.endswith(f"stored messages: {kinds}\n")
