"""The contract of a framework adapter, as tests: the same scenarios in every framework, with a scripted model.

An adapter's test file says how to build and run an agent of its framework::

    from agent_rag.testing import AdapterContract, Outcome, ScriptedChatModel

    class TestMyFramework(AdapterContract):
        def make_agent(self, model, middlewares, *, supports_images=False): ...
        async def run(self, agent, text, *, session="s", context=None): ...
        async def stored(self, agent, session="s"): ...
        async def stream(self, agent, text, *, session="s"): ...
        def make_caller(self, model, middlewares, expert): ...

The framework's model in these tests is a small subclass of its model base class that turns its messages into
`ChatMessage` (system, user, assistant, tool; images as DataBlock) and its tools into `ToolSpec`, asks the
`ScriptedChatModel`, and turns the `ChatReply` back. A tool result is role "tool" there, whatever its own name is.

What a framework cannot do is switched off by an attribute, with a probe in the adapter's own tests that shows it.
"""

from .base import AdapterFixtures, Outcome, agentic, static
from .both import AdapterTogether
from .hints import AdapterStatic
from .numbers import AdapterNumbers
from .tools import AdapterAgentic


class AdapterContract(AdapterStatic, AdapterAgentic, AdapterNumbers, AdapterTogether):
    """All scenarios; subclass it and say how to build and run an agent."""


__all__ = ["AdapterContract", "AdapterFixtures", "Outcome", "agentic", "static"]
