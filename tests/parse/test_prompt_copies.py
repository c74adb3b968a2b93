"""Copies of the prompt, which the parser reports beside the text that they are."""

import json
import random
from pathlib import Path

import pytest

from fcshim.events import Text
from fcshim.parse.machine.prompt_copies import is_placeholder
from fcshim.parse.stream import StreamParser, parse
from fcshim.testing.splits import splits
from tests.parse.laws import normalise

VECTORS = json.loads((Path(__file__).parent / "prompt_copies.json").read_text(encoding="utf-8"))
TOOLS = [
    {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"name": "get_time", "parameters": {"type": "object", "properties": {}}},
]


def reports(vector, pieces):
    found = []
    parser = StreamParser(
        vector.get("dialect", "function_call"), TOOLS, **vector.get("options", {"rescue": True}), on_copy=found.append
    )
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    places = sum(1 for event in events if isinstance(event, Text) and not event.text)

    assert len(found) == places
    return [defect.kind for defect in found], normalise([event for event in events if event != Text("")])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_copy_is_reported_and_stays_text_in_any_split(vector):
    text = vector["input"]
    plain = normalise(
        parse(text, vector.get("dialect", "function_call"), TOOLS, **vector.get("options", {"rescue": True}))
    )
    runs = [reports(vector, pieces) for pieces in ([text], *splits(text, random.Random(vector["name"])))]

    assert [vector["kinds"]] * len(runs) == [kinds for kinds, _ in runs]
    assert [plain] * len(runs) == [events for _, events in runs]


@pytest.mark.parametrize(
    "name", ["<function name>", "tool_name", "function_name", "{name}", "your_function_name", "Tool Name"]
)
def test_a_name_in_angle_brackets_or_of_a_name_is_a_placeholder(name):
    assert is_placeholder(name)


@pytest.mark.parametrize("name", ["", "add", "get_tool_names", "rename_function", "filename"])
def test_other_names_are_no_placeholders(name):
    assert not is_placeholder(name)
