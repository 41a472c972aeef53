"""The smolagents adapter: the shared contract, and what only smolagents has."""

from __future__ import annotations

import asyncio
import base64
import inspect
import io
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="scripts/test adapters smolagents installs it")

from PIL import Image
from smolagents import CodeAgent, ToolCallingAgent
from smolagents.agents import ToolOutput
from smolagents.memory import ActionStep, FinalAnswerStep
from smolagents.models import ChatMessage as SmolMessage
from smolagents.models import (
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    Model,
    get_clean_message_list,
    get_tool_json_schema,
)

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.errors import ConfigurationError
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.smolagents import RAGMiddleware as SmolRAG
from agent_rag.middleware.smolagents import attach, checked, citations
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import spoken
from agent_rag.testing.knowledge import PIXEL, hit

ROLES = {"tool-call": "assistant", "tool-response": "tool"}


class ScriptedModel(Model):
    """A smolagents model that asks a ScriptedChatModel."""

    def __init__(self, script: ScriptedChatModel) -> None:
        super().__init__(model_id="scripted")
        self.script = script

    def generate(self, messages: list[Any], *args: Any, tools_to_call_from: Any = None, **options: Any) -> SmolMessage:
        reply = self.script.answer([neutral(message) for message in messages], tools=specs(tools_to_call_from))
        return SmolMessage(role="assistant", content=reply.text or "", tool_calls=calls(reply))


class StreamedModel(ScriptedModel):
    """The same, in one part."""

    def generate_stream(self, *args: Any, **options: Any) -> Any:
        message = ScriptedModel.generate(self, *args, **options)
        for one in message.tool_calls:
            one.function.arguments = json.dumps(one.function.arguments)
        parts = [
            ChatMessageToolCallStreamDelta(index=at, id=one.id, type="function", function=one.function)
            for at, one in enumerate(message.tool_calls)
        ]
        yield ChatMessageStreamDelta(content=message.content, tool_calls=parts)


class PlainModel(ScriptedModel):
    """One that answers in text, as code agents want it."""

    def generate(self, messages: list[Any], *args: Any, **options: Any) -> SmolMessage:
        reply = self.script.answer([neutral(message) for message in messages])
        return SmolMessage(role="assistant", content=reply.text)


def calls(reply: ChatReply) -> list[ChatMessageToolCall]:
    """Also of a final answer, which is a tool call here."""
    made = [(one.id, one.name, one.arguments) for one in reply.tool_calls]
    return [
        ChatMessageToolCall(
            id=id, type="function", function=ChatMessageToolCallFunction(name=name, arguments=arguments)
        )
        for id, name, arguments in made or [("last", "final_answer", {"answer": reply.text})]
    ]


def specs(tools: Any) -> list[ToolSpec]:
    own = [get_tool_json_schema(tool)["function"] for tool in tools or [] if tool.name != "final_answer"]
    return [ToolSpec(**schema) for schema in own]


def neutral(message: SmolMessage) -> ChatMessage:
    role = getattr(message.role, "value", message.role)
    return ChatMessage(role=ROLES.get(role, role), content=[block(part) for part in message.content])


def block(part: dict[str, Any]) -> TextBlock | DataBlock:
    if part["type"] == "text":
        return TextBlock(text=part["text"].removeprefix("New task:\n"))
    return DataBlock(source=Base64Source(data=encoded(part["image"]), media_type="image/png"))


def encoded(image: Image.Image) -> str:
    """PIXEL for an image with its pixels: smolagents has pixels, not files."""
    pixel = Image.open(io.BytesIO(base64.b64decode(PIXEL)))
    return PIXEL if (image.size, image.tobytes()) == (pixel.size, pixel.tobytes()) else "other"


def agent_of(
    model: ScriptedChatModel, *middlewares: RAGMiddleware, kind: type[ScriptedModel] = ScriptedModel, **options: Any
) -> ToolCallingAgent:
    keep = {name: options.pop(name) for name in ("context", "supports_images") if name in options}
    plain = ToolCallingAgent(tools=[], model=kind(model), verbosity_level=0, **options)
    return attach(plain, *(SmolRAG(middleware, **keep) for middleware in middlewares))


