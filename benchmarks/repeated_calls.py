"""How long a real model repeats a call: loops as users reported them, with and without the rule against repeats.

Each script is an agent with one or two tools whose results never help: a job that stays queued, a file that is not
there, a search that finds nothing, a command without output, a list that the model reads again and again. The model is
asked until it answers, or 8 times; in the words of the dialect, without the line that asks for an answer.

    llama-server --model qwen2.5-coder-0.5b.gguf --port 8080 --ctx-size 8192
    python -m benchmarks.repeated_calls http://127.0.0.1:8080
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fcshim import Client
from fcshim.errors import ModelOutputError
from fcshim.messages import SystemMessage, TextPart, UserMessage
from fcshim.prompt.repetition import CallKey, call_key
from fcshim.prompt.styles import OWN

MAX_ROUNDS = 8
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


def list_files(folder: str) -> str:  # noqa: ARG001 - there is one folder
    """List the files of a folder."""
    return "main.py\nREADME.md"


class LoopScript(NamedTuple):
    """What the user says, and the tools."""

    user: str
    tools: tuple[Callable[[str], str], ...]


SCRIPTS = (
    LoopScript("Call job_status for job 17 until it is done.", (job_status,)),
    LoopScript("Call read_file with path config.yaml and tell me the port in it.", (read_file,)),
    LoopScript("Call run_command with ./start.sh until it prints its port.", (run_command,)),
    LoopScript("Find where the function load_settings is defined.", (search,)),
    LoopScript("Find the bug in the project in the folder src and fix it.", (list_files, read_file)),
    LoopScript("Check with the status of job a1 whether the build is done. Do not stop before it is.", (job_status,)),
)


async def run(url: str, script: LoopScript, repeatable: Sequence[str]) -> tuple[int, int, bool]:
    """Return the most equal calls that ran, the replies of the model, and whether it answered."""
    calls: Counter[CallKey] = Counter()
    replies, answered = 0, False
    messages = (SystemMessage((TextPart(RULES),)), UserMessage((TextPart(script.user),)))
    async with Client(url, tools="prompt", prompt_style=OWN, repeatable_tools=repeatable) as client:
        rounds = client.rounds(messages, script.tools, max_rounds=MAX_ROUNDS, temperature=0, max_tokens=80)
        try:
            async for each in rounds:
                replies += 1
                calls.update(
                    {call_key(call.tool_call_name, call.tool_call_arguments_complete) for call in each.reply.tool_calls}
                )
                answered = each.answer is not None
        except ModelOutputError:  # no answer within the rounds
            replies += 1
    return max(calls.values(), default=0), replies, answered


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
