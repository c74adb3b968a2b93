"""A whole session: twenty turns with three MCP servers, edits, a denied command, a lost server, ctrl-C and `--resume`.

What is real: the terminal, the chat, a llama-server with the demo's model, three MCP servers made with the SDK, files
and commands. What is not: the words of the model, which a grammar forces (`forced_replies`), as no model that a test
can carry writes such turns. `make test-chat` runs it, and keeps its screens (`screens`) for the pictures of the docs.
"""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.chat.forced_replies import ForcedReplies, forced_replies
from tests.chat.pseudo_terminal import CTRL_C, PseudoTerminal, terminal
from tests.chat.screens import save_screen
from tests.engine.conftest import TINY, program  # noqa: F401 - a fixture
from tests.engine.llama_server import running
from tests.mcp.server_programs import SERVERS, eventually
from tests.server.mcp_proxy import call_text, stdio_server

CONTEXT = 32_768
OPTIONS = ("--temp", "0", "--alias", "tiny", "--override-kv", f"llama.context_length=int:{CONTEXT}")
"""The model was trained with a context of 4,096 tokens, which the prompt of so many tools fills."""
WIDTH = 100
PROMPT = "›"
RUN_IT = "or what to do instead:"
REPORT = 'def total(prices):\n    """Retrun the sum."""\n    return sum(prices)\n'
FIXED = REPORT.replace("Retrun", "Return")
TEST = "from report import total\n\nassert total([1, 2]) == 3\nprint('1 test passed')\n"
RUN_TESTS = "python3 test_report.py"
FOLDER_TABLE = """There are **two** entries:

| Name | Lines | What it is |
|:-----|------:|:-----------|
| `report.py` | 3 | a module that sums prices |
| `build` | | what was built |
"""
STORY = "Once upon a time there was a report. " * 300


class Turn(NamedTuple):
    """What the user types, what the model writes, how questions are answered; `seen` is shown at the end."""

    typed: str
    replies: Sequence[str]
    seen: str
    answers: Sequence[tuple[str, str]] = ()
    screen: str = ""


READING = [
    Turn("Hello!", ["Hello! I can read and change files, and use your servers."], "use your servers.", screen="hello"),
    Turn(
        "What is in this folder?",
        [call_text("ListDir"), FOLDER_TABLE],
        "what was built",
        screen="answer",
    ),
    Turn(
        "Read the report.",
        [
            call_text("Read", path="report.py"),
            f"It sums prices:\n\n```python\n{REPORT}```\n\nIts docstring has a typo.",
        ],
        "has a typo.",
        screen="markdown",
    ),
]
CHANGING = [
    Turn(
        "Mend @report.py.",
        [call_text("Edit", path="report.py", old_string="Retrun", new_string="Return"), "The typo is gone."],
        "The typo is gone.",
        [(RUN_IT, "y")],
        screen="edit",
    ),
    Turn(
        "Write a test.",
        [call_text("Write", path="test_report.py", content=TEST), "There is a test now."],
        "There is a test now.",
        [(RUN_IT, "y")],
    ),
    Turn(
        "Run it.",
        [call_text("Bash", command=RUN_TESTS), "The test passes."],
        "The test passes.",
        [(RUN_IT, "y")],
    ),
    Turn(
        "Tidy up.",
        [call_text("Bash", command="rm -rf build report.py"), "Then I leave everything as it is."],
        "I leave everything as it is.",
        [(RUN_IT, "no, I need the report")],
        screen="denied",
    ),
]
SERVERS_TOOLS = [
    Turn(
        "Add 19 and 23.",
        [call_text("mcp__calc__add", first=19, second=23), "19 + 23 is 42."],
        "is 42.",
        [(RUN_IT, "a")],
        screen="server-tool",
    ),
    Turn("And 1 and 2?", [call_text("mcp__calc__add", first=1, second=2), "That is 3."], "That is 3."),
    Turn("Count to 5.", [call_text("mcp__lab__count", to=5), "I counted to 5."], "counted to 5.", [(RUN_IT, "y")]),
    Turn(
        "Show me all kinds of content.",
        [call_text("mcp__lab__mixed"), "These were five parts."],
        "These were five parts.",
        [(RUN_IT, "y")],
    ),
    Turn(
        "Ask me my name.",
        [call_text("mcp__lab__ask_user", question="What is your name?"), "Hello, Ada."],
        "Hello, Ada.",
        [(RUN_IT, "y"), ("the server lab asks; answer it?", "y"), ("name (string):", "Ada")],
        screen="form",
    ),
    Turn(
        "Burn the books.",
        [call_text("mcp__library__burn"), "I keep them."],
        "I keep them.",
        [(RUN_IT, "never")],
    ),
    Turn("/library:review report.py", ["It is short and right."], "short and right."),
]


