"""`fcshim chat -p`: one turn for scripts."""

import asyncio
import contextlib
import json
import os
import re
import sys

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.events import Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from tests.chat.test_provider_search import CASES as SEARCHES
from tests.cli.command import fcshim
from tests.mcp.server_programs import serve_over_http, stdio_transport
from tests.scripted import CUT, ROLE, Script, scripted_upstream, text_chunk, text_reply
from tests.server.mcp_proxy import ADD, call_text, prompts
from tests.server.test_api_pairs import reply_script

FAIL = call_text("mcp__f__fail", message="boom")


@pytest.fixture(scope="module")
def friendly():
    """One server for the module, over streamable HTTP."""
    with serve_over_http("http") as endpoint:
        yield {"f": {"url": endpoint.url, "trust": "annotations"}}


@contextlib.asynccontextmanager
async def upstream_and_chat(folder, *replies, servers=None, pages=None):
    """Yield a function that runs `fcshim chat URL ...` to its end, and the upstream, which plays the replies."""
    played = (text_reply(each) if isinstance(each, str) else each for each in replies)
    given = []
    if servers is not None:
        file = folder / "servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        given += ["--mcp", str(file)]
    async with scripted_upstream(*played, pages=pages or {}) as upstream:

        async def chat(*options, stdin=b""):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "fcshim", "chat", upstream.url, "--model", "m", *given, *options),
                env={**os.environ, "XDG_STATE_HOME": str(folder)},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await asyncio.wait_for(process.communicate(stdin), 60)
            return process.returncode, out.decode(), err.decode()

        yield chat, upstream


async def test_stdout_holds_the_answer_alone(friendly, tmp_path):
    async with upstream_and_chat(tmp_path, "See. " + ADD, "It is 3.", servers=friendly) as (chat, _):
        code, out, err = await chat("-p", "How much?")

    assert (0, "See. \nIt is 3.\n") == (code, out)
    assert '● mcp__f__add {"a": 1, "b": 2}\n  ⎿ 3\n' == err


async def test_the_start_says_what_a_rule_for_commands_covers(tmp_path):
    async with upstream_and_chat(tmp_path, "A") as (chat, _):
        code, out, err = await chat("-p", "Hi", "--root", str(tmp_path), "--allow", "Bash(tar *)")

    assert (0, "A\n") == (code, out)
    assert "Bash(tar *) covers nothing" in " ".join(err.split())
    assert "--allow 'Bash(tar **)'" in " ".join(err.split())


async def test_the_markup_of_a_call_is_no_answer(friendly, tmp_path):
    unoffered = "Wait. " + call_text("weather", city="Paris")
    replies = [unoffered] * 4
    async with upstream_and_chat(tmp_path, *replies) as (chat, _):
        code, out, err = await chat("-p", "Hi")
        _, lines, _ = await chat("-p", "Hi", "--json")
    async with upstream_and_chat(tmp_path, *replies, servers=friendly, pages={}) as (chat, _):
        code_with_tools, out_with_tools, err_with_tools = await chat("-p", "Hi")
    events = [json.loads(line) for line in lines.splitlines()]

    assert (1, 1) == (code, code_with_tools)
    sentence = "The model called the tool 'weather', which is not offered."
    assert ("Wait. \n", f"Wait. \n{sentence}") == (out, out_with_tools)
    assert "the model wrote a call as text. Nothing of it ran." in err
    assert "there is no tool 'weather'. Nothing of it ran." in err_with_tools
    assert unoffered == "".join(each["text"] for each in events if each["type"] in ("text", "markup_set_aside"))
    assert "error" == events[-1]["type"]


async def test_a_reply_that_was_cut_off_in_a_call_says_so(tmp_path):
    async with upstream_and_chat(tmp_path, text_reply('<tool_call>{"na', reason="length")) as (chat, _):
        code, _, err = await chat("-p", "Hi")

    assert 1 == code
    assert "the reply was cut off in a call. Nothing of it ran." in err


async def test_the_prompt_may_come_from_stdin(tmp_path):
    async with upstream_and_chat(tmp_path, "A", "B") as (chat, upstream):
        first = await chat("-p", "-", stdin="Wie geht’s?".encode())
        second = await chat(stdin=b"Hi\n")

    assert (0, "A\n", "") == first
    assert (0, "B\n", "") == second
    assert ["user: Wie geht’s?", "user: Hi"] == prompts(upstream)


