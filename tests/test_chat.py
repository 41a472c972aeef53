"""Chat models: the client over loopback HTTP, and the tolerant reader."""

from __future__ import annotations

from typing import Any

import pytest

from agent_rag.chat import (
    ChatMessage,
    ChatReply,
    OpenAIChatModel,
    ToolCall,
    ToolSpec,
    as_chat_model,
    ask,
    read_json,
    system,
    user,
)
from agent_rag.content import TextBlock, URLSource
from agent_rag.errors import ChatError, ChatTimeoutError, ConfigurationError
from agent_rag.testing import ScriptedChatModel
from agent_rag.testing.knowledge import PIXEL, picture

from .http_stub import HTTPStub

TOOL = ToolSpec(name="t", description="d", parameters={"type": "object", "properties": {}})


def says(text: str | None, **message: Any) -> dict[str, Any]:
    """An answer of the endpoint."""
    return {"choices": [{"message": {"role": "assistant", "content": text, **message}}]}


def model_of(stub: HTTPStub, **options: Any) -> OpenAIChatModel:
    return OpenAIChatModel("m", base_url=f"{stub.url}/v1", api_key="secret", **options)


async def test_messages_tools_and_options_are_sent_in_openais_shape() -> None:
    """Roles, tool calls, tool results, and the body's options; the artifact and the name stay here."""
    messages = [
        system("be brief"),
        user("hello"),
        ChatMessage(role="assistant", tool_calls=[ToolCall(id="1", name="t", arguments={"ä": 1})]),
        ChatMessage(
            role="tool", content=[TextBlock(text="result")], tool_call_id="1", artifact={"secret": 1}, name="t"
        ),
    ]

    with HTTPStub(lambda path, body: says("fine")) as stub:
        async with model_of(stub, options={"temperature": 0}) as model:
            reply = await model(messages, tools=[TOOL])

    ((path, body, headers),) = stub.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer secret"
    assert body == {
        "model": "m",
        "temperature": 0,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "t", "arguments": '{"ä": 1}'}}],
            },
            {"role": "tool", "content": "result", "tool_call_id": "1"},
        ],
        "tools": [{"type": "function", "function": TOOL.model_dump()}],
    }
    assert reply == ChatReply(text="fine")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"name": "t", "arguments": '{"a": 1}'}, {"a": 1}),
        ({"name": "t", "arguments": {"a": 1}}, {"a": 1}),
        ({"name": "t", "arguments": ""}, {}),
        ({"name": "t", "arguments": None}, {}),
        ({"name": "t", "arguments": "{broken"}, "{broken"),
        ({"name": "t", "arguments": "[1]"}, "[1]"),
    ],
)
async def test_tool_calls_are_read(function: dict[str, Any], expected: Any) -> None:
    """As text or object; what is no JSON object stays text, for a short answer to the model. An id may be missing."""
    with HTTPStub(lambda path, body: says(None, tool_calls=[{"type": "function", "function": function}])) as stub:
        reply = await model_of(stub)([user("x")])

    assert reply.tool_calls == [ToolCall(id="call_0", name="t", arguments=expected)]


async def test_images_are_parts_for_those_who_see_and_notes_for_the_others() -> None:
    """Base64 as a data URL, an address as it is; never base64 in text."""
    block = picture()
    by_url = picture().model_copy(update={"source": URLSource(url="https://x.example/a.png", media_type="image/png")})
    message = ChatMessage(role="user", content=[TextBlock(text="look"), block, by_url])

    with HTTPStub(lambda path, body: says("ok")) as stub:
        await model_of(stub, supports_images=True)([message])
        await model_of(stub)([message])

    seeing, blind = (body["messages"][0]["content"] for body in stub.bodies)
    assert [part.get("image_url", part.get("text")) for part in seeing] == [
        "look",
        {"url": f"data:image/png;base64,{PIXEL}"},
        {"url": "https://x.example/a.png"},
    ]
    assert blind == "look" + "\n[image: diagram.png] a wiring diagram" * 2


