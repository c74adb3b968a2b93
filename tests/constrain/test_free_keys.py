"""Objects whose keys are free have none twice, whatever a model writes."""

import itertools
import json
from typing import Any

import pytest

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.frames import beginning_of_calls
from fcshim.constrain.free_keys import KINDS, of_kind
from fcshim.constrain.strings import PRINTED
from fcshim.messages import Tool
from fcshim.parse.dialects import FUNCTION_CALL
from tests.constrain.matcher import Matcher
from tests.constrain.test_values import derived

JSON = Any
FREE = {"type": "object", "additionalProperties": {"type": "null"}}


def test_every_character_begins_keys_of_exactly_one_kind() -> None:
    for low, high in PRINTED:
        for point in {low, *range(low, min(high, low + 2_000), 7), *range(low, high, 4_001), high}:
            kinds = [kind for kind in range(KINDS) if any(a <= point <= b for a, b in of_kind(PRINTED, kind))]

            assert 1 == len(kinds), hex(point)


def test_no_key_comes_twice() -> None:
    def pairs(found: list[tuple[str, JSON]]) -> JSON:
        assert len(found) == len({key for key, _ in found}), found
        return dict(found)

    grammar = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", {"type": "object"})], parallel=False)
    assert grammar is not None
    for value in derived({"type": "object"}, 200):
        json.loads(json.dumps(value), object_pairs_hook=pairs)
    assert any("free keys" in note for note in grammar.notes)


@pytest.mark.parametrize(("bounds", "sizes"), [({}, {0, 1, 2, 6}), ({"minProperties": 2, "maxProperties": 3}, {2, 3})])
def test_there_are_as_many_as_there_may_be(bounds: JSON, sizes: set[int]) -> None:
    found = {len(value) for value in derived({**FREE, **bounds}, 400)}

    assert sizes <= found
    assert found <= set(range(min(sizes), max(sizes) + 1))


def test_they_come_in_any_order_and_the_same_not_again() -> None:
    grammar = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", FREE)], parallel=False)
    assert grammar is not None
    matcher = Matcher(grammar)
    for keys in itertools.permutations(["color", "size", "unit", "name"], 3):
        text = beginning_of_calls(FUNCTION_CALL, [("f", json.dumps(dict.fromkeys(keys)))])
        kinds = {ord(key[0]) % KINDS for key in keys}

        assert matcher.admits(f"{text}}}\n</function_call>") == (len(kinds) == len(keys)), keys
    twice = beginning_of_calls(FUNCTION_CALL, [("f", '{"a":null,"a"')])
    assert twice is not None
    assert not matcher.begins(twice)
