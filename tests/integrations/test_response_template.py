"""The templates by which transformers reads calls; `frameworks/check_transformers.py` reads with them."""

import pytest

from fcshim.errors import ConfigError
from fcshim.integrations.response_template import response_template
from fcshim.parse.dialects import DIALECTS

START, END = "<|im_start|>assistant", ["<|im_end|>"]
WITHOUT_FORM = {
    "no marker": {"bare_json", "glm4", "llama3_json", "pythonic", "xlam"},
    "a name is a key": {"apertus", "cline", "minimax_m3"},
    "calls without a list": {"olmo3", "tool_code"},
}


def test_the_template_of_json_in_tags() -> None:
    function = {"name": "{content.name}", "arguments": "{content.arguments}"}
    template = response_template("hermes", start=START, end=END)

    assert {
        "version": 1,
        "start_anchor": START,
        "fields": {
            "thinking": {"open": "<think>", "close": "</think>"},
            "tool_calls": {
                "open_pattern": r"(?:\s)*<tool_call>",
                "close_pattern": "</tool_call>",
                "content": "json",
                "transform": {"type": "function", "function": function},
                "repeats": True,
            },
            "content": {"close": END},
        },
    } == template


@pytest.mark.parametrize("name", sorted(set().union(*WITHOUT_FORM.values())))
def test_transformers_has_no_form_for_some(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no form for the calls of {name}"):
        response_template(name, start=START, end=END)


@pytest.mark.parametrize("name", sorted(DIALECTS.keys() - set().union(*WITHOUT_FORM.values())))
def test_every_other_dialect_has_a_template(name: str) -> None:
    template = response_template(DIALECTS[name], start=START, end=END)

    assert {"thinking", "tool_calls", "content"} == template["fields"].keys()


@pytest.mark.parametrize(("start", "end"), [("", END), (START, []), (START, [""]), (START, "<|im_end|>")])
def test_a_turn_has_a_start_and_ends(start: str, end: list[str]) -> None:
    with pytest.raises(ConfigError, match="expected a start and a list of ends"):
        response_template("hermes", start=start, end=end)


def test_an_unknown_dialect_is_an_error() -> None:
    with pytest.raises(ConfigError, match="did you mean 'hermes'"):
        response_template("hermess", start=START, end=END)
