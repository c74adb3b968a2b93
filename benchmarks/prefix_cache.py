"""What a coding agent costs per turn: the tokens of its prompts that a server with a prefix cache reads anew.

Each agent carries out the plan of `tests/clients` twice, in two sessions in the same folder, through `fcshim serve`. A
script plays the model, and a real llama-server gets each prompt, too; it reads the prompt and says how much of it was
in its cache. Its model has the tokenizer of Qwen2.5 and random weights, so that reading takes little time; the scripted
replies are new to it, which in use they are not.

    make models && python -m tests.clients.environments
    python -m benchmarks.prefix_cache [--write] [AGENT ...]

`--write` puts the table into docs/agents.md. The exit status is 1 if a bar was missed: in the second session, 95 % of
what its first prompt has in common with that of the first comes from the cache, and from turn to turn 99 % of the
prompt before.
"""

import argparse
import asyncio
import itertools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from gguf import GGUFReader, ReaderField, TokenType

from fcshim.events import JSON
from tests.clients.agents.dialects import NOTATIONS
from tests.clients.agents.model import TASK, ScriptedModel, offered_tools
from tests.clients.agents.plan import Plan
from tests.clients.agents.run import AgentRunner
from tests.clients.agents.table import AGENTS
from tests.clients.environments import agent_version, missing
from tests.engine.llama_server import LlamaServer, running
from tests.engine.program import find_llama_server
from tests.engine.proxy import proxying
from tests.engine.random_models import write_random_model
from tests.engine.vocabulary import Token, Vocabulary
from tests.scripted import ReceivedRequest, Script, model_list, scripted_upstream

ROOT = Path(__file__).parent.parent
MODELS = Path(os.environ.get("FCSHIM_MODELS", ROOT / ".cache" / "models"))
DOCUMENT = ROOT / "docs" / "agents.md"
START, END = "<!-- written by python -m benchmarks.prefix_cache --write -->", "<!-- end of the costs -->"
DIALECT = "function_call"
CONTEXT = 65_536
COMMON_BAR, TURN_BAR = 0.95, 0.99
SEAM = 8
"""Tokens of the chat template after a prompt's last message, and one that the server reads again in any case."""


@dataclass(frozen=True)
class ReadPrompt:
    """One prompt of an agent's conversation: its text, its tokens, and those that the cache had."""

    text: str
    tokens: int
    cached: int


@dataclass
class MeasuredModel:
    """The scripted model; a real server reads each of its prompts first."""

    server: LlamaServer
    script: ScriptedModel = field(init=False)
    prompts: list[ReadPrompt] = field(default_factory=list)
    """Those of the conversation; agents also ask for titles and the like, without the task's tools."""

    def respond(self, request: ReceivedRequest) -> Script:
        """Answer one chat request."""
        messages = request.body["messages"]
        body: JSON = {"messages": messages, "max_tokens": 1}
        url = f"{self.server.url}/v1/chat/completions"
        usage = httpx.post(url, json=body, timeout=600, trust_env=False).raise_for_status().json()["usage"]
        text = "".join(f"\0{message['role']}\n{message['content']}" for message in messages)
        if TASK in text and offered_tools(self.script.vocabulary, text):
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            self.prompts.append(ReadPrompt(text, usage["prompt_tokens"], cached))
        return self.script.respond(request)

    def count_same_lines(self, one: ReadPrompt, other: ReadPrompt) -> int:
        """Return the tokens of the lines that both prompts have, wherever they stand."""
        same = Counter(one.text.splitlines(keepends=True)) & Counter(other.text.splitlines(keepends=True))
        body: JSON = {"content": "".join(same.elements())}
        reply = httpx.post(f"{self.server.url}/tokenize", json=body, timeout=60, trust_env=False)
        return len(reply.raise_for_status().json()["tokens"])


@dataclass(frozen=True)
class Front:
    """What of a first prompt the cache had; `same` counts the tokens of the lines that an earlier first prompt has."""

    prompt: ReadPrompt
    same: int

    @property
    def share(self) -> float:
        """The part of the same lines that the cache had."""
        return min(self.prompt.cached / max(self.same, 1), 1.0)

    def __str__(self) -> str:
        return f"{self.prompt.tokens - self.prompt.cached:,} ({self.share:.0%} of {self.same:,})"


