"""llm, as its command `llm` uses an endpoint that speaks OpenAI's API."""

from llm.default_plugins.openai_models import AsyncChat

from tests.clients.frameworks.report import QUESTION, add, run


async def converse(api: str, url: str, stream: bool) -> str:
    model = AsyncChat("m", api_base=f"{url}/v1", key="x", supports_tools=True)
    chain = model.conversation().chain(QUESTION, tools=[add], stream=stream)
    *_, answer = [await response.text() async for response in chain.responses()]
    return answer


run(converse)
