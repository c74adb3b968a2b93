"""LlamaIndex's agent for function calling, over the Chat API of any server."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from tests.clients.frameworks.report import QUESTION, add, run


async def converse(api: str, url: str, stream: bool) -> str:
    model = OpenAILike(
        model="m", api_base=url + "/v1", api_key="x", is_chat_model=True, is_function_calling_model=True, max_retries=0
    )
    tools = [FunctionTool.from_defaults(add)]
    agent = FunctionAgent(tools=tools, llm=model, system_prompt="Be brief.", streaming=stream)
    return str(await agent.run(QUESTION))


run(converse)
