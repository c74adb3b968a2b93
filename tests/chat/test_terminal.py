"""`fcshim chat` as a user sees it, through a pseudo-terminal."""

import asyncio
import contextlib
import json
import re

import pytest

from tests.chat.pseudo_terminal import CTRL_C, CTRL_D, ENTER, terminal
from tests.mcp.server_programs import eventually, serve_over_http
from tests.scripted import HANG, ROLE, Script, model_list, scripted_upstream, text_chunk, text_reply
from tests.server.mcp_proxy import ADD, call_text, prompts, stdio_server

FAIL = call_text("mcp__f__fail", message="boom")
PROMPT = "›"


@pytest.fixture(scope="module")
def friendly():
    """One server for the module, over streamable HTTP."""
    with serve_over_http("http") as endpoint:
        yield {"f": {"url": endpoint.url}}


@contextlib.asynccontextmanager
async def chatting(folder, *replies, servers=None, options=(), width=200, pages=None, environment=None):
    """Chat with an upstream that plays these replies; yield the terminal, at its prompt, and the upstream."""
    played = (text_reply(each) if isinstance(each, str) else each for each in replies)
    given = list(options)
    if servers is not None:
        file = folder / "servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        given += ["--mcp", str(file)]
    async with (
        scripted_upstream(*played, pages=pages or {}) as upstream,
        terminal(
            "chat", upstream.url, "--model", "m", *given, state=folder, width=width, environment=environment
        ) as screen,
    ):
        for name in servers or ():
            await screen.expect(f"{name} is connected: ")
        await screen.expect(PROMPT)
        yield screen, upstream


async def test_a_question_is_answered_and_ctrl_d_leaves(tmp_path):
    async with chatting(tmp_path, "It is\nthree.") as (screen, upstream):
        screen.enter("How much is 1 + 2?")
        await screen.expect("It is\nthree.")
        await screen.expect(PROMPT)
        screen.type(CTRL_D)
        hint = await screen.expect("--resume ")
        code = await screen.wait_exit()

    assert "to continue: fcshim chat" in hint
    assert 0 == code
    assert ["user: How much is 1 + 2?"] == prompts(upstream)


async def test_text_streams_and_ctrl_c_ends_the_turn_only(tmp_path):
    slow = Script((ROLE, text_chunk("Once upon"), HANG))
    async with chatting(tmp_path, slow, "Again.") as (screen, upstream):
        screen.enter("Tell me")
        await screen.expect("Once upon")
        screen.type(CTRL_C)
        await screen.expect("(interrupted)")
        await asyncio.wait_for(upstream.client_left.wait(), 60)
        await screen.expect(PROMPT)
        screen.enter("And now?")
        await screen.expect("Again.")

    assert "What came until then is kept; /undo takes it back." in screen.rows
    assert "user: Tell me\nassistant: Once upon\nuser: And now?" == prompts(upstream)[1]


async def test_ctrl_c_ends_a_single_turn_and_the_program_with_it(tmp_path):
    async with (
        scripted_upstream(Script((ROLE, text_chunk("Once upon"), HANG)), pages={}) as upstream,
        terminal("chat", upstream.url, "--model", "m", "-p", "Tell me", state=tmp_path) as screen,
    ):
        await screen.expect("Once upon")
        screen.type(CTRL_C)
        code = await screen.wait_exit()
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert 130 == code
    assert "Traceback" not in screen.output
    assert 1 == len(list((tmp_path / "fcshim" / "sessions").iterdir()))


async def test_a_call_is_shown_while_its_arguments_arrive(friendly, tmp_path):
    half = FAIL[: FAIL.index("om")]
    async with chatting(tmp_path, Script((ROLE, text_chunk("So. " + half), HANG)), servers=friendly) as (screen, _):
        screen.enter("Go")
        seen = await screen.expect('{"message": "bo')

    assert seen.endswith('So. \n● mcp__f__fail {"message": "bo')


