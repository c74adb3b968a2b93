"""The examples of the README and of docs/ run, with the embedded model behind the addresses that they name."""

import argparse
import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fcshim.cli.flags import read_settings
from fcshim.cli.serve import configure_parser
from fcshim.config import check_worker_settings, load_config, parse_store_address
from fcshim.mcp.config_file import read_servers
from tests.demo.served import Addresses, served_demo
from tests.server.test_run import serving

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
pytestmark = pytest.mark.model_pages

BLOCKS = list(
    dict.fromkeys(
        block
        for page in PAGES
        for block in re.findall(r"```(\w+)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
)
"""Every block once, also where two pages hold the same."""


@pytest.fixture(scope="module")
def addresses() -> Iterator[Addresses]:
    with served_demo() as found:
        yield found


def _python(block: str, addresses: Addresses) -> str:
    """Run a block as a program of its own and give what it prints."""
    program = block.replace("http://127.0.0.1:8080", addresses.upstream).replace(
        "http://127.0.0.1:8181", addresses.proxy
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (0, "") == (done.returncode, done.stderr)

    return done.stdout


def _blocks(language: str, holding: str) -> str:
    (block,) = [text for kind, text in BLOCKS if kind == language and holding in text]
    return block


def test_the_front_page_is_short_and_shows_pictures_that_exist() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page)

    assert len(page.splitlines()) <= 200
    assert len(pictures) >= 2
    assert [] == [picture for picture in pictures if not (ROOT / picture).is_file()]


def test_the_official_client_gets_a_call(addresses: Addresses) -> None:
    """The first example prints the arguments of one call."""
    assert _python(_blocks("python", "client.chat.completions"), addresses) == '{"city": "Paris"}'


@pytest.mark.parametrize(
    ("module", "holding", "printed"),
    [
        ("anthropic", "Anthropic(", "get_weather {'city': 'Paris'}"),
        ("google.genai", "genai.Client(", "add_numbers returned 42"),
        ("openai", "client.responses.create(", """[('get_weather', '{"city": "Paris"}')]"""),
        ("ollama", "from ollama", "[('get_weather', {'city': 'Paris'})]"),
    ],
)
def test_clients_of_every_api_get_a_call(addresses: Addresses, module: str, holding: str, printed: str) -> None:
    """Each API's example prints the call that it got; outside CI those whose SDK is missing are left out."""
    if os.environ.get("CI") != "true":
        pytest.importorskip(module)

    assert printed == _python(_blocks("python", holding), addresses).strip()


def test_the_loop_runs_a_function(addresses: Addresses) -> None:
    """The second example prints the answer that was made from the function's result."""
    assert _python(_blocks("python", "reply = await client.run("), addresses).strip() == "add_numbers returned 42"


def test_an_answer_has_a_type(addresses: Addresses) -> None:
    """The example of an output type prints the fields of the model."""
    assert "Paris 3 rail" == _python(_blocks("python", "output_type=Trip"), addresses).strip()


def test_the_synchronous_client_does_the_same(addresses: Addresses) -> None:
    """The example prints an argument of the streamed call, and the answer of the run."""
    lines = _python(_blocks("python", 'SyncClient("http'), addresses).splitlines()

    assert ["add_numbers 23", "add_numbers returned 42"] == lines


def test_a_model_in_this_process_calls_a_tool(addresses: Addresses) -> None:
    """The example prints the call, and the events of the answer."""
    call, *events = _python(_blocks("python", "for event in stream.close()"), addresses).splitlines()

    assert "{'name': 'get_weather', 'arguments': '{\"city\": \"Paris\"}'}" == call
    assert "{'type': 'stop', 'stop_reason': 'complete'}" == events[-1]


def test_a_function_takes_the_place_of_an_endpoint(addresses: Addresses) -> None:
    """The example prints the answer of the run."""
    assert (
        "add_numbers returned 42"
        == _python(_blocks("python", 'generate=generate, model="fcshim-tiny"'), addresses).strip()
    )


def test_the_data_for_other_parsers_is_there(addresses: Addresses) -> None:
    """The example prints a case, its splits and a mutant."""
    case, number, *mutant = _python(_blocks("python", "from fcshim.testing import MUTATIONS"), addresses).splitlines()

    assert "closing tag inside a string" in case
    assert "6 splits" == number
    assert " means [(" in mutant[-1]


def test_an_agent_streams_its_events(addresses: Addresses) -> None:
    """The example of an agent prints the call's result and the answer."""
    lines = _python(_blocks("python", "Agent(client.stream"), addresses).splitlines()

    assert ["result: 42", "answer: add_numbers returned 42"] == [line.strip() for line in lines]


def test_a_tool_of_an_mcp_server_is_called(addresses: Addresses, tmp_path: Path) -> None:
    """The example of a manager prints the tools and a result."""
    server = Path(__file__).parent / "mcp" / "servers" / "friendly.py"
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"mine": {"command": sys.executable, "args": [str(server)]}}}))
    program = _blocks("python", "Manager(").replace("servers.json", str(file))

    first, *_, last = _python(program, addresses).splitlines()

    assert ("mcp__mine__add", "42") == (first, last)


