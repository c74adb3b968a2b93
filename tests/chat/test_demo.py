"""The chat with the embedded model alone: which questions reach it, and its introduction."""

import os

import pytest

from fcshim.chat.demo import chosen_tools, current_turn, introduction, refusal
from fcshim.messages import AssistantMessage, SystemMessage, TextPart, Tool, UserMessage
from tests.chat.pseudo_terminal import terminal
from tests.cli.command import fcshim

NAMES = ["add_numbers"]
NOT_ASKED = "The demo model cannot understand this, so it was not asked."


@pytest.mark.parametrize(
    "text",
    [
        "call add_numbers with first=1, second=2",
        "Call add_numbers with first=1",
        "use add_numbers first=1",
        "please call add_numbers",
        "run add_numbers",
        "say hello",
        "Repeat a b",
        "add_numbers first=1 second=2",
        "add_numbers",
    ],
)
def test_commands_that_it_knows_are_sent(text):
    assert "" == refusal(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "Hi there!",
        "What is 19 + 23?",
        "call",
        "say",
        "",
        "Wie geht's?",
        "callous x",
        "call weather with city=Paris",
        "please",
    ],
)
def test_anything_else_is_answered_with_what_to_type(text):
    assert NOT_ASKED in refusal(text, NAMES)
    assert "call add_numbers with first=19, second=23" in refusal(text, NAMES)


def test_the_example_names_a_tool_only_if_it_is_there():
    assert "add_numbers" not in introduction(["mcp__calc__add"])


def run(folder, *options):
    return fcshim("chat", "--demo", *options, env={**os.environ, "XDG_STATE_HOME": str(folder)})


def test_a_script_learns_that_it_was_not_asked(tmp_path):
    done = run(tmp_path, "-p", "hello")

    assert (2, "") == (done.code, done.out)
    assert NOT_ASKED in done.err


async def test_chat_alone_has_a_tool_and_says_what_to_type(tmp_path):
    async with terminal("chat", "--demo", state=tmp_path, width=80) as screen:
        await screen.expect("It has 1 tool (/tools). /help lists the commands.")
        await screen.expect("›")
        screen.enter("hello")
        await screen.expect(NOT_ASKED)
        await screen.expect("›")
        screen.enter("call add_numbers with first=19, second=23")
        await screen.expect("add_numbers returned 42")
        await screen.expect("›")

    assert "The demo model is tiny and only copies: it writes calls that you dictate, and" == screen.rows[0]
    assert not [row for row in screen.rows if "function_call" in row]


def test_a_name_that_is_nearly_a_tool_s_is_suggested_first():
    names = ["mcp__calc__add", "mcp__calc__multiply", "Read"]

    assert "There is no tool 'add', did you mean mcp__calc__add?" == refusal("call add with first=1", names)
    assert "There is no tool 'mcp__calc__ad', did you mean mcp__calc__add?" == refusal("mcp__calc__ad first=1", names)
    assert "There is no tool 'multiplly', did you mean mcp__calc__multiply?" == refusal("please use multiplly", names)
    assert "cannot understand" in refusal("What is 1 + 2?", names)


def message(text):
    return UserMessage((TextPart(text),))


def test_the_model_sees_the_current_turn_and_at_most_three_tools():
    turn = (message("call t7 with a=1"), AssistantMessage((TextPart("3"),)))
    tools = tuple(Tool(f"t{number}") for number in range(9))
    earlier = (SystemMessage((TextPart("Be brief."),)), message("call t1"), AssistantMessage((TextPart("x"),)))

    assert turn == current_turn((*earlier, *turn))
    assert ["t0", "t1", "t7"] == [tool.name for tool in chosen_tools(turn, tools)]
    assert tools[:2] == chosen_tools(turn, tools[:2])


def test_many_tools_and_turns_leave_room_for_the_demo_model(tmp_path):
    functions = "\n".join(
        f'def tool_{number}(first: int, second: int) -> str:\n    """Add two numbers, slowly and with care."""\n'
        f'    return "sum " + str(first + second)\n'
        for number in range(30)
    )
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "many.py").write_text(functions, encoding="utf-8")
    options = ("--custom", str(tmp_path / "tools"), "--mode", "allow")
    first = run(tmp_path, "-p", "call tool_29 with first=19, second=23", *options)
    later = run(tmp_path, "--resume", "-p", "call tool_17 with first=1, second=2", "--mode", "allow")

    assert (0, True) == (first.code, "sum 42" in first.out), first.err
    assert (0, True) == (later.code, "sum 3" in later.out), later.err
