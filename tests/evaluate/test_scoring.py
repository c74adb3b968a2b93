"""From a reply to a verdict."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.evaluate import Case, ExpectedCall, judge
from fcshim.events import CallError, ToolCallEnd
from fcshim.messages import Tool
from fcshim.reply import Reply

LIGHT = Tool(
    "light",
    "",
    {
        "type": "object",
        "properties": {
            "room": {"type": "string"},
            "on": {"type": "boolean", "default": True},
            "level": {"type": "number"},
            "colour": {
                "type": "object",
                "properties": {"red": {"type": "integer"}, "glow": {"type": "boolean", "default": False}},
            },
        },
    },
)
TIMER = Tool("timer", "", {"type": "object", "properties": {"minutes": {"type": "number"}}})
WEATHER = Tool("weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})


def wanted(name, **arguments):
    return ExpectedCall(name, {key: [value] for key, value in arguments.items()})


def case(*alternatives):
    return Case(
        id="x",
        category="simple",
        messages=({"role": "user", "content": "?"},),
        tools=(LIGHT, TIMER, WEATHER),
        expected=alternatives,
    )


def called(name, error=None, **arguments):
    return ToolCallEnd("id", name, json.dumps(arguments), 0, error=error)


def verdict(expected, *calls, text=""):
    return judge(case(*expected), Reply(tool_calls=calls, text=text))


KITCHEN = [(wanted("light", room="kitchen"),)]
TWO = [(wanted("light", room="kitchen"), wanted("timer", minutes=5))]
NONE = [()]


@pytest.mark.parametrize(
    ("expected", "calls", "what"),
    [
        (KITCHEN, [called("light", room="kitchen")], "right"),
        (KITCHEN, [called("light", room="Kitchen")], "wrong_arguments"),
        (KITCHEN, [called("light", room="kitchen ")], "wrong_arguments"),
        (KITCHEN, [called("light")], "wrong_arguments"),
        (KITCHEN, [called("light", room="kitchen", level=3)], "wrong_arguments"),
        (KITCHEN, [called("timer", minutes=5)], "wrong_tool"),
        (KITCHEN, [], "missing_call"),
        (KITCHEN, [called("light", room="kitchen"), called("light", room="kitchen")], "extra_call"),
        (TWO, [called("timer", minutes=5), called("light", room="kitchen")], "right"),
        (TWO, [called("timer", minutes=5)], "missing_call"),
        (TWO, [called("timer", minutes=6), called("light", room="kitchen")], "wrong_arguments"),
        (TWO, [called("timer", minutes=5), called("timer", minutes=5)], "wrong_tool"),
        (NONE, [called("timer", minutes=5)], "called_though_none_fits"),
    ],
)
def test_calls_are_right_or_wrong_in_one_way(expected, calls, what):
    assert what == verdict(expected, *calls)


def test_what_is_the_default_may_be_said_or_left_out():
    on, off = [(wanted("light", room="hall", on=True),)], [(wanted("light", room="hall", on=False),)]

    assert "right" == verdict(on, called("light", room="hall"))
    assert "right" == verdict(on, called("light", room="hall", on=True))
    assert "right" == verdict([(wanted("light", room="hall"),)], called("light", room="hall", on=True))
    assert "wrong_arguments" == verdict(off, called("light", room="hall"))
    assert "wrong_arguments" == verdict([(wanted("light", room="hall"),)], called("light", room="hall", on=False))


def test_defaults_count_inside_objects_too():
    expected = [(wanted("light", colour={"red": 3}),)]

    assert "right" == verdict(expected, called("light", colour={"glow": False, "red": 3.0}))
    assert "wrong_arguments" == verdict(expected, called("light", colour={"glow": True, "red": 3}))


def test_numbers_are_equal_by_value_and_no_truth_values():
    expected = [(wanted("light", level=1),)]

    assert "right" == verdict(expected, called("light", level=1.0))
    assert "wrong_arguments" == verdict(expected, called("light", level=True))
    assert "wrong_arguments" == verdict(expected, called("light", level="1"))


def test_any_admitted_value_is_right():
    expected = [(ExpectedCall("weather", {"city": ["東京", "Tokyo"]}),)]

    assert "right" == verdict(expected, called("weather", city="Tokyo"))
    assert "right" == verdict(expected, called("weather", city="東京"))
    assert "wrong_arguments" == verdict(expected, called("weather", city="Kyoto"))


def test_of_alternatives_the_nearest_counts():
    expected = [(wanted("timer", minutes=5),), (wanted("light", room="hall"), wanted("timer", minutes=1))]

    assert "right" == verdict(expected, called("timer", minutes=1), called("light", room="hall"))
    assert "wrong_arguments" == verdict(expected, called("timer", minutes=9))


def test_a_call_may_be_left_to_the_model():
    expected = [(wanted("timer", minutes=5),), ()]

    assert "right" == verdict(expected, called("timer", minutes=5))
    assert "right" == verdict(expected, text="Which timer?")
    assert "wrong_arguments" == verdict(expected, called("timer", minutes=6))


def test_where_no_call_fits_something_has_to_be_said():
    assert "right" == verdict(NONE, text="Paris.")
    assert "no_answer" == verdict(NONE, text=" \n")


def test_a_call_that_cannot_be_used_is_malformed():
    cut = called("timer", CallError("truncated", "cut off", '{"minutes": '))

    assert "malformed" == verdict(KITCHEN, called("light", room="kitchen"), cut)
    assert "called_though_none_fits" == verdict(NONE, cut)


@given(st.lists(st.sampled_from(["kitchen", "hall", "office"]), min_size=1, max_size=5), st.randoms())
def test_the_order_of_calls_does_not_count(rooms, rng):
    made = [called("light", room=room) for room in rooms]
    rng.shuffle(made)

    assert "right" == verdict([tuple(wanted("light", room=room) for room in rooms)], *made)


def test_each_wanted_call_needs_one_of_its_own():
    """A greedy pairing would give Rome to the first and leave nothing to the second."""
    either, rome = ExpectedCall("weather", {"city": ["Rome", "Oslo"]}), wanted("weather", city="Rome")

    assert "right" == verdict([(either, rome)], called("weather", city="Rome"), called("weather", city="Oslo"))
    assert "wrong_arguments" == verdict(
        [(either, rome)], called("weather", city="Oslo"), called("weather", city="Oslo")
    )
