"""A session of ten turns with Qwen2.5-Coder-0.5B on a real llama-server: nothing is forced, so few words are expected.

`make test-chat-real` runs it. The server samples at temperature 0, so that a machine gives the same replies each time.
"""

import json
import os
import re
import sys
from collections.abc import Callable

import pytest

from tests.chat.pseudo_terminal import PseudoTerminal
from tests.chat.test_twenty_turns import PROMPT, RUN_IT, chatting
from tests.engine.conftest import program  # noqa: F401 - a fixture
from tests.engine.llama_server import LlamaServer, running
from tests.mcp.server_programs import SERVERS, eventually
from tests.real_models import find_model

pytestmark = pytest.mark.skipif(os.environ.get("FCSHIM_REAL_CHAT") != "1", reason="make test-chat-real runs it")
CONTEXT = 8_192
FIGURES = re.compile(
    r"([\d,]+) tokens in, ([\d,]+) out, ([\d.]+) s, (\d+) tokens/s, ([\d,]+) of ([\d,]+) in the context"
)
SECONDS = 120
ABOUT_A_CALL = "(its server says that it only reads)"
MAX_CALLS = 4
"""Calls in one turn: the fourth equal one is refused."""


async def turn(screen: PseudoTerminal, text: str, *, answer: str = "", shows: str = "") -> None:
    """Type a line; give the `answer` to each question about a call, since a small model may call again."""
    start = len(screen.output)
    answered = 0

    def asked() -> bool:
        head, shown, question = screen.output[start:].rpartition(ABOUT_A_CALL)
        return head.count(ABOUT_A_CALL) + bool(shown) > answered and RUN_IT in question

    def ended() -> bool:
        return "in the context" in screen.output[start:] and screen.output.rstrip("\x08 ").endswith(PROMPT)

    screen.enter(text)
    await reach(screen, lambda: asked() or ended())
    while asked():
        assert answer, screen.output[start:]
        assert answered < MAX_CALLS, screen.output[start:]
        answered += 1
        screen.enter(answer)
        await reach(screen, lambda: asked() or ended())

    assert bool(answer) == bool(answered), screen.output[start:]
    assert shows in screen.output[start:]


async def reach(screen: PseudoTerminal, state: Callable[[], bool]) -> None:
    """Wait for a state of the screen; without it, the error shows the screen."""
    try:
        await eventually(state, SECONDS)
    except TimeoutError:
        pytest.fail(f"not reached within {SECONDS} s: {screen.output[-1_000:]}")


async def command(screen: PseudoTerminal, text: str, shows: str) -> None:
    start = len(screen.output)
    screen.enter(text)
    await reach(screen, lambda: shows in screen.output[start:])
    await reach(screen, lambda: screen.output.rstrip("\x08 ").endswith(PROMPT))


def figures(screen: PseudoTerminal) -> tuple[int, int, float, int, int, int]:
    """Return the figures of the last turn."""
    *_, last = FIGURES.findall(" ".join(screen.output.split()))
    tokens_in, out, seconds, speed, used, size = (each.replace(",", "") for each in last)
    return int(tokens_in), int(out), float(seconds), int(speed), int(used), int(size)


def check_figures(screen: PseudoTerminal, engine: LlamaServer) -> None:
    """Compare the figures with what the server says of its context."""
    _, out, seconds, speed, used, size = figures(screen)
    latest, context = engine.latest_tokens()

    assert context == size
    assert abs(used - latest) <= 2
    assert abs(speed - out / seconds) <= 0.35 * out / seconds + 1


async def test_ten_turns_with_a_real_model(program, tmp_path):  # noqa: F811 - the fixture
    gate, number = tmp_path / "gate", tmp_path / "number"
    gate.touch()
    start = f"until [ -e {gate} ]; do sleep 0.1; done; echo $$ > {number}; exec {sys.executable} {SERVERS}/calc.py"
    servers = {"calc": {"command": "sh", "args": ["-c", start], "handshake": True}}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    model = find_model("qwen-0.5b.gguf")
    options = ("--temp", "0", "--seed", "1", "--jinja")
    add = "Call mcp__calc__add with first={} and second={}."
    with running(program, model, tmp_path, *options, context=CONTEXT) as engine:
        async with chatting(tmp_path, engine.url, "--mcp", str(tmp_path / "servers.json")) as screen:
            await eventually(lambda: "calc is connected: 1 tool." in screen.output, 60)
            await turn(screen, "What is the capital of Germany?", shows="Berlin")
            check_figures(screen, engine)
            await turn(screen, add.format(19, 23), answer="y", shows="42")
            await turn(screen, add.format(1, 2), answer="no", shows="The user refused")
            before = figures(screen)[4]
            await turn(screen, "@tests/mcp/servers/calc.py What is the name of the function in this file?", shows="add")
            assert figures(screen)[0] > before + 100  # the file is a part of the prompt
            await command(screen, "/undo", "The last turn is taken back: › @")
            await turn(screen, "What is the capital of France?", shows="Paris")
            check_figures(screen, engine)
            gate.unlink()
            os.kill(int(number.read_text()), 9)
            await eventually(lambda: "calc is lost" in screen.output, 60)
            await turn(screen, "What is the capital of Italy?", shows="Rome")
            gate.touch()
            await eventually(lambda: screen.output.count("calc is connected") > 1, 60)
            await turn(screen, add.format(20, 30), answer="y", shows="50")
            await command(screen, "/compact 1", "summed up, the last 1 turn stay")
            await turn(screen, "What is the capital of Spain?", shows="Madrid")
            screen.enter("/quit")
            await screen.expect("to continue: fcshim chat --resume ")
            assert 0 == await screen.wait_exit()
        async with chatting(tmp_path, engine.url, "--resume") as screen:
            await eventually(lambda: "What is the capital of Spain?" in screen.output, 60)
            await eventually(lambda: "calc is connected: 1 tool." in screen.output, 60)
            await turn(screen, add.format(4, 5), answer="y", shows="9")
            await turn(screen, "Thank you.")
            check_figures(screen, engine)
            assert "Traceback" not in screen.output
