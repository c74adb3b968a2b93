"""One section of a settings file is edited, and everything else stays byte for byte."""

import tomllib

import pytest

from fcshim.config import load_config
from fcshim.errors import ConfigError
from fcshim.evaluate.recommendations import Recommendation
from fcshim.evaluate.section_file import edit_section

FILE = """# our proxy
port = 9000  # behind nginx

[upstreams.local]  # the box under the desk
url = "http://127.0.0.1:1"  # moved in May
max_concurrent = 2

# the provider
[upstreams.claude]
url = "https://api.anthropic.com"
key = "env:KEY"

[models."qwen*"]
upstream = "claude"

[models.shared]
upstream = "claude"  # for now
dialect = "hermes"
"""


def choice(setting, value, *, of_model=False):
    return Recommendation(setting=setting, value=value, reason=f"why {setting}\nhere", of_model=of_model)


CHOICES = [
    choice("upstream", "http://127.0.0.1:8080"),
    choice("upstream_api", "openai"),
    choice("constrain", "llama-server"),
    choice("dialect", "qwen_agent", of_model=True),
]


def test_only_the_section_and_the_models_own_row_change():
    edited = edit_section(FILE, "local", CHOICES, "new")
    before, after = tomllib.loads(FILE), tomllib.loads(edited)

    assert [line for line in FILE.splitlines() if line and line not in edited] == [
        'url = "http://127.0.0.1:1"  # moved in May'
    ]
    assert 'url = "http://127.0.0.1:8080" # moved in May' in edited.replace("  #", " #")
    assert "# why constrain here" in edited
    assert {
        **before["upstreams"]["local"],
        "url": "http://127.0.0.1:8080",
        "api": "openai",
        "constrain": "llama-server",
    } == after["upstreams"]["local"]
    assert before["upstreams"]["claude"] == after["upstreams"]["claude"]
    assert {**before["models"], "new": {"upstream": "local", "dialect": "qwen_agent"}} == after["models"]


def test_a_row_of_another_upstream_is_left_alone():
    models = tomllib.loads(edit_section(FILE, "local", CHOICES, "shared"))["models"]

    assert "hermes" == models["shared"]["dialect"]
    assert {"dialect": "qwen_agent"} == models["local/shared"]


def test_its_own_row_is_edited():
    edited = edit_section(FILE, "claude", CHOICES, "shared")

    assert "qwen_agent" == tomllib.loads(edited)["models"]["shared"]["dialect"]
    assert "# for now" in edited


@pytest.mark.parametrize("text", ["", "port = 1\n", "[models.x]\ndialect = 'hermes'\n"])
def test_a_section_is_added_to_any_other_file(text, tmp_path):
    file = tmp_path / "fcshim.toml"
    file.write_text(edit_section(text, "local", CHOICES, "x"))
    config = load_config(file=file)

    assert ("http://127.0.0.1:8080", "llama-server") == (
        config.upstreams["local"].url,
        config.upstreams["local"].constrain,
    )
    assert "qwen_agent" == config.for_model("x").dialect


def test_editing_twice_changes_nothing_more():
    once = edit_section(FILE, "local", CHOICES, "new")

    assert once == edit_section(once, "local", CHOICES, "new")


@pytest.mark.parametrize(
    "text", ["port =", 'upstream = "http://h"', "upstreams = 3", "[upstreams]\nlocal = 3", "models = []"]
)
def test_a_file_that_cannot_be_edited_is_refused(text):
    with pytest.raises(ConfigError, match="expected"):
        edit_section(text, "local", CHOICES, "x")
