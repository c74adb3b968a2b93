"""How many characters the tools take in a prompt: as JSON Schema, as signatures, and compact.

The tools are those of BFCL's cases, and those that coding agents offer in the first request of a session. Descriptions
are text of the client's, which every listing repeats; so the saving is also given without them.

    make models MODELS=bfcl && python -m tests.clients.environments
    python -m benchmarks.tool_listing --bfcl .cache/models/bfcl [--write] [AGENT ...]

`--write` puts the table into docs/agents.md.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from fcshim.evaluate.bfcl import CALL_CATEGORIES, load_bfcl
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.render import render_tools
from tests.clients.agents.plan import Plan
from tests.clients.agents.run import LIMIT, AgentRunner
from tests.clients.agents.table import AGENTS
from tests.clients.environments import agent_version, missing
from tests.scripted import model_list, scripted_upstream, text_reply
from tests.server.proxy import http_client, running_proxy

DOCUMENT = Path(__file__).parent.parent / "docs" / "agents.md"
START, END = "<!-- written by python -m benchmarks.tool_listing --write -->", "<!-- end of the listings -->"
HEAD = """\
| tools of | number | JSON Schema | descriptions | signatures | compact | saved | saved of what is no description |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


class Sizes(NamedTuple):
    """The sizes of one set of tools, in characters; what is saved is said of the compact form."""

    name: str
    tools: int
    schema: int
    descriptions: int
    signatures: int
    compact: int

    def row(self) -> str:
        """Return the row of the table."""
        saved = 1 - self.compact / self.schema
        saved_markup = (self.schema - self.compact) / (self.schema - self.descriptions)
        sizes = (self.tools, self.schema, self.descriptions, self.signatures, self.compact)
        counts = [f"{size:,}" for size in sizes]
        return f"| {' | '.join([self.name, *counts, f'{saved:.0%}', f'{saved_markup:.0%}'])} |"


def sizes_of(name: str, tools: Sequence[Tool]) -> Sizes:
    """Measure the listings of a set of tools."""
    descriptions = sum(len(tool.description) + _description_size(tool.parameters) for tool in tools)
    sizes = (len(render_tools(FUNCTION_CALL, tools, style)) for style in ("schema", "signature", "compact"))
    schema, signatures, compact = sizes
    return Sizes(name, len(tools), schema, descriptions, signatures, compact)


def _description_size(schema: JSON) -> int:
    if isinstance(schema, list):
        return sum(map(_description_size, schema))
    if not isinstance(schema, dict):
        return 0
    own = schema.get("description")
    return (len(own) if isinstance(own, str) else 0) + sum(map(_description_size, schema.values()))


def bfcl_sizes(folder: Path) -> Iterable[Sizes]:
    """Measure the tools of each category of BFCL, each tool once."""
    for category in CALL_CATEGORIES:
        tools = {tool.name: tool for case in load_bfcl(folder, category) for tool in case.tools}
        yield sizes_of(f"BFCL {category}", list(tools.values()))


async def agent_tools(name: str, folder: Path) -> Sequence[Tool]:
    """Return the tools that an agent offers when it is given a task; the model answers in text."""
    agent = AGENTS[name]
    api, model = next(iter(agent.apis)), agent.models[0]
    async with (
        scripted_upstream(respond=lambda _: text_reply("Done."), listing=model_list(model)) as upstream,
        running_proxy(upstream.url, limit=2 * LIMIT, inspect=True) as url,
        http_client(f"{url}/fcshim/api") as client,
    ):
        plan = Plan(folder / "work")
        plan.write_files()
        runner = AgentRunner(name, agent, api, model, url, folder / "home", plan.folder)
        runner.write_settings()
        outcome = await runner.run(resumed=False)
        listed = (await client.get("/requests")).json()["requests"]
        shown = [(await client.get(f"/requests/{each['id']}")).json() for each in listed]
    if not shown:
        sys.exit(f"{name}: {outcome.output[-2000:]}")
    return max((msgspec.convert(each["tools"], list[Tool]) for each in shown), key=len)


async def agent_sizes(name: str) -> Sizes:
    """Measure the tools of an installed agent."""
    with tempfile.TemporaryDirectory() as folder:
        tools = await agent_tools(name, Path(folder))
    return sizes_of(f"{name.replace('_', ' ')} {agent_version(name)}", tools)


def main() -> int:
    """Measure BFCL and the agents that are installed, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", choices=[*AGENTS, []])
    parser.add_argument("--bfcl", type=Path, metavar="DIR")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = [HEAD, *(sizes.row() for sizes in (bfcl_sizes(options.bfcl) if options.bfcl else ()))]
    for name in options.agents or [name for name in AGENTS if not missing(name)]:
        rows.append(asyncio.run(agent_sizes(name)).row())
        sys.stderr.write(f"{rows[-1]}\n")
    sys.stdout.write("\n".join([*rows, ""]))
    if options.write:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(START)
        after, table = rest.partition(END)[2], "\n".join(rows)
        DOCUMENT.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