def test_chat_p_prints_an_answer(tmp_path: Path) -> None:
    """The shell example asks the embedded model, which calls a tool."""
    server = Path(__file__).parent / "mcp" / "servers" / "calc.py"
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"calc": {"command": sys.executable, "args": [str(server)]}}}))
    line = next(row for row in _blocks("console", "fcshim chat --demo -p 'call").splitlines() if "--demo -p" in row)
    _, _, *options = shlex.split(line.replace("servers.json", str(file)))
    command, env = [sys.executable, "-m", "fcshim", *options], {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=True)

    assert done.stdout == "mcp__calc__add returned 42\n"


async def test_a_client_without_tools_gets_an_agent(addresses: Addresses, tmp_path: Path) -> None:
    """The command of the example serves, and its client's question is answered by a tool."""
    server = Path(__file__).parent / "mcp" / "servers" / "calc.py"
    file = tmp_path / "servers.json"
    fields = {"command": sys.executable, "args": [str(server)], "allow": ["add"]}
    file.write_text(json.dumps({"mcpServers": {"calc": fields}}))
    line = _blocks("console", "--port 8282").strip().replace("servers.json", str(file))
    _, _, _, *options = shlex.split(line.removeprefix("$ "))
    given = [*options[: options.index("--port")], "--pins", str(tmp_path / "pins.json")]

    async with serving(addresses.upstream, *given) as (_, url):
        block = _blocks("python", "agent = OpenAI(").replace("http://127.0.0.1:8282", url)
        said = await asyncio.to_thread(_python, block, addresses)

    assert said.strip() == "mcp__calc__add returned 42"


def test_the_json_example_is_valid() -> None:
    """The JSON example holds servers of every kind."""
    servers = read_servers(json.loads(_blocks("json", "mcpServers")), {"MY_KEY": "k", "TOKEN": "t"})

    assert [server.name for server in servers] == ["files", "mine", "far"]


def test_the_parser_gives_events(addresses: Addresses) -> None:
    """The third example prints events, the last of which says that there was a call."""
    lines = _python(_blocks("python", "StreamParser("), addresses).splitlines()

    assert "{'type': 'text', 'text': 'Let me look. '}" == lines[0]
    assert "{'type': 'stop', 'stop_reason': 'tool_use'}" == lines[-1]


def test_the_toml_example_is_valid(tmp_path: Path) -> None:
    """The TOML example holds known settings."""
    file = tmp_path / "fcshim.toml"
    file.write_text(_blocks("toml", "port = 8181"), encoding="utf-8")

    config = load_config({}, env={}, file=file)

    assert config.port == 8181
    assert config.for_model("gemma-2b").profile == "no-system"


def test_the_example_of_several_upstreams_is_valid(tmp_path: Path) -> None:
    """Its sections and rows are known, and say what the page says."""
    file = tmp_path / "fcshim.toml"
    file.write_text(_blocks("toml", "[upstreams.local]"), encoding="utf-8")

    config = load_config({}, env={"ANTHROPIC_API_KEY": "key-of-claude", "TEAM": "blue"}, file=file)

    assert ("local", "spare") == config.upstreams_of("fast")
    assert ("claude",) == config.upstreams_of("claude-opus")


def test_the_command_line_parses_a_text() -> None:
    """The shell example runs, and its call is repaired."""
    line = next(row for row in _blocks("console", "fcshim parse").splitlines() if "fcshim parse" in row)
    command = line.removeprefix("$ ").replace("fcshim parse", f"{sys.executable} -m fcshim parse")
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=True, env=dict(os.environ)
    )

    ends = [event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "tool_call_end"]

    assert [{"a": 1}] == [json.loads(event["tool_call_arguments_complete"]) for event in ends]


def test_each_example_of_fcshim_serve_has_options_that_exist_and_settings_that_fit() -> None:
    """Their values are checked too, and whether the settings exclude each other; files are not read."""
    lines = [line for kind, text in BLOCKS if kind in {"console", "sh"} for line in text.splitlines()]
    examples = [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("fcshim serve")]
    parser = argparse.ArgumentParser()
    configure_parser(parser)
    for example in examples:
        arguments = parser.parse_args(shlex.split(example, comments=True)[2:])
        arguments.config = None
        vars(arguments).pop("dialect", None)
        check_worker_settings(read_settings(arguments))

    assert len(examples) > 5


async def test_a_conversation_goes_on_after_a_restart_with_a_file(addresses: Addresses, tmp_path: Path) -> None:
    """The command of the example serves, and what it stored is found by the next process."""
    line = _blocks("console", "8080 --store sqlite:").strip().replace("sqlite:", f"sqlite:{tmp_path}/")
    _, _, _, *options = shlex.split(line.removeprefix("$ "))
    answers = []
    name = None
    for _ in range(2):
        async with serving(addresses.upstream, *options) as (_, url):
            body = {"model": "m", "input": "Hi", "previous_response_id": name}
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
                answers.append(await client.post("/v1/responses", json=body))
        name = answers[0].json()["id"]

    assert [200, 200] == [answer.status_code for answer in answers]
    assert (tmp_path / "state.db").exists()


def test_the_settings_of_the_store_are_valid(tmp_path: Path) -> None:
    """The TOML example holds known settings, and the addresses of the page are understood."""
    file = tmp_path / "fcshim.toml"
    file.write_text(_blocks("toml", "store = "), encoding="utf-8")
    shown = re.search(r"--store (redis\S+)", _blocks("console", "--store redis:"))

    assert 604_800 == load_config({}, env={}, file=file).memory_lifetime
    assert shown is not None
    assert "redis" == parse_store_address(shown[1]).kind