@pytest.mark.parametrize(
    ("typed", "learned"),
    [
        ("y", "boom"),
        ("yes", "boom"),
        ("n", "was not executed. The user refused."),
        ("", "was not executed. The user refused."),
        ("use add instead", "was not executed. The user refused: use add instead"),
    ],
)
async def test_a_call_that_may_do_harm_needs_approval(typed, learned, friendly, tmp_path):
    async with chatting(tmp_path, FAIL, "Well.", servers=friendly) as (screen, upstream):
        screen.enter("Go")
        asked = await screen.expect("what to do instead:")
        screen.enter(typed)
        await screen.expect("  ⎿ ")
        await screen.expect("Well.")

    assert "  mcp__f__fail\n  │ message: boom\n  run it? " in asked
    assert learned in prompts(upstream)[1]


@pytest.mark.parametrize(("typed", "learned"), [("a", "boom"), ("never", "The user refused.")])
async def test_a_decision_can_be_remembered_for_the_conversation(typed, learned, friendly, tmp_path):
    async with chatting(tmp_path, FAIL, FAIL, "Well.", servers=friendly) as (screen, upstream):
        screen.enter("Go")
        await screen.expect("what to do instead:")
        screen.enter(typed)
        await screen.expect("  ⎿ ")
        rest = await screen.expect("Well.")

    assert "what to do instead" not in rest
    assert learned in prompts(upstream)[2]


async def test_ctrl_c_at_a_question_ends_the_turn(friendly, tmp_path):
    async with chatting(tmp_path, "So. " + FAIL, servers=friendly) as (screen, upstream):
        screen.enter("Go")
        await screen.expect("what to do instead:")
        screen.type(CTRL_C)
        await screen.expect("(interrupted)")
        await screen.expect(PROMPT)

    assert 1 == len(upstream.requests)


async def test_ctrl_c_cancels_a_tool_that_runs(tmp_path):
    trace = tmp_path / "trace"
    call = call_text("mcp__w__wait", trace=str(trace))
    servers = {"w": {**stdio_server("watched"), "allow": ["wait"]}}
    async with chatting(tmp_path, call, servers=servers) as (screen, _):
        screen.enter("Go")
        await eventually(lambda: trace.exists() and trace.read_text())
        screen.type(CTRL_C)
        await screen.expect("(interrupted)")
        await eventually(lambda: trace.read_text() == "cancelled")


async def test_progress_and_folded_results_are_shown(friendly, tmp_path):
    replies = (call_text("mcp__f__count", to=3), call_text("mcp__f__mixed"), "Done.")
    async with chatting(tmp_path, *replies, servers=friendly, options=["--allow", "f:*"]) as (screen, _):
        screen.enter("Go")
        await screen.expect("/3 at ")
        await screen.expect("  ⎿ counted\n")
        folded = await screen.expect("Done.")
        screen.enter("/result")
        whole = await screen.expect("of b")

    assert "  ⎿ first\n    second\n    [image/png]\n" in folded
    assert "2 more lines: /result 2" in folded
    assert "of b" not in folded
    assert "first" in whole


@pytest.mark.parametrize(
    ("name", "typed", "learned"),
    [
        ("ask_user", [("the server f asks; answer it?", "y"), ("name (string):", "Ada")], "accept Ada"),
        (
            "ask_user",
            [("answer it?", "y"), ("name (string):", ""), ("is needed\n  name (string):", "Bob")],
            "accept Bob",
        ),
        ("ask_user", [("answer it?", "n")], "decline"),
        ("ask_model", [("let it?", "n")], "the user does not let the server f ask the model"),
    ],
)
async def test_a_server_may_ask_the_user(name, typed, learned, tmp_path):
    servers = {"f": {**stdio_server("friendly"), "handshake": True, "allow": ["ask_*"]}}
    async with chatting(tmp_path, call_text(f"mcp__f__{name}", question="Who?"), "So.", servers=servers) as (
        screen,
        up,
    ):
        screen.enter("Go")
        for expected, text in typed:
            await screen.expect(expected)
            screen.enter(text)
        await screen.expect("So.")

    assert learned in prompts(up)[1].rpartition("</function_call>")[2]


