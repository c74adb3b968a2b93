"""Loading a file of tools."""

import json

import pytest

from fcshim.cli.tools_file import load_tools
from fcshim.errors import ConfigError
from fcshim.messages import Tool

BARE = {"name": "add", "description": "Add.", "parameters": {"type": "object"}}
WRAPPED = {"type": "function", "function": BARE}
ADD = Tool("add", "Add.", {"type": "object"})


@pytest.fixture
def tools_file(tmp_path):
    """Return a function that writes the file and returns its path."""
    path = tmp_path / "tools.json"

    def write(text):
        path.write_text(text, "utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("value", [BARE, WRAPPED, [BARE], [WRAPPED], {"tools": [WRAPPED], "model": "m"}])
def test_every_documented_form_is_accepted(tools_file, value):
    assert (ADD,) == load_tools(tools_file(json.dumps(value)))


def test_an_empty_array_has_no_tools(tools_file):
    assert () == load_tools(tools_file(" [ ] "))


@pytest.mark.parametrize("text", ['"add"', "5", "null", '{"tools": {}}'])
def test_anything_else_is_rejected(tools_file, text):
    with pytest.raises(ConfigError, match=r"tools\.json: expected a JSON array of tools, got"):
        load_tools(tools_file(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[\n  {"name": "a"},\n  5\n]', r"tools\.json:3: tools\[1\]: expected"),
        ('[\n  {"name": "a"}\n,\n\n  {"name": "a"}]', r"tools\.json:5: .*two tools named 'a'"),
        ('[{"name":\n""}]', r"tools\.json:1: .*name is empty"),
        ('{"tools": [{}]}', r"tools\.json: tools\[0\]: expected"),
        ('[\n{"name" "a"}]', r"tools\.json:2:9: not JSON"),
    ],
)
def test_an_error_names_the_line(tools_file, text, message):
    with pytest.raises(ConfigError, match=message):
        load_tools(tools_file(text))
