"""Answers that come in pieces, over loopback HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_rag.chat import ChatReply, OpenAIChatModel, ToolCall, user
from agent_rag.errors import ChatError

from .http_stub import HTTPStub


def events(*deltas: dict[str, Any], end: bool = True) -> bytes:
    """An event stream with these deltas, as OpenAI's documentation shows it."""
    lines = [json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    if end:
        lines += [json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}), "[DONE]"]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


async def pieces(answer: Any, **options: Any) -> list[str | ChatReply]:
    with HTTPStub(lambda path, body: answer) as stub:
        model = OpenAIChatModel("m", base_url=f"{stub.url}/v1", max_attempts=1)
        try:
            return [piece async for piece in model.stream([user("x")], **options)]
        finally:
            await model.aclose()
            assert stub.bodies[0]["stream"] is True


async def test_text_comes_in_pieces_and_last_the_whole() -> None:
    """Pieces without text are left out."""
    told = await pieces(events({"role": "assistant", "content": ""}, {"content": "Thirty "}, {"content": "seconds."}))

    assert told == ["Thirty ", "seconds.", ChatReply(text="Thirty seconds.")]


async def test_tool_calls_are_put_together() -> None:
    """Name and id come first, the arguments in pieces; two calls are told apart by their index."""
    told = await pieces(
        events(
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"q'}}]},
            {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "u", "arguments": "{}"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '": 1}'}}]},
        )
    )

    assert told == [
        ChatReply(tool_calls=[ToolCall(id="a", name="t", arguments={"q": 1}), ToolCall(id="b", name="u", arguments={})])
    ]


async def test_a_server_that_does_not_stream_gives_the_whole() -> None:
    """It answers JSON as if it had not been asked to."""
    told = await pieces({"choices": [{"message": {"role": "assistant", "content": "All at once."}}]})

    assert told == [ChatReply(text="All at once.")]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (events({"content": "Thir"}, end=False), "ended its answer in the middle"),
        (b'data: {"error": {"message": "overloaded"}}\n\n', "failed while it answered: .*overloaded"),
        (b"data: {broken\n\n", "sent no JSON"),
        ((500, {"error": "down"}), "answered 500"),
        ((401, {"error": "no"}), "check api_key or OPENAI_API_KEY"),
    ],
)
async def test_what_goes_wrong_is_a_chat_error(answer: Any, message: str) -> None:
    """Also in the middle of an answer."""
    with pytest.raises(ChatError, match=message):
        await pieces(answer)