async def test_a_server_may_ask_the_model_if_the_user_agrees(tmp_path):
    servers = {"f": {**stdio_server("friendly"), "handshake": True, "allow": ["ask_*"]}}
    call = call_text("mcp__f__ask_model", question="Who?")
    async with chatting(tmp_path, call, "It is me.", "So.", servers=servers) as (screen, upstream):
        screen.enter("Go")
        await screen.expect("the server f asks the model: Be brief.\n  │ Who?")
        await screen.expect("let it?")
        screen.enter("y")
        await screen.expect("So.")

    assert "system: Be brief.\nuser: Who?" == prompts(upstream)[1]
    assert "It is me. (endTurn)" in prompts(upstream)[2]


async def test_the_model_may_give_a_task_to_another_agent(tmp_path):
    task = call_text("spawn_agent", prompt="Look it up.")
    options = ["--agents", "--mode", "allow"]
    async with chatting(tmp_path, task, "Found.", "All done.", options=options) as (screen, upstream):
        screen.enter("Go")
        await screen.expect("  ⎿ Found.")
        await screen.expect("All done.")

    assert "Look it up." in prompts(upstream)[1]
    assert "Found." in prompts(upstream)[2]


async def test_a_tool_may_end_the_turn_with_its_answer(tmp_path):
    call = call_text("SessionsYield", message="That is all.")
    async with chatting(tmp_path, call, options=["--agents"]) as (screen, upstream):
        screen.enter("Go")
        await screen.expect("  ⎿ That is all.\nThat is all.\n")

    assert 1 == len(upstream.requests)


async def test_the_commands(friendly, tmp_path):
    pages = {"/v1/models": model_list("m", "other")}
    async with chatting(tmp_path, "Hello.", servers=friendly, pages=pages) as (screen, upstream):
        screen.enter("/help")
        await screen.expect("ends the turn")
        screen.enter("/tools")
        tools = await screen.expect("mcp__f__fail")
        assert "mcp:\n" in tools
        screen.enter("/model")
        await screen.expect("* m\n  other\n")
        screen.enter("/model other")
        await screen.expect(PROMPT)
        screen.enter("/mode accept_edits")
        await screen.expect("Mode accept_edits: edits of files run, other calls wait for your answer.")
        await screen.expect("accept_edits ›")
        screen.enter("/mode nonsense")
        await screen.expect("there is no mode nonsense; expected one of ask, accept_edits, read_only, allow")
        screen.enter("/result 1")
        await screen.expect("there is no result yet; no tool has run")
        screen.enter("/tolls")
        await screen.expect("there is no /tolls, did you mean /tools?")
        screen.enter("Hi")
        await screen.expect("Hello.")
        screen.enter("/quit")
        code = await screen.wait_exit()

    assert "  asks  mcp__f__add        Add two numbers." in tools  # as wide as the longest name
    assert "other" == upstream.requests[-1].body["model"]
    assert 0 == code


async def test_a_session_is_saved_and_resumed(friendly, tmp_path):
    file = tmp_path / "kept.json"
    given = ["--mode", "allow", "--agents"]
    async with chatting(tmp_path, ADD, "It is 3.", servers=friendly, options=given) as (screen, _):
        screen.enter("How much?")
        await screen.expect("It is 3.")
        screen.enter(f"/save {file}")
        await screen.expect("Saved. To continue it: fcshim chat --resume")
        screen.enter("/quit")
        await screen.wait_exit()
    async with chatting(tmp_path, "Yes.", servers=friendly, options=["--resume", str(file)]) as (screen, upstream):
        screen.enter("Sure?")
        await screen.expect("Yes.")

    assert "user: How much?" in prompts(upstream)[0]
    assert "spawn_agent" in prompts(upstream)[0]
    assert ADD in prompts(upstream)[0]
    assert prompts(upstream)[0].endswith("assistant: It is 3.\nuser: Sure?")
    assert 0o600 == file.stat().st_mode & 0o777


