"""The line of figures after a turn, with a clock of the test's own."""

import pytest

from fcshim.agent import RoundEnded
from fcshim.chat.turn_figures import TurnFigures
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.events import Stop, Text, ToolCallStart, Usage
from fcshim.reply import Reply

ENDED = RoundEnded(Reply(), (), None)


def line(*steps):
    """Count events; a number is the seconds that pass, a list what happens while the user is asked."""
    now = 100.0
    figures = TurnFigures(lambda: now)
    for step in steps:
        if isinstance(step, list):
            with figures.paused():
                now += sum(step)
        elif isinstance(step, int | float):
            now += step
        else:
            figures.count(step)
    return figures.line()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1, Text("a"), 2.25, Stop("complete"), ENDED], "3.2 s"),
        ([Text("a"), Usage(), Stop("complete"), ENDED], "0.0 s"),
        (
            [1, Text("a"), 2, Usage(1_204, 86), Stop("complete"), ENDED],
            "1,204 tokens in, 86 out, 3.0 s, 29 tokens/s, 1,290 in the context",
        ),
        (
            [1, Text("a"), Usage(10, 5), Stop("complete"), ENDED],
            "10 tokens in, 5 out, 1.0 s, 5 tokens/s, 15 in the context",
        ),
        (
            [
                *(ToolCallStart("1", "f", 0), 1, Usage(10, 5), Stop("tool_use"), [60], 3, ENDED),
                *(2, Text("a"), 1, Usage(20, 15), Stop("complete"), ENDED),
            ],
            "30 tokens in, 20 out, 7.0 s, 5 tokens/s, 35 in the context",
        ),
        (
            [Text("a"), Usage(1, 1), Usage(10, 5), Stop("complete"), ENDED],
            "10 tokens in, 5 out, 0.0 s, 15 in the context",
        ),
    ],
)
def test_what_a_turn_took(steps, expected):
    assert expected == line(*steps)


WAITING = [
    ((), None, 0, "4 s"),
    ((), None, 3_400, "4 s, about 3,400 tokens in the prompt"),
    ((), PromptProgress(9, 0, 3, 2.0), 3_400, "3 of 9 tokens of the prompt read, 2 s, about 4 s left"),
    ((), PromptProgress(9, 0, 9, 2.0), 3_400, "4 s, about 3,400 tokens in the prompt"),
    ((3, ENDED), None, 3_400, "4 s, about 3,400 tokens in the prompt"),
]


@pytest.mark.parametrize(("steps", "progress", "tokens", "expected"), WAITING)
def test_waiting_shows_the_progress_or_the_time_and_the_size(steps, progress, tokens, expected):
    now = 100.0
    figures = TurnFigures(lambda: now)
    for step in (*steps, 4):
        if isinstance(step, int):
            now += step
        else:
            figures.count(step)

    assert expected == figures.waiting_line(progress, tokens)