@contextlib.asynccontextmanager
async def chatting(folder, *options):
    """Run the chat; the test's folder is the user's home."""
    home = {"HOME": str(folder)}
    async with terminal("chat", *options, state=folder, width=WIDTH, environment=home) as screen:
        yield screen


async def servers_are_there(screen: PseudoTerminal) -> None:
    for name in ("calc", "lab", "library"):
        await eventually(lambda name=name: f"{name} is connected: " in screen.output)


async def play(screen: PseudoTerminal, relay: ForcedReplies, *turns: Turn) -> None:
    """Play turns, each to its end."""
    for turn in turns:
        relay.replies += turn.replies
        screen.enter(turn.typed)
        for question, answer in turn.answers:
            await screen.expect(question)
            screen.enter(answer)
        await screen.expect(turn.seen)
        await screen.expect(PROMPT)
        if turn.screen:
            save_screen(turn.screen, screen.screen)

        assert [] == relay.replies


async def lose_a_server(screen: PseudoTerminal, relay: ForcedReplies, gate, number) -> None:
    """Kill a server, and use it when it is there again."""
    gate.unlink()
    os.kill(int(number.read_text()), 9)
    await screen.expect("lab is lost")
    save_screen("lost-server", screen.screen)
    gate.touch()
    await screen.expect("lab is connected: ")
    again = Turn("Add 1 and 1.", [call_text("mcp__lab__add", a=1, b=1), "It is 2."], "It is 2.", [(RUN_IT, "y")])
    await play(screen, relay, again)


async def interrupt_a_reply(screen: PseudoTerminal, relay: ForcedReplies) -> None:
    relay.replies = [STORY]
    screen.enter("Tell me a story.")
    await screen.expect("Once upon a time")
    screen.type(CTRL_C)
    await screen.expect("(interrupted)")
    await screen.expect("What came until then is kept; /undo takes it back.")
    await screen.expect(PROMPT)
    save_screen("interrupted", screen.screen)
    screen.enter("/undo")
    await screen.expect("The last turn is taken back: › Tell me a story.")
    await screen.expect(PROMPT)


async def call_a_missing_tool(screen: PseudoTerminal, relay: ForcedReplies) -> None:
    """The model calls a tool that is not offered, and again after the error."""
    relay.replies = [call_text("weather", city="Paris")] * 2
    screen.enter("What is the weather?")
    await screen.expect("/raw shows what it wrote.")
    await screen.expect(PROMPT)
    save_screen("no-such-tool", screen.screen)
    screen.enter("/raw")
    await screen.expect('"city": "Paris"')
    await screen.expect(PROMPT)


async def take_an_edit_back(screen: PseudoTerminal, relay: ForcedReplies) -> None:
    spoil = Turn(
        "Make it shorter.",
        [call_text("Write", path="report.py", content="total = sum\n"), "It has one line now."],
        "one line now.",
        [(RUN_IT, "y")],
    )
    await play(screen, relay, spoil)
    screen.enter("/undo")
    await screen.expect("put it back as it was? [y]es, [n]o:")
    screen.enter("y")
    await screen.expect("report.py is as it was")
    await screen.expect(PROMPT)
    save_screen("undo", screen.screen)