async def test_model_text_cannot_control_the_terminal(tmp_path):
    async with chatting(tmp_path, "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\u202ed.") as (screen, _):
        screen.enter("Hi")
        await screen.expect("a␛]52;c;ZXZpbA==␇b␛[2Jc\ufffdd.")

    assert b"\x1b]52" not in screen.raw
    assert b"\x1b[2J" not in screen.raw


async def test_a_turn_ends_with_its_figures(friendly, tmp_path):
    async with chatting(tmp_path, ADD, "It is 3.", servers=friendly, options=["--mode", "allow"]) as (screen, _):
        screen.enter("How much?")
        await screen.expect("in the context")
        rows, shown = screen.rows, screen.screen

    (figures,) = (row for row in rows if "in the context" in row)
    at = next(at for at, row in enumerate(shown.display) if "in the context" in row)
    assert re.fullmatch(r"20 tokens in, 10 out, \d+\.\d s,( \d+ tokens/s,)? 15 in the context", figures)
    assert "It is 3." == rows[rows.index(figures) - 1]
    assert shown.display[at].startswith("20")


ANSWER = "# Title\n- **one** `x`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd."


async def test_markdown_is_rendered_while_it_streams(tmp_path):
    async with chatting(tmp_path, text_reply(*ANSWER)) as (screen, _):
        screen.enter("Hi")
        await screen.expect("End.")
        rows = screen.rows

    start = rows.index("Title")
    assert ["Title", "• one x", "", "a   b", "─────", "1   2", "", "End."] == rows[start : start + 8]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
async def test_a_plain_terminal_gets_the_text_as_it_is(environment, tmp_path):
    async with chatting(tmp_path, text_reply(*ANSWER), environment=environment) as (screen, _):
        screen.enter("Hi")
        await screen.expect(ANSWER)


async def test_a_script_gets_the_text_as_it_is(tmp_path):
    async with (
        scripted_upstream(text_reply(*ANSWER), pages={}) as upstream,
        terminal("chat", upstream.url, "--model", "m", "-p", "Hi", state=tmp_path) as screen,
    ):
        await screen.expect(ANSWER)
        await screen.wait_exit()


async def test_an_upstream_that_fails_ends_the_turn_with_a_line(tmp_path):
    async with chatting(tmp_path, Script((b"{}",), status=500), "Again.") as (screen, upstream):
        screen.enter("Hi")
        await screen.expect("the endpoint answered HTTP 500")
        await screen.expect(PROMPT)
        screen.enter("Ho")
        await screen.expect("Again.")

    assert "user: Ho" == prompts(upstream)[1]


async def test_a_line_can_be_edited_and_ctrl_c_at_the_prompt_clears_it(tmp_path):
    async with chatting(tmp_path, "Ok.") as (screen, upstream):
        screen.type("never mind")
        await screen.expect("never mind")
        screen.type(CTRL_C)
        await screen.expect(PROMPT)
        screen.type("Hix\x7f" + ENTER)
        await screen.expect("Ok.")

    assert ["user: Hi"] == prompts(upstream)


async def test_the_embedded_model_calls_a_server_s_tool(tmp_path):
    """The whole path, with the trained model: question, call, approval by a rule, result, answer."""
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"calc": stdio_server("calc")}}))
    async with terminal("chat", "--demo", "--mcp", str(file), state=tmp_path) as screen:
        await screen.expect("calc is connected: ")
        await screen.expect(PROMPT)
        screen.enter("call mcp__calc__add with first=19, second=23")
        await screen.expect('● mcp__calc__add {"first": 19, "second": 23}')
        await screen.expect("(its server says that it only reads)")
        await screen.expect("what to do instead:")
        screen.enter("y")
        await screen.expect("  ⎿ 42")
        await screen.expect("mcp__calc__add returned 42")


