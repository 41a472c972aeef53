"""AutoGen: an agent with the hint and the tool.

    pip install 'agent-rag-middleware[autogen]'

Runs offline with a replayed model; put your own client in its place.
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MemoryQueryEvent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