async def test_every_event_is_a_line_of_json_with_the_answer_last(friendly, tmp_path):
    async with upstream_and_chat(tmp_path, ADD, "It is 3.", servers=friendly) as (chat, _):
        code, out, err = await chat("-p", "How much?", "--json")
    first, *events, last = map(json.loads, out.splitlines())
    kinds = [each["type"] for each in events]
    (call,) = [each for each in events if each["type"] == "tool_call_end"]
    (result,) = [each for each in events if each["type"] == "call_finished"]

    assert (0, "") == (code, err)
    assert ("session", "mcp__f__add") == (first["type"], first["tools"][0])
    assert {"a": 1, "b": 2} == json.loads(call["tool_call_arguments_complete"])
    assert "3" == result["message"]["content"][0]["text"]
    assert kinds.index("tool_call_start") < kinds.index("call_started") < kinds.index("round_ended")
    assert ("answer", "It is 3.", 20) == (last["type"], last["text"], last["usage"]["input_tokens"])
    assert first["id"] == last["session"]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ((), False),
        (("--allow", "f:fail"), True),
        (("--allow", "mcp__f__*"), True),
        (("--mode", "allow"), True),
        (("--mode", "allow", "--deny", "f:fail"), False),
    ],
)
async def test_the_user_is_not_asked(options, runs, friendly, tmp_path):
    async with upstream_and_chat(tmp_path, FAIL, "Well.", servers=friendly) as (chat, upstream):
        code, out, _ = await chat("-p", "Go", *options)

    assert (0, "Well.\n") == (code, out)
    assert runs != ("was not executed" in prompts(upstream)[1])


@pytest.mark.security
async def test_a_server_s_own_word_that_a_tool_only_reads_counts_only_if_it_is_trusted(friendly, tmp_path):
    servers = {"f": {"url": friendly["f"]["url"]}}
    async with upstream_and_chat(tmp_path, ADD, "Well.", ADD, "Well.", servers=servers) as (chat, upstream):
        _, _, refused = await chat("-p", "Go")
        _, _, allowed = await chat("-p", "Go", "--allow", "f:add")

    assert "mcp__f__add: refused here, where nobody can be asked" in refused
    assert "refused here" not in allowed
    assert ["was not executed" in prompts(upstream)[at] for at in (1, 3)] == [True, False]


async def test_a_tool_may_end_the_turn_with_its_answer(tmp_path):
    async with upstream_and_chat(tmp_path, call_text("SessionsYield", message="That is all.")) as (chat, _):
        code, out, _ = await chat("-p", "Go", "--agents")

    assert (0, "That is all.\n") == (code, out)


async def test_built_in_tools_work_in_the_given_folder(tmp_path):
    (tmp_path / "a.txt").write_text("a secret")
    async with upstream_and_chat(tmp_path, call_text("Read", path="a.txt"), "Read it.") as (chat, upstream):
        code, out, _ = await chat("-p", "Read a.txt", "--root", str(tmp_path))

    assert (0, "Read it.\n") == (code, out)
    assert "a secret" in prompts(upstream)[1]


async def test_a_script_resumes_the_last_session(tmp_path):
    async with upstream_and_chat(tmp_path, "One.", "Two.", "Three.") as (chat, upstream):
        await chat("-p", "First", "--system", "Be brief.")
        await chat("-p", "Second", "--resume")
        await chat("-p", "Third", "--no-save")
        _, _, err = await chat("-p", "x", "--resume", "nonsense")

    assert "system: Be brief.\nuser: First\nassistant: One.\nuser: Second" == prompts(upstream)[1]
    assert "user: Third" == prompts(upstream)[2]
    assert "there is no session 'nonsense'" in err
    assert 1 == len(list((tmp_path / "fcshim" / "sessions").iterdir()))


async def test_an_upstream_that_breaks_is_a_failure(tmp_path):
    broken = Script((ROLE, text_chunk("It "), CUT))
    async with upstream_and_chat(tmp_path, broken, broken) as (chat, _):
        code, out, err = await chat("-p", "Hi")
        json_code, lines, _ = await chat("-p", "Hi", "--json")
    last = json.loads(lines.splitlines()[-1])

    assert (1, "It ") == (code, out)
    assert "the endpoint's reply broke off" in err
    assert (1, "error", "upstream_error") == (json_code, last["type"], last["kind"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", ""), "the prompt is empty"),
        (("-p", "x", "--mcp", "missing.json"), "missing.json"),
        (("-p", "x", "--root", "/there/is/no/such/folder"), "/there/is/no/such/folder"),
        (("-p", "x", "--dialect", "nonsense"), "unknown dialect 'nonsense'"),
        (("-p", "x", "--allow", "a b"), "'a b' is not a rule"),
        (("-p", "x", "--max-rounds", "0"), "expected a whole number from 1"),
    ],
)
def test_a_mistake_in_the_arguments_is_reported(arguments, message, tmp_path):
    done = fcshim("chat", "http://127.0.0.1:9", *arguments, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)})

    assert (2, "") == (done.code, done.out)
    assert message in done.err


def test_without_a_url_the_embedded_model_answers(tmp_path):
    done = fcshim("chat", "--demo", "-p", "say hello there", env={**os.environ, "XDG_STATE_HOME": str(tmp_path)})

    assert (0, "hello there\n", "") == (done.code, done.out, done.err)


