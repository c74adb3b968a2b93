"""The message of a failed turn: what happened, then what to do."""

import pytest

from fcshim.chat.advice import explain
from fcshim.chat.terminal_view import count_of
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH, read_error
from fcshim.errors import ConfigError, ModelOutputError, RequestError, UpstreamError

REFUSED_KEY = read_error(401, {}, b"{}")


@pytest.mark.parametrize(
    ("error", "chat", "script"),
    [
        (
            ModelOutputError("it looped", kind="max_rounds"),
            "it looped. What it has done so far is kept: say `go on`",
            "--resume",
        ),
        (ModelOutputError("x", kind="invalid_call"), "/raw shows what it wrote.", "--json shows what it wrote."),
        (UpstreamError("x", kind=CONTEXT_LENGTH), "/compact sums it up, /undo takes", "offer fewer tools."),
        (UpstreamError("x.", kind="timeout"), "x. The model may be loading or busy: ask again.", "try again."),
        (UpstreamError("cannot connect", lost=True), "Is the model's server running? The key `up`", "running?"),
        (
            REFUSED_KEY,
            "the endpoint refused the API key (HTTP 401). Start again with the endpoint's key: --key,",
            "--key",
        ),
    ],
)
def test_an_error_says_what_to_do(error, chat, script):
    assert chat in explain(error)
    assert script in explain(error, script=True)


def test_a_script_is_not_told_to_type_commands():
    errors = (ModelOutputError("x", kind=kind) for kind in ("max_rounds", "invalid_call", "truncated", CONTEXT_LENGTH))

    assert not [text for text in (explain(each, script=True) for each in errors) if "/" in text]


@pytest.mark.parametrize("error", [RequestError("no"), ConfigError("no"), UpstreamError("no")])
def test_an_error_that_says_all_stays_as_it_is(error):
    assert "no" == explain(error)


def test_counts_are_words():
    assert ["no tools", "1 tool", "2 tools"] == [count_of(number, "tool") for number in range(3)]


@pytest.mark.parametrize("kind", [CONTEXT_LENGTH, "truncated"])
@pytest.mark.parametrize("script", [True, False])
def test_where_the_tools_fill_the_context_no_summary_is_advised(kind, script):
    shown = explain(UpstreamError("too long", kind=kind), script=script, filled_by_tools=True)

    assert "The tools fill the model's context: offer fewer" in shown
    assert "/compact" not in shown
