"""Arguments in pieces."""

import pytest

from fcshim.codecs.gemini.decoder import PartialArg, PartialArguments


def put(*pieces):
    arguments = PartialArguments(10_000)
    for path, value in pieces:
        field = {str: "string_value", float: "number_value", int: "number_value", bool: "bool_value"}.get(type(value))
        arguments.add(PartialArg(json_path=path, **{field: value} if field else {}))
    arguments.finish()
    return arguments


def test_pieces_become_one_object():
    made = put(("$.a", "x"), ("$.b.c", 1), ("$.b.d", 1.5), ("$.e[0]", True), ("$.e[1].f", None), ('$["g h"]', "y"))

    assert {"a": "x", "b": {"c": 1, "d": 1.5}, "e": [True, {"f": None}], "g h": "y"} == made.value
    assert not made.invalid


def test_a_text_continues_until_its_path_changes():
    arguments = PartialArguments(10_000)
    for text in ("a", "b"):
        arguments.add(PartialArg(json_path="$.x", string_value=text, will_continue=True))
    arguments.add(PartialArg(json_path="$.y", number_value=1))

    assert {"x": "ab", "y": 1} == arguments.value


def test_a_later_value_replaces_an_earlier_one():
    assert {"a": 2, "b": [3]} == put(("$.a", 1), ("$.a", 2), ("$.b[0]", 1), ("$.b[0]", 3)).value


@pytest.mark.parametrize(
    "path", ["", "$", "a", "$a", "$.", "$[0]", "$.a[1]", "$.a[999999]", "$.a[1", "$.a..b", "$" + ".a" * 65, "$.x.y"]
)
def test_an_invalid_path_makes_only_its_call_invalid(path):
    assert put(("$.x", "text"), (path, 1)).invalid
