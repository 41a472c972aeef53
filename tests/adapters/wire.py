"""An OpenAI-compatible server that takes text only, as llama.cpp, vLLM and others do for models without images."""

from __future__ import annotations

from typing import Any

from tests.http_stub import HTTPStub


def text_only_server() -> HTTPStub:
    """Refuses lists of parts with 500; asks for one search, then answers with the content of the last message."""

    def respond(path: str, body: Any) -> Any:
        messages = body["messages"]
        if any(not isinstance(message.get("content") or "", str) for message in messages):
            return 500, {"error": {"message": "content is a list of parts"}}
        searched = any(message["role"] == "tool" for message in messages)
        function = {"name": "search_knowledge", "arguments": '{"query": "more"}'}
        calls = [{"id": "call_1", "type": "function", "function": function}]
        answer: dict[str, Any] = {"role": "assistant", "content": str(messages[-1]["content"])}
        if body.get("tools") and not searched:
            answer = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": answer, "finish_reason": "tool_calls" if "tool_calls" in answer else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        made = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
        return {**made, "choices": [choice]}

    return HTTPStub(respond)


def assert_text_went_out(server: HTTPStub) -> None:
    """Two calls, the hint and the tool's result as strings, both under numbers of their own."""
    assert len(server.bodies) == 2
    contents = [message.get("content") or "" for message in server.bodies[-1]["messages"]]
    assert any("[1] (source: docs.md)\nFACT(hello)" in content for content in contents)
    assert any("[2] (source: faq.md)\nFACT(more)" in content for content in contents)
