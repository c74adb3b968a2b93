"""The chat with the embedded model alone: which questions reach it, and its introduction."""

import os

import pytest

from fcshim.chat.demo import introduction, refusal
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
    return fcshim("chat", *options, env={**os.environ, "XDG_STATE_HOME": str(folder)})


def test_a_script_learns_that_it_was_not_asked(tmp_path):
    done = run(tmp_path, "-p", "hello")

    assert (2, "") == (done.code, done.out)
    assert NOT_ASKED in done.err


async def test_chat_alone_has_a_tool_and_says_what_to_type(tmp_path):
    async with terminal("chat", state=tmp_path, width=80) as screen:
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