async def test_web_search_is_offered_where_a_service_is_configured(tmp_path, monkeypatch):
    """Requirement 42."""
    async with upstream_and_chat(tmp_path, "A", "B", "C") as (chat, upstream):
        await chat("-p", "Hi", "--root", str(tmp_path))
        await chat("-p", "Hi", "--root", str(tmp_path), "--web-search", "http://127.0.0.1:9")
        monkeypatch.setenv("FCSHIM_WEB_SEARCH", "http://127.0.0.1:9")
        await chat("-p", "Hi", "--root", str(tmp_path))
    offered = ["WebSearch" in text for text in prompts(upstream)]

    assert [False, True, True] == offered


@pytest.mark.parametrize("api", SEARCHES)
async def test_the_search_of_the_upstreams_provider_stands_for_a_service(api, tmp_path):
    """Requirement 42."""
    codec, (answer, line, results) = UPSTREAMS[api].codec, SEARCHES[api]
    asked = '{"query":"claude shannon"}'
    call = [
        ToolCallStart("c1", "WebSearch", 0),
        ToolCallChunk("c1", asked, 0),
        ToolCallEnd("c1", "WebSearch", asked, 0),
        Stop("tool_use"),
    ]
    replies = (
        reply_script(codec, call, 10**6),
        Script((json.dumps(answer).encode(),)),
        reply_script(codec, [Text("I found it."), Stop("complete")], 10**6),
    )
    options = ("--root", str(tmp_path), "--api", api, "--web-search", "provider")
    async with upstream_and_chat(tmp_path, *replies) as (chat, upstream):
        code, out, err = await chat("-p", "Who?", *options)
    first, search, last = upstream.requests

    assert (0, "I found it.\n") == (code, out), err
    assert "WebSearch" in json.dumps(first.body)
    assert line.split()[1] == search.path
    assert "claude shannon" in json.dumps(search.body)
    assert "WebSearch" not in json.dumps(search.body)
    assert all(result.url in json.dumps(last.body) for result in results)


async def test_an_upstream_without_a_search_is_named_at_the_start(tmp_path):
    async with upstream_and_chat(tmp_path, "A") as (chat, upstream):
        code, out, err = await chat("-p", "Hi", "--root", str(tmp_path), "--web-search", "provider")

    assert (2, "") == (code, out)
    assert "expected one of anthropic, responses, gemini" in err
    assert not upstream.requests


async def test_a_kind_of_agents_has_servers_of_its_own_and_the_mode_plan(tmp_path):
    """Requirements 37, 38 and 39."""
    (tmp_path / "agents").mkdir()
    transport = stdio_transport("raw", "good")
    settings = {"command": transport.command, "args": list(transport.args)}
    (tmp_path / "agents" / "own.json").write_text(json.dumps({"mcpServers": {"mine": settings}}))
    (tmp_path / "agents" / "kind.md").write_text("---\ntools: Read\ndirectMcpServers: own.json\n---\nBe.")
    replies = call_text("spawn_agent", prompt="x", agent="kind"), call_text("mine__work"), "Worked.", "Done."
    options = ("--profiles", str(tmp_path / "agents"), "--root", str(tmp_path))
    async with upstream_and_chat(tmp_path, *replies) as (chat, upstream):
        code, out, _ = await chat("-p", "Hi", *options, "--allow", "spawn_agent", "--allow", "mine__*")
    async with upstream_and_chat(tmp_path, "Planned.") as (chat, planning):
        planned, _, _ = await chat("-p", "Hi", *options, "--mode", "plan")
    parent, agent, *_ = prompts(upstream)

    assert (0, "Done.\n", 0) == (code, out, planned)
    assert "Kinds of agents: kind." in parent
    assert "mine__work" not in parent
    assert ["Read", "mine__work"] == [
        each for each in ("Read", "Write", "mine__work") if re.search(rf"\b{each}\b", agent)
    ]
    assert "Write" not in prompts(planning)[0]


async def test_a_chat_offers_the_tools_for_agents_sessions_skills_and_commands(tmp_path):
    """Requirements 40 to 43."""
    for name in ("skills", "commands"):
        (tmp_path / name).mkdir()
    options = ("--root", str(tmp_path), "--skills", str(tmp_path / "skills"), "--commands", str(tmp_path / "commands"))
    async with upstream_and_chat(tmp_path, "A") as (chat, _):
        _, out, _ = await chat("-p", "Hi", "--json", "--agents", "--web-search", "http://127.0.0.1:9", *options)
    offered = json.loads(out.splitlines()[0])["tools"]

    assert [
        *(
            "Read",
            "Write",
            "Edit",
            "ListDir",
            "Glob",
            "Grep",
            "Bash",
            "WebFetch",
            "WebSearch",
            "Notify",
            "slash_command",
        ),
        *("list_skills", "read_skill", "spawn_agent", "subagent_list", "subagent_status"),
        *("SessionsSpawn", "SessionsList", "SessionsSend", "SessionsHistory", "SessionsYield"),
    ] == offered
