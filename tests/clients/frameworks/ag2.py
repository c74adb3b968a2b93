"""AG2's agent, whose model is one of the Chat API at an address."""

from ag2 import Agent
from ag2.config import OpenAIConfig

from tests.clients.frameworks.report import QUESTION, add, run


async def converse(api: str, url: str, stream: bool) -> str:
    config = OpenAIConfig(model="m", base_url=url + "/v1", api_key="x", streaming=stream)
    agent = Agent("calculator", prompt="Be brief.", config=config, tools=[add])
    return (await agent.ask(QUESTION)).body


run(converse)
