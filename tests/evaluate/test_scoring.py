"""The verdict for a reply."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.evaluate import Case, ExpectedCall, judge
from fcshim.evaluate.scoring import canonical, early_verdict, fill_defaults
from fcshim.events import CallError, Text, ToolCallEnd, ToolCallStart
from fcshim.messages import Tool
from fcshim.reply import Reply, fold

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


def expected_call(name, **arguments):
    return ExpectedCall(name, {key: [value] for key, value in arguments.items()})


def case(*alternatives):
    return Case(
        id="x",
        category="simple",
        messages=({"role": "user", "content": "?"},),
        tools=(LIGHT, TIMER, WEATHER),
        expected=alternatives,
    )


def actual_call(name, error=None, **arguments):
    return ToolCallEnd("id", name, json.dumps(arguments), 0, error=error)


def judged(expected, *calls, text=""):
    return judge(case(*expected), Reply(tool_calls=calls, text=text))


KITCHEN = [(expected_call("light", room="kitchen"),)]
TWO = [(expected_call("light", room="kitchen"), expected_call("timer", minutes=5))]
NONE = [()]


@pytest.mark.parametrize(
    ("expected", "calls", "what"),
    [
        (KITCHEN, [actual_call("light", room="kitchen")], "right"),
        (KITCHEN, [actual_call("light", room="Kitchen")], "wrong_arguments"),
        (KITCHEN, [actual_call("light", room="kitchen ")], "wrong_arguments"),
        (KITCHEN, [actual_call("light")], "wrong_arguments"),
        (KITCHEN, [actual_call("light", room="kitchen", level=3)], "wrong_arguments"),
        (KITCHEN, [actual_call("timer", minutes=5)], "wrong_tool"),
        (KITCHEN, [], "missing_call"),
        (KITCHEN, [actual_call("light", room="kitchen"), actual_call("light", room="kitchen")], "extra_call"),
        (TWO, [actual_call("timer", minutes=5), actual_call("light", room="kitchen")], "right"),
        (TWO, [actual_call("timer", minutes=5)], "missing_call"),
        (TWO, [actual_call("timer", minutes=6), actual_call("light", room="kitchen")], "wrong_arguments"),
        (TWO, [actual_call("timer", minutes=5), actual_call("timer", minutes=5)], "wrong_tool"),
        (NONE, [actual_call("timer", minutes=5)], "called_though_none_fits"),
    ],
)
def test_each_reply_has_one_verdict(expected, calls, what):
    assert what == judged(expected, *calls)


def test_a_default_may_be_given_or_omitted():
    on, off = [(expected_call("light", room="hall", on=True),)], [(expected_call("light", room="hall", on=False),)]

    assert "right" == judged(on, actual_call("light", room="hall"))
    assert "right" == judged(on, actual_call("light", room="hall", on=True))
    assert "right" == judged([(expected_call("light", room="hall"),)], actual_call("light", room="hall", on=True))
    assert "wrong_arguments" == judged(off, actual_call("light", room="hall"))
    assert "wrong_arguments" == judged(
        [(expected_call("light", room="hall"),)], actual_call("light", room="hall", on=False)
    )


def test_defaults_apply_inside_objects():
    expected = [(expected_call("light", colour={"red": 3}),)]

    assert "right" == judged(expected, actual_call("light", colour={"glow": False, "red": 3.0}))
    assert "wrong_arguments" == judged(expected, actual_call("light", colour={"glow": True, "red": 3}))


def test_numbers_are_equal_by_value_and_not_equal_to_booleans():
    expected = [(expected_call("light", level=1),)]

    assert "right" == judged(expected, actual_call("light", level=1.0))
    assert "wrong_arguments" == judged(expected, actual_call("light", level=True))
    assert "wrong_arguments" == judged(expected, actual_call("light", level="1"))


def test_any_accepted_value_is_right():
    expected = [(ExpectedCall("weather", {"city": ["東京", "Tokyo"]}),)]

    assert "right" == judged(expected, actual_call("weather", city="Tokyo"))
    assert "right" == judged(expected, actual_call("weather", city="東京"))
    assert "wrong_arguments" == judged(expected, actual_call("weather", city="Kyoto"))


def test_the_best_verdict_of_the_alternatives_counts():
    expected = [
        (expected_call("timer", minutes=5),),
        (expected_call("light", room="hall"), expected_call("timer", minutes=1)),
    ]

    assert "right" == judged(expected, actual_call("timer", minutes=1), actual_call("light", room="hall"))
    assert "wrong_arguments" == judged(expected, actual_call("timer", minutes=9))


def test_a_call_may_be_optional():
    expected = [(expected_call("timer", minutes=5),), ()]

    assert "right" == judged(expected, actual_call("timer", minutes=5))
    assert "right" == judged(expected, text="Which timer?")
    assert "wrong_arguments" == judged(expected, actual_call("timer", minutes=6))


def test_without_an_expected_call_the_reply_needs_text():
    assert "right" == judged(NONE, text="Paris.")
    assert "no_answer" == judged(NONE, text=" \n")


def test_an_unusable_call_is_malformed():
    cut = actual_call("timer", CallError("truncated", "cut off", '{"minutes": '))

    assert "malformed" == judged(KITCHEN, actual_call("light", room="kitchen"), cut)
    assert "called_though_none_fits" == judged(NONE, cut)


@given(st.lists(st.sampled_from(["kitchen", "hall", "office"]), min_size=1, max_size=5), st.randoms())
def test_the_order_of_calls_does_not_matter(rooms, rng):
    made = [actual_call("light", room=room) for room in rooms]
    rng.shuffle(made)

    assert "right" == judged([tuple(expected_call("light", room=room) for room in rooms)], *made)


def test_each_expected_call_needs_a_different_actual_call():
    """A greedy pairing would give Rome to the first expected call and leave nothing for the second."""
    either, rome = ExpectedCall("weather", {"city": ["Rome", "Oslo"]}), expected_call("weather", city="Rome")

    assert "right" == judged([(either, rome)], actual_call("weather", city="Rome"), actual_call("weather", city="Oslo"))
    assert "wrong_arguments" == judged(
        [(either, rome)], actual_call("weather", city="Oslo"), actual_call("weather", city="Oslo")
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1e20, 10**20), ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}), (-0.0, 0), ("é", "é")],
)
def test_equal_values(one, other):
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (1, "1"), (None, False), ("a", "A"), ("a", "a "), ([1, 2], [2, 1]), ({}, []), (0.1, 0.2)],
)
def test_unequal_values(one, other):
    assert canonical(one) != canonical(other)


@given(VALUES, VALUES)
def test_equal_values_are_equal_in_python(one, other):
    """The converse is not true: for Python, True equals 1."""
    if canonical(one) == canonical(other):
        assert one == other


def test_defaults_are_filled_in_at_every_level():
    schema = {
        "properties": {
            "unit": {"default": "km"},
            "stops": {"items": {"properties": {"minutes": {"default": 10}}}},
            "place": {"properties": {"country": {"default": "DE"}}},
        }
    }

    assert {"unit": "km"} == fill_defaults({}, schema)
    assert {
        "unit": "m",
        "stops": [{"minutes": 10}, {"minutes": 3}],
        "place": {"country": "DE", "city": "Ulm"},
    } == fill_defaults({"unit": "m", "stops": [{}, {"minutes": 3}], "place": {"city": "Ulm"}}, schema)


@pytest.mark.parametrize("schema", [None, True, {}, {"properties": None}, {"items": False}])
def test_a_schema_without_defaults_adds_nothing(schema):
    assert {"a": [1]} == fill_defaults({"a": [1]}, schema)


def events_of(*calls, text=""):
    """Return the events of calls, each with its start, and of the text after them."""
    listed = [
        event
        for index, call in enumerate(calls)
        for event in (ToolCallStart(f"call_{index}", call.tool_call_name, index), call)
    ]
    return listed + ([Text(text)] if text else [])


LONG = "Here is what I think about that. " * 8
WRONG_CALL = actual_call("timer", minutes=7)


@pytest.mark.parametrize(
    ("expected", "events", "verdict"),
    [
        (NONE, events_of(WRONG_CALL)[:1], "called_though_none_fits"),
        (KITCHEN, events_of(WRONG_CALL)[:1], "wrong_tool"),
        (TWO, events_of(WRONG_CALL)[:1], None),
        (TWO, events_of(WRONG_CALL), "wrong_arguments"),
        (KITCHEN, events_of(actual_call("light", room="kitchen")), None),
        (KITCHEN, events_of(*[actual_call("light", room="kitchen")] * 2)[:3], "extra_call"),
        (KITCHEN, [Text("Let me see.")], None),
        (KITCHEN, [Text(LONG)], "missing_call"),
        (NONE, [Text(LONG)], "right"),
        (KITCHEN, events_of(actual_call("light", room="kitchen"), text=LONG), "right"),
        (KITCHEN, [Text(LONG), *events_of(actual_call("light", room="kitchen"))], None),
        (TWO, events_of(actual_call("light", room="kitchen"), text=LONG), "missing_call"),
        (KITCHEN, events_of(actual_call("light", CallError("truncated", "", ""), room="kitchen")), None),
        (KITCHEN, [], None),
    ],
)
def test_a_verdict_is_known_before_the_end_of_the_reply_where_the_rest_cannot_change_it(expected, events, verdict):
    assert verdict == early_verdict(case(*expected), events)


CALLS = st.sampled_from(
    [
        WRONG_CALL,
        actual_call("light", room="kitchen"),
        actual_call("light", room="cellar"),
        actual_call("timer", minutes=5),
        actual_call("weather", city="Rome"),
    ]
)


@given(st.sampled_from([KITCHEN, TWO, NONE]), st.lists(CALLS, max_size=4), st.data())
def test_an_early_verdict_agrees_with_the_whole_reply_on_what_is_right(expected, calls, data):
    events = events_of(*calls, text="Done.")
    early = early_verdict(case(*expected), events[: data.draw(st.integers(0, len(events)))])

    assert early is None or (early == "right") == (judge(case(*expected), fold(events)) == "right")
