"""The rendering of a turn: untrusted text cannot control the terminal."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fcshim.agent import RoundEnded
from fcshim.chat.call_markup import MarkupSetAside
from fcshim.chat.terminal_view import TerminalView, TurnFigures
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.events import CallError, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import MediaPart, TextPart, ToolMessage
from fcshim.reply import Reply
from fcshim.sanitize import sanitize
from fcshim.tools import CallFinished, CallProgressed, CallStarted, ToolProgress
from tests.chat.pseudo_terminal import emulate


class RecordingView:
    """A view that writes to memory."""

    def __init__(self, *, terminal=False, **options):
        self._file = io.StringIO()
        console = Console(file=self._file, width=60, force_terminal=terminal, no_color=True, highlight=False)
        self.view = TerminalView(console, **options)

    def show(self, *events):
        for event in events:
            self.view.show(event)
        return self

    @property
    def text(self):
        return self._file.getvalue()


def call(name="f", arguments='{"a": 1}', error=None):
    return [
        ToolCallStart("1", name, 0),
        *(ToolCallChunk("1", char, 0) for char in arguments),
        ToolCallEnd("1", name, arguments, 0, error=error),
    ]


def result(*content, is_error=False):
    return CallFinished(ToolMessage("1", content, "f", is_error), final=False)


def test_text_and_calls_have_lines_of_their_own():
    recording = RecordingView().show(Text("Let me"), Text(" see."), *call(), result(TextPart("done")), Text("So."))
    recording.view.end_turn()

    assert 'Let me see.\n● f {"a": 1}\n  ⎿ done\nSo.\n' == recording.text


def test_reasoning_and_call_errors_are_shown():
    error = CallError("malformed", "two keys", "{")
    recording = RecordingView().show(Reasoning("Hm."), *call(error=error))

    assert 'Hm.\n● f {"a": 1} malformed, so it does not run: two keys\n' == recording.text


def test_a_long_call_with_an_error_is_one_row_and_can_be_seen_whole():
    arguments = '{"path": "a.txt", "content": "' + "x\u202ey" * 100
    error = CallError("truncated", "it was cut off", "{")
    recording = RecordingView(terminal=True).show(*call(arguments=arguments, error=error))
    rows = [row.rstrip() for row in emulate(recording.text.replace("\n", "\r\n").encode(), 60, 20).display]
    recording.view.show_full_call(1)

    assert [
        '● f {"path": "a.txt", "content": "… 330 characters: /call 1',
        "truncated, so it does not run: it was cut off",
        "",
    ] == rows[:3]
    assert "x<U+202E>y" * 3 in recording.text


def test_a_script_and_a_file_get_the_whole_call():
    long = '{"a": "' + "x" * 500 + '"}'
    shown = RecordingView(show_text=False, terminal=True).show(*call(arguments=long)).text

    assert f"● f {long}\n" == RecordingView().show(*call(arguments=long)).text
    assert f"● f {long}\n" == re.sub(r"\x1b\[[0-9;]*m", "", shown)


def test_a_report_waits_for_the_end_of_a_call():
    recording = RecordingView(terminal=True).show(*call()[:-1])
    recording.view.report("calc is connected: 1 tool.", failed=False)
    recording.show(*call()[-1:])
    recording.view.report("calc is lost.", failed=True)
    rows = [row.rstrip() for row in emulate(recording.text.replace("\n", "\r\n").encode(), 60, 20).display]

    assert ['● f {"a": 1}', "calc is connected: 1 tool.", "calc is lost."] == rows[:3]


def test_a_report_waits_for_the_end_of_the_text():
    recording = RecordingView(terminal=True).show(Text("add returned"), Usage())
    recording.view.report("calc is connected: 1 tool.", failed=False)
    recording.show(Text(" 42"), Stop("end_turn"))
    rows = [row.rstrip() for row in emulate(recording.text.replace("\n", "\r\n").encode(), 60, 20).display]

    assert ["add returned 42", "calc is connected: 1 tool."] == rows[:2]


@pytest.mark.parametrize("events", [call()[:3], [Text("It is")]])
def test_a_report_is_shown_when_the_turn_ends_within_a_part(events):
    recording = RecordingView(terminal=True).show(*events)
    recording.view.report("calc is connected: 1 tool.", failed=False)
    recording.view.end_turn()

    assert "calc is connected: 1 tool." in recording.text


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ((), "  ⎿ (no output)\n"),
        ((TextPart("a\n"),), "  ⎿ a\n"),
        ((TextPart("a\nb"), MediaPart("image/png")), "  ⎿ a\n    b\n    [image/png]\n"),
        ((TextPart("1\n2\n3\n4\n5\n6"),), "  ⎿ 1\n    2\n    3\n    4\n    … 2 more lines: /result 1\n"),
        ((TextPart("x" * 201),), f"  ⎿ {'x' * 200}…\n    … the rest: /result 1\n"),
    ],
)
def test_results_are_folded(content, shown):
    assert shown == RecordingView().show(result(*content)).text


def test_a_whole_result_can_be_shown():
    recording = RecordingView().show(result(TextPart("1\n2\n3\n4\n5"), MediaPart("image/png")))
    before = len(recording.text)
    recording.view.show_full_result(1)

    assert "1\n2\n3\n4\n5\n[image/png]\n" == recording.text[before:]


def test_progress_stays_on_one_line_until_the_next_output():
    steps = [CallProgressed("1", ToolProgress(number, 3, f"at {number}")) for number in (1, 2)]
    recording = RecordingView(terminal=True).show(*steps, result(TextPart("ok")))
    passages = re.sub(r"\x1b\[[0-9;]*[mK]", "", recording.text).split("\r")

    assert ["  ⋯ 1/3 at 1", "  ⋯ 2/3 at 2", "  ⎿ ok\n"] == [each for each in passages if each.strip()]


def test_waiting_is_shown_until_the_next_output():
    recording = RecordingView(terminal=True)
    recording.view.show_waiting()
    recording.show(Text("Hi."), *call(), CallStarted(call()[-1]), result(TextPart("ok")), RoundEnded(Reply(), (), None))
    passages = re.sub(r"\x1b\[[0-9;]*[mK]", "", recording.text).split("\r")

    assert ["⋯", 'Hi.\n● f {"a": 1}\n  ⋯ f', "  ⎿ ok\n⋯"] == passages


def test_figures_are_added_to_the_sign_while_it_is_shown_and_never_later():
    recording = RecordingView(terminal=True)
    recording.view.update_waiting("early")
    recording.view.show_waiting()
    recording.view.update_waiting("1 s")
    recording.view.update_waiting("2 s")
    recording.show(Text("Hi."))
    recording.view.update_waiting("late")
    recording.show(*call(), CallStarted(call()[-1]))
    recording.view.update_waiting("a tool runs")
    passages = re.sub(r"\x1b\[[0-9;]*[mK]", "", recording.text).split("\r")

    assert ["⋯", "⋯ 1 s", "⋯ 2 s", 'Hi.\n● f {"a": 1}\n  ⋯ f'] == passages


def test_progress_is_not_written_to_a_file():
    assert "" == RecordingView().show(CallProgressed("1", ToolProgress(1))).text


def test_model_text_can_be_left_out():
    recording = RecordingView(show_text=False).show(Text("a"), *call())

    assert '● f {"a": 1}\n' == recording.text


def test_long_lines_are_not_broken_and_markup_is_text():
    text = "[bold]" + "word " * 40

    assert text == RecordingView().show(Text(text)).text


def test_with_several_calls_each_result_names_its_tool():
    recording = RecordingView().show(*call(), *call("g"), result(TextPart("a\nb")), Usage(), Stop("tool_use"))

    assert '● f {"a": 1}\n● g {"a": 1}\n  ⎿ f: a\n    b\n' == recording.text


def test_a_tools_final_answer_is_shown_and_a_streamed_answer_is_not():
    recording = RecordingView().show(Text("Hi."), RoundEnded(Reply(text="Hi."), (), "Hi."))
    recording.show(RoundEnded(Reply(), (), "That is all."))

    assert "Hi.\nThat is all.\n" == recording.text


def test_notes_have_lines_of_their_own():
    recording = RecordingView().show(Text("a"))
    recording.view.note("b")
    recording.view.error("c\x1b[2J")
    recording.view.write_line("d")

    assert "a\nb\nc␛[2J\nd\n" == recording.text


def test_printable_text_is_unchanged():
    text = "Grüße, 世界 🙂\n\tand so on"

    assert text == sanitize(text)


def test_control_characters_are_made_visible():
    assert "␛[31m␇␈␡" == sanitize("\x1b[31m\x07\x08\x7f")
    assert "a\nb" == sanitize("a\r\nb")
    assert "\ufffd31m\ufffd" == sanitize("\x9b31m\u202e")


@given(st.text())
def test_no_control_character_passes(text):
    passed = sanitize(text)

    assert not [char for char in passed if (ord(char) < 0x20 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0]


@given(st.text(), st.integers(0, 20))
def test_chunk_boundaries_do_not_matter(text, at):
    assert sanitize(text) == sanitize(text[:at]) + sanitize(text[at:])


@pytest.mark.parametrize(
    ("reason", "note"),
    [
        (
            "max_tokens",
            "The reply was cut off at the limit of tokens: `go on` continues it; /compact helps a full context.\n",
        ),
        ("content_filter", "The endpoint's content filter cut the reply off: ask in other words.\n"),
        ("complete", ""),
    ],
)
def test_a_reply_that_was_cut_off_says_so(reason, note):
    recording = RecordingView().show(Text("Once\n"), RoundEnded(Reply(text="Once\n", stop_reason=reason), (), "Once\n"))

    assert f"Once\n{note}" == recording.text


def test_messages_are_wrapped_between_words_on_a_terminal_only():
    text = " ".join(["word"] * 20)
    piped, terminal = RecordingView(), RecordingView(terminal=True)
    piped.view.note(text)
    terminal.view.error(text)

    assert f"{text}\n" == piped.text
    assert [12, 8] == [line.count("word") for line in terminal.text.rstrip("\n").split("\n")]


def test_a_call_that_cannot_run_is_noted_in_its_own_turn_only():
    recording = RecordingView().show(MarkupSetAside("<tool_call>"))
    recording.view.end_turn()
    recording.show(*call(), RoundEnded(Reply(), (), None))

    assert "A part of the reply" not in recording.text


ENDED = RoundEnded(Reply(), (), None)


def figures_after(*steps):
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
    assert expected == figures_after(*steps)


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