BROKEN_CALL = '<tool_call>\n{"name": "weather", "argu'


async def test_a_call_that_cannot_run_is_a_note_and_never_the_answer(tmp_path):
    async with chatting(tmp_path, "Let me see.\n" + BROKEN_CALL, "Sorry.", width=100) as (screen, _):
        screen.enter("Hello")
        await screen.expect("/raw shows what it wrote.")
        await screen.expect(PROMPT)
        before = screen.rows
        screen.enter("/raw")
        await screen.expect('<tool_call>\n{"name": "weather", "argu\n')
        screen.enter("Again")
        await screen.expect("Sorry.")

    assert "Let me see." in before
    assert "the model wrote a call as text. Nothing of it ran. Ask in other words, or offer the tool" in " ".join(
        before
    )
    assert not [row for row in before if "weather" in row or "tool_call" in row]


async def test_a_call_that_cannot_run_beside_one_that_can_is_noted(friendly, tmp_path):
    mixed = f"{ADD}\n{call_text('mcp__f__nothing', a=1)}"
    options = ["--mode", "allow"]
    async with chatting(tmp_path, mixed, mixed, "It is 3.", servers=friendly, options=options, pages={}) as (screen, _):
        screen.enter("Go")
        await screen.expect("It is 3.")

    assert "The model called the tool 'mcp__f__nothing', which is not offered." in screen.rows
    assert not [row for row in screen.rows if "<function_call>" in row]


async def test_resume_shows_the_last_turns_and_has_the_folder_and_the_servers_again(tmp_path):
    (tmp_path / "a.txt").write_text("a secret")
    servers = {"calc": stdio_server("calc")}
    read = call_text("Read", path="a.txt")
    options = ["--root", str(tmp_path)]
    async with chatting(tmp_path, read, "It says a secret.", servers=servers, options=options) as (screen, up):
        screen.enter("Read a.txt")
        await screen.expect("It says a secret.")
        screen.enter("/quit")
        await screen.wait_exit()
    async with chatting(tmp_path, read, "Still a secret.", options=["--resume"]) as (screen, upstream):
        await screen.expect("calc is connected: ")
        screen.enter("Again")
        await screen.expect("Still a secret.")
        rows = screen.rows

    at = rows.index("the last turn:")
    assert ["› Read a.txt", "  ● Read", "  It says a secret."] == rows[at + 1 : at + 4]
    assert f"address: {upstream.url}, in place of the session's {up.url}" in rows
    assert f"again with --root {tmp_path} --mcp {tmp_path}/servers.json" in rows
    assert "mcp__calc__add" in prompts(upstream)[0]
    assert "a secret" in prompts(upstream)[1]