@pytest.mark.parametrize(
    ("answer", "says_what"),
    [
        ((401, {"error": "no"}), "OPENAI_API_KEY"),
        ((400, {"error": "bad"}), "400"),
        ({"choices": []}, "no message"),
        ({"error": "quota"}, "no message"),
        ([], "no message"),
        (b"<html>", "no JSON"),
    ],
)
async def test_failures_are_chat_errors_that_say_what_to_do(answer: Any, says_what: str) -> None:
    """Without the key in them."""
    with HTTPStub(lambda path, body: answer) as stub, pytest.raises(ChatError, match=says_what) as caught:
        await model_of(stub, max_attempts=1)([user("x")])

    assert "secret" not in str(caught.value)


async def test_a_silent_endpoint_times_out() -> None:
    """With an error that is a TimeoutError too."""
    with HTTPStub(lambda path, body: None, hang=True) as stub, pytest.raises(ChatTimeoutError, match="timeout_s"):
        await model_of(stub, timeout_s=0.2, max_attempts=1)([user("x")])


async def test_structured_output_falls_back_where_the_server_refuses_it() -> None:
    """It is asked with a schema, and after a refusal never again."""

    def respond(path: str, body: Any) -> Any:
        return (400, {"error": "unknown field response_format"}) if "response_format" in body else says('{"a": 1}')

    with HTTPStub(respond) as stub:
        model = model_of(stub)
        answers = [await ask(model, [user("x")], {"type": "object"}) for _ in range(2)]

    assert answers == ['{"a": 1}'] * 2
    assert ["response_format" in body for body in stub.bodies] == [True, False, False]


async def test_a_model_without_structured_output_is_just_asked() -> None:
    """The reader is tolerant."""
    assert await ask(ScriptedChatModel("text"), [user("x")], {}) == "text"


def test_the_environment_configures_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENAI_MODEL, OPENAI_BASE_URL, OPENAI_API_KEY; without a model it says what to set."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("OPENAI_MODEL", "mine")
    assert repr(OpenAIChatModel()) == "OpenAIChatModel('mine', base_url='http://localhost:1/v1')"
    monkeypatch.delenv("OPENAI_MODEL")

    with pytest.raises(ConfigurationError, match="OPENAI_MODEL"):
        OpenAIChatModel()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("no json", []),
        ('{"a": 1}', [{"a": 1}]),
        ("```json\n[1, 2]\n```", [[1, 2]]),
        ('First [1], then {"b": [2,],}.', [[1], {"b": [2]}]),
        ("[1, [2", []),
        ("a ] [3]", [[3]]),
    ],
)
def test_json_is_found_amid_prose(text: str, values: list[Any]) -> None:
    """Outermost values in order; what cannot be read is passed over."""
    assert list(read_json(text)) == values


async def test_functions_and_invokable_models_become_chat_models() -> None:
    """A prompt function gets the messages' text; LangChain's `ainvoke` gets (role, text) pairs."""

    class Invokable:
        async def ainvoke(self, messages: list[tuple[str, str]]) -> Any:
            return type("Message", (), {"content": [{"type": "text", "text": f"{messages[0][0]}:"}, messages[0][1]]})()

    assert (await as_chat_model(lambda prompt: prompt.upper())([user("a"), user("b")])).text == "A\n\nB"
    assert (await as_chat_model(Invokable())([user("hello")])).text == "user:hello"
    model = ScriptedChatModel("x")
    assert as_chat_model(model) is model


async def test_rankings_and_queries_are_bounded() -> None:
    """A model that talks on costs at most max_tokens; where the server knows the newer name only, that one is used."""
    from agent_rag.retrieval import LLMQueryRewriter, LLMReranker
    from agent_rag.testing.knowledge import hit

    def respond(path: str, body: Any) -> Any:
        if "max_tokens" in body and body["model"] == "thinking":
            return 400, {"error": {"message": "max_tokens is not supported, use max_completion_tokens"}}
        return {"choices": [{"message": {"role": "assistant", "content": '{"ids": ["c1"], "queries": ["q"]}'}}]}

    with HTTPStub(respond) as server:
        for name in ("plain", "thinking"):
            model = OpenAIChatModel(name, base_url=server.url, max_attempts=1)
            assert not (await LLMReranker(model, max_tokens=7).rerank("q", [hit("text")])).degraded
            assert await LLMQueryRewriter(model, max_tokens=9)("q", []) == ["q"]
            await model.aclose()

    bounds = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.bodies]
    assert bounds == [(7, None), (9, None), (7, None), (None, 7), (9, None), (None, 9)]
