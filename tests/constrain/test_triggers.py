"""A lazy grammar starts where a marker may begin, for any tokenization, and nowhere else."""

import random
import re

import pytest

from fcshim.constrain.calls import call_marker, grammar_of_calls
from fcshim.constrain.constraint import constraint_for
from fcshim.constrain.free_text import is_unambiguous_marker
from fcshim.constrain.triggers import LAZY_FIELDS, partial_marker_trigger, whole_tag_trigger
from fcshim.messages import Request, Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.testing.splits import random_split
from tests.constrain.matcher import Matcher

ADD = Tool("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
FREE = Request(model="tiny", messages=())
CALL = '<function_call>\n{"name": "add", "arguments": {"a":1}}\n</function_call>'
MARKED = [name for name, row in DIALECTS.items() if is_unambiguous_marker(call_marker(row))]


def begins_at(marker: str, pieces: list[str]) -> tuple[int, int] | None:
    """Return where the grammar starts and how far it reads at once, with llama-server's search in these tokens."""
    trigger = partial_marker_trigger(marker)
    text = ""
    for piece in pieces:
        text += piece
        found = re.search(trigger["value"], text)
        if found is not None:
            return found.start(), len(text)
    return None


@pytest.mark.parametrize("name", MARKED)
def test_the_grammar_starts_within_the_marker_for_any_tokenization(name: str) -> None:
    marker = call_marker(DIALECTS[name])
    text = f"a {marker[:2]} and then {marker}rest"
    for seed in range(60):
        pieces = random_split(text, random.Random(seed))
        found = begins_at(marker, pieces)
        if any(marker in piece and not piece.endswith(marker) for piece in pieces):
            continue  # a token that continues after the marker does not trigger the grammar

        assert found is not None
        start, read = found
        assert marker.startswith(text[start:read]), (pieces, text[start:read])
        assert start <= text.index(marker)


def test_text_without_the_markers_first_character_never_starts_it() -> None:
    assert begins_at("<function_call>", list("Let me > think |about| function_call> [it]. ")) is None


def test_a_tag_trigger_fires_on_the_complete_tag() -> None:
    pattern = whole_tag_trigger("[/THINK]")["value"]
    found = re.search(pattern, "a [/ b [/THINK] c")

    assert found is not None
    assert (7, "[/THINK]") == (found.start(), found[0])
    assert re.search(pattern, "a [/THINK") is None


def test_patterns_have_no_repetition() -> None:
    """The regex engine of libstdc++ recurses once per repetition, until the stack overflows."""
    for name in MARKED:
        trigger = partial_marker_trigger(call_marker(DIALECTS[name]))
        plain = re.sub(r"\\.", "", trigger["value"].removesuffix("(?![\\s\\S])"))

        assert not re.search(r"[*+{]", plain)
        assert len(plain) < 400


@pytest.mark.parametrize("name", MARKED)
def test_a_lazy_grammar_admits_any_text_and_calls(name: str) -> None:
    dialect = DIALECTS[name]
    marker = call_marker(dialect)
    grammar = grammar_of_calls(dialect, [ADD], text=True)
    assert grammar is not None
    matcher = Matcher(grammar)

    for text in (marker[:1], f"{marker[:1]} b", f"{marker[:-1]} and so on", f"{marker[0]}{marker[:3]} \u5317"):
        assert matcher.admits(text), text
    assert matcher.begins(marker)
    assert not matcher.begins(f"{marker}\u5317")


def test_a_lazy_grammar_is_only_used_if_requested_and_supported() -> None:
    lazy = constraint_for("gbnf", FUNCTION_CALL, [ADD], FREE, eager=True, lazy=True)
    eager = constraint_for("gbnf", FUNCTION_CALL, [ADD], FREE, eager=True)
    bare = constraint_for("gbnf", DIALECTS["llama3_json"], [ADD], FREE, eager=True, lazy=True)
    other = constraint_for("llguidance", FUNCTION_CALL, [ADD], FREE, eager=True, lazy=True)
    demanded = Request(model="tiny", messages=(), tool_choice=ToolChoice("required"))
    required = constraint_for("gbnf", FUNCTION_CALL, [ADD], demanded, eager=True, lazy=True)

    assert lazy is not None
    assert eager is not None
    assert lazy.lazy
    assert set(LAZY_FIELDS) == set(lazy.fields)
    assert eager.fields["grammar"] == lazy.fields["grammar"]
    assert eager.key != lazy.key
    for each in (eager, bare, other, required):
        assert each is not None
        assert not each.lazy
        assert {"grammar"} == set(each.fields)


def test_a_strict_tool_gets_a_lazy_grammar() -> None:
    strict = Tool("add", "", ADD.parameters, strict=True)

    assert constraint_for("gbnf", FUNCTION_CALL, [ADD], FREE, lazy=True) is None
    found = constraint_for("gbnf", FUNCTION_CALL, [strict], FREE, lazy=True)
    assert found is not None
    assert found.lazy


def test_markers_that_may_be_special_tokens_are_preserved() -> None:
    for name, expected in [("hermes", "<tool_call>"), ("mistral", "[TOOL_CALLS]"), ("harmony", "<|channel|>")]:
        found = constraint_for("gbnf", DIALECTS[name], [ADD], FREE, eager=True, lazy=True)
        assert found is not None

        assert {expected, "<think>", "</think>", "[THINK]"} <= set(found.fields["preserved_tokens"])


def test_inside_reasoning_only_its_end_tag_is_a_trigger() -> None:
    opened = constraint_for("gbnf", FUNCTION_CALL, [ADD], FREE, eager=True, lazy=True, open_reasoning_tag="<think>")
    assert opened is not None

    assert [whole_tag_trigger("</think>")] == opened.fields["grammar_triggers"]


def test_a_model_may_write_markers_in_its_reasoning() -> None:
    thinker = Request(model="qwq-32b", messages=())
    found = constraint_for("gbnf", FUNCTION_CALL, [ADD], thinker, eager=True, lazy=True)
    assert found is not None

    assert [partial_marker_trigger("<function_call>"), partial_marker_trigger("<think>")] == found.fields[
        "grammar_triggers"
    ]
