"""OpenAI's Agents SDK, over both of OpenAI's APIs; as `builtin_tools`, with the Responses API's tools that it runs."""

import subprocess

from agents import (
    Agent,
    ApplyPatchTool,
    LocalShellTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    ShellTool,
    function_tool,
    set_tracing_disabled,
)
from agents.editor import ApplyPatchResult
from openai import AsyncOpenAI

from tests.clients.frameworks.report import QUESTION, add, called, run


class Editor:
    """Records the operations that it should apply."""

    def create_file(self, operation):
        return self._record(operation)

    def update_file(self, operation):
        return self._record(operation)

    def delete_file(self, operation):
        return self._record(operation)

    def _record(self, operation):
        called.append([operation.type, operation.path, operation.diff])
        return ApplyPatchResult(status="completed", output="done")


def run_shell(request):
    """Run the commands of a call of `shell`."""
    commands = list(request.data.action.commands)
    called.append(commands)
    return "\n".join(subprocess.check_output(each, shell=True, text=True) for each in commands)


def run_local_shell(request):
    """Run the command of a call of `local_shell`."""
    command = list(request.data.action.command)
    called.append(command)
    return subprocess.check_output(command, text=True)


def tools_for(api: str) -> list:
    if api != "builtin_tools":
        return [function_tool(add)]
    return [ShellTool(executor=run_shell), LocalShellTool(executor=run_local_shell), ApplyPatchTool(editor=Editor())]


async def converse(api: str, url: str, stream: bool) -> str:
    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0)
    kind = OpenAIResponsesModel if api != "openai_chat" else OpenAIChatCompletionsModel
    model = kind(model="m", openai_client=client)
    agent = Agent(name="calculator", instructions="Be brief.", model=model, tools=tools_for(api))
    if not stream:
        return (await Runner.run(agent, QUESTION, max_turns=5)).final_output
    running = Runner.run_streamed(agent, QUESTION, max_turns=5)
    async for _ in running.stream_events():
        pass
    return running.final_output


run(converse)
