"""How long a real model repeats a call: loops as users reported them, with and without the rule against repeats.

Each script is an agent with a tool whose results never help: a job that stays queued, a file that is not there, a
search that finds nothing, a command without output. The model has made the same call twice, and is asked until it
answers, or 6 times; in the words of the dialect, without the line after the results that asks for an answer.

    llama-server --model qwen2.5-coder-0.5b.gguf --port 8080 --ctx-size 8192
    python -m benchmarks.repeated_calls http://127.0.0.1:8080
"""

import argparse
import asyncio
import inspect
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fcshim import Client
from fcshim.errors import ModelOutputError
from fcshim.messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage
from fcshim.prompt.repetition import CallKey, call_key
from fcshim.prompt.styles import OWN

BEGUN, MAX_ROUNDS = 2, 6
RULES = "You are an agent. Work with the functions until the task is done. Always make the next call."


def job_status(job: str) -> str:
    """Return the status of a job."""
    return f"{job}: queued"


def read_file(path: str) -> str:
    """Read a text file."""
    return f"error: {path}: no such file"


def search(query: str) -> str:  # noqa: ARG001 - it finds nothing
    """Search the project for a text."""
    return "0 results"


def run_command(command: str) -> str:  # noqa: ARG001 - it prints nothing
    """Run a shell command and return its output."""
    return ""


class LoopScript(NamedTuple):
    """What the user says, the tool, and the argument with which the model has called it twice."""

    user: str
    tool: Callable[[str], str]
    argument: str

    def begin(self) -> tuple[Message, ...]:
        """Return the conversation after the second call."""
        messages: list[Message] = [SystemMessage((TextPart(RULES),)), UserMessage((TextPart(self.user),))]
        (name,) = inspect.signature(self.tool).parameters
        for number in range(BEGUN):
            call = ToolCall(f"call_{number}", self.tool.__name__, json.dumps({name: self.argument}))
            messages.append(AssistantMessage((), (call,)))
            messages.append(ToolMessage(call.id, (TextPart(self.tool(self.argument)),), call.name))
        return tuple(messages)


SCRIPTS = (
    LoopScript("Wait until job 17 is done, then tell me its result.", job_status, "17"),
    LoopScript("Read config.yaml and tell me the port in it.", read_file, "config.yaml"),
    LoopScript("Start the server with ./start.sh and tell me its port.", run_command, "./start.sh"),
    LoopScript("Find where the function load_settings is defined.", search, "load_settings"),
)


async def run(url: str, script: LoopScript, repeatable: Sequence[str]) -> tuple[int, int, bool]:
    """Return the most equal calls that were made, the replies of the model, and whether it answered."""
    calls: Counter[CallKey] = Counter()
    replies, answered, messages = 0, False, script.begin()
    for message in messages:
        calls.update(call_key(call.name, call.arguments) for call in getattr(message, "tool_calls", ()))
    async with Client(url, tools="prompt", prompt_style=OWN, repeatable_tools=repeatable) as client:
        rounds = client.rounds(messages, (script.tool,), max_rounds=MAX_ROUNDS, temperature=0, max_tokens=80)
        try:
            async for each in rounds:
                replies += 1
                calls.update(
                    {call_key(call.tool_call_name, call.tool_call_arguments_complete) for call in each.reply.tool_calls}
                )
                answered = each.answer is not None
        except ModelOutputError:  # no answer within the rounds
            replies += 1
    return max(calls.values()), replies, answered


async def compare(url: str) -> None:
    """Print two rows for each script, with the rule and without it."""
    print("rule, equal calls, replies, answered, script")
    for script in SCRIPTS:
        for rule, repeatable in (("on ", ()), ("off", ("*",))):
            equal, replies, answered = await run(url, script, repeatable)
            print(f"{rule} {equal:2} {replies:2} {'yes' if answered else 'no ':3} {script.user}", flush=True)


def main() -> None:
    """Compare at an endpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    asyncio.run(compare(parser.parse_args().url))


if __name__ == "__main__":
    main()
