import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.buffered_arguments import BufferedArguments
from tests.codecs.helpers import cut

_json = st.dictionaries(st.text(max_size=4), st.recursive(st.text(max_size=4) | st.integers(), st.lists), max_size=3)


def run(sent, *, good):
    """Give all that the client has after each piece, and at the end."""
    held = BufferedArguments()
    states = [""]
    for piece in [*map(held.feed, sent), held.close(valid=good)]:
        states.append(states[-1] + piece)

    assert states[-1] == held.sent_text()
    return states[1:]


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(_json, st.sampled_from(["", " ", "\n}"[:1]]), st.data())
def test_only_the_end_of_a_good_call_completes_its_arguments(value, after, data):
    arguments = json.dumps(value, indent=data.draw(st.sampled_from([None, 1]))) + after
    states = run([piece.decode() for piece in cut(arguments.encode(), lambda: data.draw(st.integers(1, 5)))], good=True)

    assert arguments == states[-1]
    assert not any(is_json(state) for state in states[:-1])


@given(_json, st.integers(0, 40), st.data())
def test_a_bad_call_is_at_no_moment_json(value, end, data):
    arguments = json.dumps(value)[: end or None]
    sent = [piece.decode() for piece in cut(arguments.encode(), lambda: data.draw(st.integers(1, 5)))]

    assert not any(is_json(state) for state in run(sent, good=False))


@pytest.mark.parametrize("sent", [["{}"], ["{", "}"], ["{}", " ", "\n"]])
def test_the_last_brace_waits(sent):
    assert {"{", "".join(sent)} == set(run(sent, good=True))
