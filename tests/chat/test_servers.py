"""The chat's reports about its MCP servers: slow ones, broken ones, lost ones."""

import asyncio
import json
import os
import shlex
import sys

from tests.chat.pseudo_terminal import terminal
from tests.mcp.server_programs import SERVERS, eventually
from tests.scripted import scripted_upstream, text_reply
from tests.server.mcp_proxy import ADD, prompts, stdio_server

PROMPT = "›"


def servers_file(folder, **servers):
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return str(file)


def slow_server(gate, name="friendly"):
    """A server that starts when the file `gate` is there."""
    program = f"{shlex.quote(sys.executable)} {shlex.quote(str(SERVERS / f'{name}.py'))}"
    return {
        "command": "sh",
        "args": ["-c", f"until [ -e {shlex.quote(str(gate))} ]; do sleep 0.1; done; exec {program}"],
    }


async def test_a_slow_server_shows_as_connecting_and_its_tools_come_when_it_is_there(tmp_path):
    gate = tmp_path / "gate"
    file = servers_file(tmp_path, f=slow_server(gate))
    replies = (text_reply("None yet."), text_reply(ADD), text_reply("It is 3."))
    async with (
        scripted_upstream(*replies, pages={}) as upstream,
        terminal(
            "chat", upstream.url, "--model", "m", "--mcp", file, "--wait", "2", state=tmp_path, width=100
        ) as screen,
    ):
        await screen.expect("connecting to f: a line reports when their tools are")
        await screen.expect("m, with tools to come. /help lists the commands.")
        await screen.expect(PROMPT)
        screen.enter("Which tools?")
        await screen.expect("f: not connected within 2 s; this turn goes on without")
        await screen.expect("None yet.")
        gate.touch()
        await screen.expect("f is connected: ")
        screen.enter("Add")
        await screen.expect("what to do instead:")
        screen.enter("y")
        await screen.expect("It is 3.")
        rows = screen.rows

    assert "mcp__f__add" not in prompts(upstream)[0]
    assert "mcp__f__add" in prompts(upstream)[1]
    assert 1 == len([row for row in rows if row.startswith("f is connected: ") and row.endswith(" tools.")])


async def test_the_first_turn_waits_for_a_slow_server(tmp_path):
    gate = tmp_path / "gate"
    file = servers_file(tmp_path, f=slow_server(gate))
    async with (
        scripted_upstream(text_reply("Hi."), pages={}) as upstream,
        terminal(
            "chat", upstream.url, "--model", "m", "--mcp", file, "--wait", "60", state=tmp_path, width=100
        ) as screen,
    ):
        await screen.expect("m, with tools to come. /help lists the commands.")
        await screen.expect(PROMPT)
        screen.enter("Which tools?")
        await screen.expect("waiting for f to connect, 60 s at most")
        gate.touch()
        await screen.expect("Hi.")

    assert "mcp__f__add" in prompts(upstream)[0]


async def test_a_server_that_fails_says_why_and_what_to_do_once(tmp_path):
    file = servers_file(
        tmp_path,
        gone={"command": "no-such-program-here"},
        dies={"command": sys.executable, "args": ["-c", "raise SystemExit('no database')"]},
        unset={"command": "x", "env": {"KEY": "${NO_SUCH_VARIABLE_HERE}"}},
        calc=stdio_server("calc"),
    )
    async with (
        scripted_upstream(text_reply("Hi."), pages={}) as upstream,
        terminal("chat", upstream.url, "--model", "m", "--mcp", file, state=tmp_path, width=300) as screen,
    ):
        for expected in ("gone: ", "dies: ", "unset: ", "calc is connected: "):
            await eventually(lambda expected=expected: expected in screen.output)
        screen.enter("Hello")
        await screen.expect("Hi.")
        await asyncio.sleep(1)  # further attempts fail meanwhile
        rows = screen.rows

    (gone,) = [row for row in rows if row.startswith("gone: ")]
    (dies,) = [row for row in rows if row.startswith("dies: ")]
    (unset,) = [row for row in rows if row.startswith("unset: ")]
    assert "'no-such-program-here' was not found" in gone
    assert f"fcshim tries again by itself; its entry is in {file}." in gone
    assert "no database" in dies
    assert "NO_SUCH_VARIABLE_HERE" in unset
    assert f"Correct its entry in {file} and start again." in unset


async def test_a_lost_server_is_named_and_so_is_its_return(tmp_path):
    (tmp_path / "state").mkdir()
    number = tmp_path / "pid"
    gate = tmp_path / "gate"
    gate.touch()
    server = slow_server(gate)
    server["args"][1] = f"echo $$ > {number}; {server['args'][1]}"
    file = servers_file(tmp_path, f=server)
    async with (
        scripted_upstream(pages={}) as upstream,
        terminal("chat", upstream.url, "--model", "m", "--mcp", file, state=tmp_path, width=100) as screen,
    ):
        await screen.expect("f is connected: ")
        gate.unlink()
        os.kill(int(number.read_text()), 9)
        lost = await screen.expect("fcshim reconnects by")
        gate.touch()
        await screen.expect("f is connected: ")

    assert "f is lost" in lost


async def chat(folder, url, *options):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fcshim", "chat", url, "--model", "m", *options),
        env={**os.environ, "XDG_STATE_HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 300)
    return process.returncode, out.decode(), err.decode()


async def test_a_script_waits_for_a_slow_server(tmp_path):
    gate = tmp_path / "gate"
    file = servers_file(tmp_path, f={**slow_server(gate), "trust": "annotations"})
    async with scripted_upstream(text_reply("Hi."), pages={}) as upstream:
        running = asyncio.create_task(chat(tmp_path, upstream.url, "-p", "Hello", "--mcp", file))
        await asyncio.sleep(3)
        gate.touch()
        code, out, err = await running

    assert (0, "Hi.\n") == (code, out)
    assert err in ("", "waiting for f to connect, 60 s at most\n")
    assert "mcp__f__add" in prompts(upstream)[0]


async def test_a_script_says_that_it_goes_on_without_a_server(tmp_path):
    file = servers_file(tmp_path, f=slow_server(tmp_path / "never"), gone={"command": "no-such-program-here"})
    async with scripted_upstream(text_reply("Hi."), pages={}) as upstream:
        code, out, err = await chat(tmp_path, upstream.url, "-p", "Hello", "--mcp", file, "--wait", "1")

    assert (0, "Hi.\n") == (code, out)
    assert "f: no answer within 1 s; the turn runs without. --wait SECONDS waits longer.\n" in err
    assert "gone: 'no-such-program-here' was not found." in err
    assert "mcp__f__add" not in prompts(upstream)[0]


async def test_wait_is_a_number_of_seconds(tmp_path):
    code, _, err = await chat(tmp_path, "http://127.0.0.1:9", "-p", "x", "--wait", "soon")

    assert 2 == code
    assert "expected seconds from 0 to 3600, got 'soon'" in err