@dataclass(frozen=True)
class Cost:
    """What one agent costs, in tokens: in a second session in the same folder, in another folder, and per turn."""

    agent: str
    version: str
    tokens: int
    second: Front
    elsewhere: Front
    turns: Sequence[tuple[ReadPrompt, ReadPrompt]]
    """Each prompt after the first of its conversation, with the one before."""

    @property
    def turn_share(self) -> float:
        """The smallest part of the prompt before that the cache had."""
        return min(min(now.cached / max(before.tokens - SEAM, 1), 1.0) for before, now in self.turns)

    def row(self) -> str:
        """Return the row of the table."""
        anew = sorted(now.tokens - now.cached for _, now in self.turns)
        cells = [self.agent.replace("_", " "), self.version, f"{self.tokens:,}", str(self.second), str(self.elsewhere)]
        return f"| {' | '.join(cells)} | {anew[len(anew) // 2]:,} ({self.turn_share:.0%}) |"


HEAD = """\
| agent | version | first prompt | second session | in another folder | per turn |
| --- | --- | --- | --- | --- | --- |"""


def read_vocabulary(path: Path) -> Vocabulary:
    """Return the byte-level tokenizer of a GGUF file."""
    fields = GGUFReader(path).fields

    def strings(name: str) -> list[bytes]:
        found: ReaderField = fields[f"tokenizer.ggml.{name}"]
        return [bytes(found.parts[at]) for at in found.data]

    def number(name: str) -> int:
        return int(fields[f"tokenizer.ggml.{name}_token_id"].contents())

    kinds = fields["tokenizer.ggml.token_type"].contents()
    tokens = [Token(text, TokenType(kind)) for text, kind in zip(strings("tokens"), kinds, strict=True)]
    merges = [merge.decode() for merge in strings("merges")]
    return Vocabulary("gpt2", tokens, merges, bos=number("bos"), eos=number("eos"))


async def measure(name: str, server: LlamaServer, folder: Path) -> Cost:
    """Run three conversations of one agent, in its first API: two in one folder, and one in another."""
    agent = AGENTS[name]
    api, model = next(iter(agent.apis)), agent.models[0]
    measured = MeasuredModel(server)
    conversations: list[list[ReadPrompt]] = []
    async with scripted_upstream(respond=measured.respond, listing=model_list(model)) as upstream:
        with proxying(upstream.url, folder, "--dialect", DIALECT) as url:
            for work in ("work", "work", "elsewhere"):
                shutil.rmtree(folder / work, ignore_errors=True)
                plan = Plan(folder / work)
                plan.write_files()
                runner = AgentRunner(name, agent, api, model, url, folder / "home", plan.folder)
                if not conversations:
                    runner.write_settings()
                measured.script = ScriptedModel(NOTATIONS[DIALECT], agent.tools, plan.parts(), agent.json_results)
                measured.prompts = []
                outcome = await runner.run(resumed=False)
                if outcome.status != 0 or not measured.prompts:
                    sys.exit(f"{name}: {outcome.output[-2000:]}")
                conversations.append(measured.prompts)
    first, second, elsewhere = (prompts[0] for prompts in conversations)
    turns = [pair for prompts in conversations for pair in itertools.pairwise(prompts)]

    def front(prompt: ReadPrompt) -> Front:
        return Front(prompt, measured.count_same_lines(first, prompt))

    return Cost(name, agent_version(name), first.tokens, front(second), front(elsewhere), turns)


async def run(names: Sequence[str]) -> list[Cost]:
    """Measure the agents, one after the other, at one server."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = folder / "random.gguf"
        write_random_model(model, read_vocabulary(MODELS / "qwen-0.5b.gguf"))
        longer = ("--override-kv", f"llama.context_length=int:{CONTEXT}")
        with running(find_llama_server(patient=False), model, folder, *longer, context=CONTEXT) as server:
            costs = []
            for name in names:
                home = Path(tempfile.mkdtemp(prefix=name, dir=folder))
                costs.append(await measure(name, server, home))
                sys.stdout.write(f"{costs[-1].row()}\n")
                sys.stdout.flush()
            return costs


def write_table(costs: Sequence[Cost]) -> None:
    """Put the table into the document."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    rows = "\n".join([HEAD, *(cost.row() for cost in costs)])
    DOCUMENT.write_text(f"{before}{START}\n\n{rows}\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Measure the agents that are installed, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", choices=[*AGENTS, []])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    names = options.agents or [name for name in AGENTS if not missing(name)]
    costs = asyncio.run(run(names))
    if options.write:
        write_table(costs)
    missed = [cost.agent for cost in costs if cost.second.share < COMMON_BAR or cost.turn_share < TURN_BAR]
    if missed:
        sys.stdout.write(f"below the bar: {', '.join(missed)}\n")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