class TestSmolagents(AdapterContract):
    same_agent = False
    cancels = False
    stream_events = False
    subagents = False  # nothing is around the agent's other tools

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        made = SimpleNamespace(context=None)
        made.agent = self.agent_of(model, *middlewares, context=lambda: made.context, supports_images=supports_images)
        return made

    def agent_of(self, *arguments: Any, **options: Any) -> ToolCallingAgent:
        return agent_of(*arguments, **options)

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        answer = await asyncio.to_thread(agent.agent.run, text, reset=False)
        cited = citations(agent.agent)
        return Outcome(
            text=answer,
            citations=[one.model_dump(mode="json") for one in cited],
            cited=cited,
            checked=checked(agent.agent),
        )

    async def stored(self, agent: Any, session: str = "s") -> str:
        return json.dumps(agent.agent.memory.get_full_steps(), default=repr)

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        parts = await asyncio.to_thread(lambda: list(agent.agent.run(text, reset=False, stream=True)))
        cited = [part.output.citations for part in parts if isinstance(part, ToolOutput) and not part.is_final_answer]
        last = [part for part in parts if isinstance(part, FinalAnswerStep)][-1]
        slots = [one for listed in cited for one in listed]
        return Outcome(text=last.output, citations=slots, cited=citations(agent.agent), checked=checked(agent.agent))


class TestStreamedSmolagents(TestSmolagents):
    """The same scenarios through ``run(stream=True)``, with the citations from the stream's tool outputs."""

    def agent_of(self, *arguments: Any, **options: Any) -> ToolCallingAgent:
        return agent_of(*arguments, kind=StreamedModel, stream_outputs=True, **options)

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        return await self.stream(agent, text)


def test_smolagents_is_synchronous() -> None:
    """Probe: there is no coroutine that could be cancelled while it searches."""
    public = [name for name in dir(ToolCallingAgent) if not name.startswith("_")]

    assert not any(inspect.iscoroutinefunction(getattr(ToolCallingAgent, name)) for name in public)


def test_concurrent_runs_of_one_agent_share_its_memory() -> None:
    """Probe, without a middleware: a second run wipes what the first has kept, so each run has its own agent."""
    entered, ended = threading.Event(), threading.Event()

    def step(messages: Sequence[ChatMessage]) -> str:
        if not entered.is_set():
            entered.set()
            ended.wait(10)
        return "done"

    agent = ToolCallingAgent(tools=[], model=ScriptedModel(ScriptedChatModel(otherwise=step)), verbosity_level=0)
    first = threading.Thread(target=agent.run, args=("one",))
    first.start()
    entered.wait(10)

    agent.run("two")
    ended.set()
    first.join()

    assert [type(step).__name__ for step in agent.memory.steps] == ["TaskStep", "ActionStep", "ActionStep"]
    assert agent.memory.steps[0].task == "two"


def test_a_callback_cannot_write_to_the_stream() -> None:
    """Probe: what a step callback returns is dropped, so there is no stream event."""
    mark = object()
    agent = agent_of(ScriptedChatModel("done"), static(FactBase()), step_callbacks={ActionStep: [lambda step: mark]})

    parts = list(agent.run("hello", stream=True))

    assert parts
    assert mark not in parts


def test_a_code_agent_calls_the_tool_by_position_and_reads_citations() -> None:
    """Code gets the answer as text, with the citations beside it; the hint is in the model's input."""
    code = 'found = search_knowledge("pumps", ["faq"], 1)\nprint(found)\nfinal_answer(found.citations[0]["source"])'
    model = ScriptedChatModel(f"<code>\n{code}\n</code>")
    agent = CodeAgent(tools=[], model=PlainModel(model), verbosity_level=0)

    answer = attach(agent, static(FactBase()), agentic(FactBase("faq"))).run("hello")

    assert answer == "faq.md"
    assert "FACT(hello)" in spoken(model.inputs[0])
    assert [one.number for one in citations(agent)] == [1, 2]


