"""One tool of each server, called from the command line, by a chat, by the proxy, and by the SDK's own client."""

import json
import os
import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.chat.test_one_shot import upstream_and_chat
from tests.cli.command import COMMAND, fcshim
from tests.server.mcp_proxy import call_text, prompts, proxy_with_servers
from tests.server.proxy import post_chat

CASES = {
    "everything": ("echo", {"message": "pear"}, "Echo: pear"),
    "filesystem": ("read_text_file", {"path": "{folder}/a.txt"}, "hello hello"),
    "memory": ("create_entities", {"entities": [{"name": "Ada", "entityType": "p", "observations": ["a"]}]}, "Ada"),
    "sequential-thinking": (
        "sequentialthinking",
        {"thought": "One.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        '"thoughtNumber": 1',
    ),
    "git": ("git_status", {"repo_path": "{folder}"}, "a.txt"),
    "fetch": ("fetch", {"url": "{page}"}, "Pears are a fruit."),
    "time": ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00"),
}


@pytest.fixture(params=CASES)
def case(request, entries, folder, page):
    """Return a server's name and entry, and a call with what it answers."""
    tool, arguments, expected = CASES[request.param]
    text = json.dumps(arguments).replace("{folder}", str(folder)).replace("{page}", page)
    return request.param, entries(request.param), tool, json.loads(text), expected


def write_file(folder, name, entry):
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": {name: entry}}))
    return str(file)


def test_the_command_line_calls_it(case, tmp_path):
    name, entry, tool, arguments, expected = case
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    file = write_file(tmp_path, name, entry)
    done = fcshim("tools", "call", "--mcp", file, f"{name}:{tool}", json.dumps(arguments), env=env)

    assert 0 == done.code, done.err
    assert expected in done.out


async def test_a_chat_calls_it(case, tmp_path):
    name, entry, tool, arguments, expected = case
    call = call_text(f"mcp__{name}__{tool}", **arguments)
    async with upstream_and_chat(tmp_path, call, "Well.", servers={name: entry}) as (chat, upstream):
        code, out, err = await chat("-p", "Go", "--allow", f"{name}:*")

    assert (0, "Well.\n") == (code, out), err
    assert expected in prompts(upstream)[1].replace('\\"', '"')


async def test_the_proxy_calls_it(case, tmp_path):
    name, entry, tool, arguments, expected = case
    call = call_text(f"mcp__{name}__{tool}", **arguments)
    async with proxy_with_servers(tmp_path, {name: entry}, call, "Well.", allow=(f"{name}:*",)) as (url, upstream):
        reply = await post_chat(url, stream=False, tools=False)

    assert "Well." == reply.json()["choices"][0]["message"]["content"]
    assert expected in prompts(upstream)[1].replace('\\"', '"')


async def test_the_official_client_calls_it_through_fcshim(case, tmp_path):
    name, entry, tool, arguments, expected = case
    program, *rest = COMMAND
    file = write_file(tmp_path, name, entry)
    options = ["mcp", "--mcp", file, "--pins", str(tmp_path / "pins"), "--allow", f"{name}:*"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    server = StdioServerParameters(command=program, args=[*rest, *options], env=env)
    async with Client(stdio_client(server)) as client:
        result = await client.call_tool(f"mcp__{name}__{tool}", arguments)

    assert not result.is_error
    assert expected in "".join(block.text for block in result.content)


def test_a_text_is_not_given_twice(entries, folder, tmp_path):
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    file = write_file(tmp_path, "files", entries("filesystem"))
    arguments = json.dumps({"path": str(folder / "a.txt")})
    done = fcshim("tools", "call", "--mcp", file, "files:read_text_file", arguments, env=env)

    assert 6_001 == len(done.out)