async def test_undo_takes_the_last_turn_back_and_its_edit_if_the_user_agrees(friendly, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old")
    calls = f"{call_text('Write', path='a.txt', content='new')}\n{FAIL}\n{call_text('mcp__f__process')}"
    options = ["--root", str(work), "--mode", "allow"]
    replies = ("Hello.", calls, "Done.", "Well.")
    async with chatting(tmp_path, *replies, servers=friendly, options=options, width=300) as (screen, upstream):
        screen.enter("First")
        await screen.expect("Hello.")
        screen.enter("Second")
        await screen.expect("Done.")
        after_turn = (work / "a.txt").read_text()
        screen.enter("/undo")
        await screen.expect("put it back as it was? [y]es, [n]o:")
        screen.enter("y")
        await screen.expect("What these did stays: mcp__f__process.")
        await screen.expect(PROMPT)
        screen.enter("Third")
        await screen.expect("Well.")
        screen.enter("/undo")
        await screen.expect("is taken back: › Third")
        screen.enter("/undo")
        await screen.expect("is taken back: › First")
        screen.enter("/undo")
        await screen.expect("there is no turn to take back")
        rows = screen.rows

    assert ("new", "old") == (after_turn, (work / "a.txt").read_text())
    assert "It changed a.txt." in rows
    assert "a.txt is as it was" in rows
    assert prompts(upstream)[-1].endswith("user: First\nassistant: Hello.\nuser: Third")


async def test_compact_replaces_old_turns_and_a_failure_changes_nothing(tmp_path):
    replies = ("One.", "Two.", "Three.", Script((b"{}",), status=500), "They counted.", "Four.")
    async with chatting(tmp_path, *replies, width=100) as (screen, upstream):
        for question, answer in (("1", "One."), ("2", "Two."), ("3", "Three.")):
            screen.enter(question)
            await screen.expect(answer)
            await screen.expect(PROMPT)
        screen.enter("/compact")
        await screen.expect("HTTP 500")
        await screen.expect(PROMPT)
        screen.enter("/compact")
        await screen.expect("1 turn summed up, the last 2 turns stay as they were. The summary:\nThey counted.\n")
        await screen.expect(PROMPT)
        screen.enter("4")
        await screen.expect("Four.")
        screen.enter("/compact many")
        await screen.expect("expected how many turns stay, got many")

    assert "user: 1\nassistant: One." in prompts(upstream)[3].replace("user: user", "user")
    assert prompts(upstream)[3] == prompts(upstream)[4]
    assert prompts(upstream)[5].endswith(
        "assistant: They counted.\nuser: 2\nassistant: Two.\nuser: 3\nassistant: Three.\nuser: 4"
    )


async def test_ctrl_c_ends_a_command_and_not_the_program(tmp_path):
    async with chatting(tmp_path, "One.", Script((ROLE, HANG)), "Two.") as (screen, upstream):
        screen.enter("1")
        await screen.expect("One.")
        await screen.expect(PROMPT)
        screen.enter("/compact 0")
        await asyncio.wait_for(upstream.hanging.wait(), 60)
        screen.type(CTRL_C)
        await screen.expect("(interrupted)")
        await screen.expect(PROMPT)
        screen.enter("2")
        await screen.expect("Two.")

    assert "user: 1\nassistant: One.\nuser: 2" == prompts(upstream)[-1]


@pytest.mark.parametrize(
    ("bell", "typed", "rings"), [("0", "", True), ("0.3", "", True), ("off", "", False), ("2", "maybe", False)]
)
async def test_a_question_that_waits_rings(bell, typed, rings, friendly, tmp_path):
    async with chatting(tmp_path, FAIL, "Well.", servers=friendly, options=["--bell", bell]) as (screen, _):
        screen.enter("Go")
        await screen.expect("what to do instead:")
        screen.type(typed)
        if rings:
            await eventually(lambda: b"\a" in screen.raw)
        await asyncio.sleep(2.2 if typed else 0.6)  # a bell that must not ring, or not twice, would ring now
        rang = screen.raw.count(b"\a")
        screen.enter("")
        await screen.expect("Well.")

    assert rings == rang


async def test_keys_that_are_typed_during_a_turn_wait_for_the_prompt(tmp_path):
    slow = Script((ROLE, text_chunk("Once upon a "), HANG))
    async with chatting(tmp_path, slow) as (screen, _):
        screen.enter("Tell me")
        await screen.expect("Once upon a")
        screen.type("typed early")
        await asyncio.sleep(0.2)
        during = screen.rows
        screen.type(CTRL_C)
        await screen.expect("(interrupted)")

    assert not any("early" in row for row in during)


async def test_tools_are_a_table_that_fits_the_terminal(friendly, tmp_path):
    async with chatting(tmp_path, servers=friendly, options=["--root", str(tmp_path)]) as (screen, _):
        screen.enter("/tools")
        await screen.expect("A call of one that `asks` waits for your answer.")
        rows = [row for row in screen.rows if row.startswith(("  runs ", "  asks "))]

    columns = {row.index(row[8:].split(None, 1)[1], 8) for row in rows}
    assert len(rows) > 10
    assert 1 == len(columns)
    assert max(map(len, rows)) < 200