async def plan_and_sum_up(screen: PseudoTerminal, relay: ForcedReplies) -> None:
    screen.enter("/plan")
    await screen.expect("plan ›")
    await play(screen, relay, Turn("What next?", ["Next comes a release."], "Next comes a release."))
    screen.enter("/plan")
    await screen.expect("Mode ask")
    await screen.expect(PROMPT)
    relay.replies = ["The report is mended and tested; the sum of 19 and 23 is 42."]
    screen.enter("/compact")
    await screen.expect("summed up, the last 2 turns stay as they were. The summary:")
    await screen.expect("is 42.")
    await screen.expect(PROMPT)
    save_screen("compact", screen.screen)
    await play(screen, relay, Turn("What did we do?", ["We mended the report."], "We mended the report."))


@pytest.fixture
def folder(tmp_path):
    """The user's folder, and the file of servers beside it; `lab` starts while the file `gate` is there."""
    work = tmp_path / "work"
    (work / "build").mkdir(parents=True)
    (work / "report.py").write_text(REPORT)
    gate, number = tmp_path / "gate", tmp_path / "number"
    gate.touch()
    start = f"until [ -e {gate} ]; do sleep 0.1; done; echo $$ > {number}; exec {sys.executable} {SERVERS}/friendly.py"
    lab = {"command": "sh", "args": ["-c", start], "handshake": True}
    servers = {"calc": stdio_server("calc"), "lab": lab, "library": stdio_server("library")}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    return tmp_path


async def test_twenty_turns(program, folder):  # noqa: F811 - the fixture
    work = folder / "work"
    options = ("--root", str(work), "--mcp", str(folder / "servers.json"))
    with running(program, TINY, folder, *OPTIONS, context=CONTEXT) as engine:
        async with forced_replies(engine.url) as (url, relay):
            async with chatting(folder, url, *options) as screen:
                await servers_are_there(screen)
                await play(screen, relay, *READING, *CHANGING, *SERVERS_TOOLS)
                await lose_a_server(screen, relay, folder / "gate", folder / "number")
                await interrupt_a_reply(screen, relay)
                await call_a_missing_tool(screen, relay)
                await take_an_edit_back(screen, relay)
                await plan_and_sum_up(screen, relay)
                screen.enter("/quit")
                await screen.expect("to continue: fcshim chat --resume ")
                first_code = await screen.wait_exit()
                rows = screen.rows
            before = len(relay.requests)
            async with chatting(folder, "--resume") as screen:
                await screen.expect(f"The session was with {url}. Send the conversation there? [y]es, [n]o: ")
                screen.enter("y")
                await screen.expect("again with --root ~/work --mcp ~/servers.json")
                await screen.expect("› What did we do?")
                await servers_are_there(screen)
                add = call_text("mcp__calc__add", first=2, second=2)
                more = Turn("Add 2 and 2.", [add, "It is 4."], "It is 4.", [(RUN_IT, "y")])
                save_screen("resume", screen.screen, whole=True)
                await play(screen, relay, more)
                screen.enter("/quit")
                code = await screen.wait_exit()
    turns = sum(prompt.startswith("system") for prompt in relay.prompts)
    resumed = relay.prompts[before]

    assert (0, 0) == (first_code, code)
    assert (FIXED, TEST) == ((work / "report.py").read_text(), (work / "test_report.py").read_text())
    assert (work / "build").is_dir()  # the command was denied
    assert turns >= 20
    assert any("The user refused: no, I need the report" in prompt for prompt in relay.prompts)
    assert any("1 test passed" in prompt for prompt in relay.prompts)
    assert "assistant: The report is mended and tested; the sum of 19 and 23 is 42." in resumed
    assert "user: What did we do?\nassistant: We mended the report.\nuser: Add 2 and 2." in resumed
    assert "Tell me a story." not in resumed
    assert "mcp__library__burn" in resumed  # its tools are offered again
    assert not [row for row in rows if row.startswith("A part of the reply")]
    assert [row for row in rows if "sent again without images" in row]  # a record of the log, as a note
    assert not [row for row in rows if "WARNING" in row]
