"""Deferred tools are described after the result that has loaded them, so that the text before stays as it was."""

import itertools
import json

import pytest

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.codecs.openai_responses import OPENAI_RESPONSES
from fcshim.config import Config
from fcshim.dispatch import make_shim
from fcshim.messages import text_of
from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.listing import LOADED_HEADING

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
LOADING_TURNS = {2: ("mcp__s__2", "mcp__s__0"), 4: ("mcp__s__0", "mcp__s__1"), 5: ("Read",)}


def tool(name, **fields):
    return {"name": name, "description": f"Does {name}. " + "x" * 300, "input_schema": SCHEMA, **fields}


TOOLS = [tool("Read"), *(tool(f"mcp__s__{at}", defer_loading=True) for at in range(5)), tool("ToolSearch")]


def conversation(turns):
    """Return messages like those of Claude Code, which searches for tools in some of its turns."""
    messages = [{"role": "user", "content": "Do it. " + "y" * 2000}]
    for at in range(turns):
        names = LOADING_TURNS.get(at, ())
        use = {"type": "tool_use", "id": f"t{at}", "name": "ToolSearch" if names else "Read", "input": {"a": "b"}}
        content = [{"type": "tool_reference", "tool_name": name} for name in names] or "z" * 3000
        messages.append({"role": "assistant", "content": [use]})
        messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{at}", "content": content}]}
        )
    return messages


def prepared(turns, *, tools=TOOLS, **settings):
    body = {"model": "m", "max_tokens": 9, "system": "s" * 4000, "tools": tools, "messages": conversation(turns)}
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    return make_shim(request, Config(**settings).for_model("m"))


def prompt(turns, **settings):
    messages = prepared(turns, **settings).prepared.messages
    return "".join(f"<{type(message).__name__}>{text_of(message.content)}" for message in messages)


@pytest.mark.parametrize(
    "settings", [{"dialect": name} for name in DIALECTS] + [{"tools_style": "signature"}, {"max_tools": 1}]
)
def test_every_prompt_begins_with_the_one_before(settings):
    prompts = [prompt(turns, **settings) for turns in range(8)]

    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(prompts))


def test_each_loaded_tool_is_described_once_after_the_result_that_loaded_it():
    turns = prompt(7).split("<")
    (first, second) = [turn for turn in turns if LOADED_HEADING in turn]

    assert first.index("Does mcp__s__2.") < first.index("Does mcp__s__0.")
    assert ["Does mcp__s__1." in second, "Does mcp__s__0." in second] == [True, False]
    assert 1 == prompt(7).count("Does Read.")
    assert "Does mcp__s__3." not in prompt(7)


def test_the_model_can_call_what_was_loaded_and_nothing_else():
    assert ["Read", "ToolSearch"] == [tool.name for tool in prepared(2).tools]
    assert ["Read", "ToolSearch", "mcp__s__2", "mcp__s__0"] == [tool.name for tool in prepared(3).tools]


def test_without_other_tools_the_loaded_ones_are_in_the_system_prompt():
    text = prompt(3, tools=TOOLS[1:-1])

    assert LOADED_HEADING not in text
    assert text.index("Does mcp__s__2.") < text.index("<UserMessage>")


def test_tools_that_a_client_of_responses_has_found_are_described_after_its_search():
    found = {"type": "function", "name": "find", "description": "Does find.", "parameters": SCHEMA}
    items = [
        {"role": "user", "content": "Do it."},
        {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "find"}},
        {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [found]},
    ]
    search = {"type": "tool_search", "execution": "client"}

    def written(count):
        body = {"model": "m", "input": items[:count], "tools": [search]}
        request = OPENAI_RESPONSES.decode_request(json.dumps(body).encode())
        return [text_of(message.content) for message in make_shim(request, Config().for_model("m")).prepared.messages]

    assert written(1) == written(3)[:2]
    assert "Does find." in written(3)[-1]