def test_the_first_plan_sees_the_hint_too() -> None:
    """A plan is asked for in other messages; the hint follows the last of the user's, and there is one search."""
    base = FactBase()
    model = ScriptedChatModel("a plan", "done")

    agent_of(model, static(base), planning_interval=5).run("hello")

    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert base.queries == [["hello"]]


def test_additional_arguments_are_not_searched_for() -> None:
    """What smolagents appends to the task is no part of the query."""
    base = FactBase()

    agent_of(ScriptedChatModel("done"), static(base)).run("hello", additional_args={"table": [1, 2]})

    assert base.queries == [["hello"]]


def test_the_hint_survives_models_that_flatten_messages() -> None:
    """Such models send the first part of a message only: the hint is one text."""
    model = ScriptedChatModel("done")
    seen: list[Any] = []

    class Flattening(ScriptedModel):
        def generate(self, messages: list[Any], *args: Any, **options: Any) -> SmolMessage:
            seen.extend(get_clean_message_list(messages, flatten_messages_as_text=True))
            return super().generate(messages, *args, **options)

    hits = [hit("FIRST text", document_id="a"), hit("SECOND text", document_id="b")]

    agent_of(model, static(FactBase(hits=hits)), kind=Flattening).run("hello")

    (system, user) = seen
    assert "FIRST" not in system["content"]
    assert user["content"].index("hello") < user["content"].index("FIRST") < user["content"].index("SECOND")


def test_history_is_given_to_the_rewriter() -> None:
    """Tasks and final answers of earlier runs, oldest first."""
    seen: list[Any] = []

    async def rewrite(text: str, history: Sequence[ChatMessage]) -> list[str]:
        seen.append([(message.role, message.text) for message in history])
        return [text]

    rag = RAGMiddleware([FactBase()], RAGMiddleware.Parameters(mode="static"), query_rewriter=rewrite)
    agent = agent_of(ScriptedChatModel("one", "two"), rag)

    agent.run("hello")
    agent.run("second", reset=False)

    assert seen[-1] == [("user", "hello"), ("assistant", "one")]


def test_fields_of_the_store_reach_the_model() -> None:
    """With filter_fields="auto" the tool is described when the model is asked."""

    class Listing(FactBase):
        async def list_documents(self) -> list[Any]:
            return [SimpleNamespace(metadata={"kind": "manual"})]

    model = ScriptedChatModel("done")

    agent_of(model, agentic(Listing(), filter_fields="auto")).run("hello")

    assert "- kind (text, one of manual)" in model.tools[0][0].parameters["properties"]["filter"]["description"]


def test_the_users_model_is_left_alone_and_an_agent_is_attached_once() -> None:
    """The agent has a copy of the same class name; a second attach says what to do."""
    model = ScriptedModel(ScriptedChatModel("done"))
    agent = attach(ToolCallingAgent(tools=[], model=model, verbosity_level=0), static(FactBase()))

    assert type(model) is ScriptedModel
    assert type(agent.model).__name__ == "ScriptedModel"
    assert not hasattr(agent.model, "generate_stream")
    with pytest.raises(ConfigurationError, match="in one call"):
        attach(agent, agentic(FactBase()))


def test_an_agent_with_live_knowledge_is_not_saved() -> None:
    """Saving it says why, instead of writing a half of it."""
    agent = agent_of(ScriptedChatModel("done"), agentic(FactBase()))

    with pytest.raises(ConfigurationError, match="attach it anew"):
        agent.tools["search_knowledge"].to_dict()


def test_the_example_runs() -> None:
    """examples/agents/smolagents_agent.py prints a cited answer, offline."""
    example = Path(__file__).resolve().parents[2] / "examples/agents/smolagents_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored steps: ['TaskStep', 'ActionStep', 'ActionStep']\n")
