"""The recipes: the settings that they show are those with which the clients are tested, or at least well formed."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from fcshim.cli.entry import COMMANDS
from fcshim.config.table import settings
from tests.clients.agents.table import AGENTS

FOLDER = Path(__file__).parent.parent / "docs" / "recipes"
PAGES = {file.stem: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.md"))}
RECIPES = {name: text for name, text in PAGES.items() if name != "index"}
TESTED = {name: agent for name, agent in AGENTS.items() if name.replace("_", "-") in RECIPES}
PORT = "127.0.0.1:8181"


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_to_set_what_to_expect_and_what_was_tested(name: str) -> None:
    headings = re.findall(r"^## (.*)$", RECIPES[name], re.MULTILINE)

    assert ["Start", "Expect", "Tested"] == headings
    assert "fcshim serve" in RECIPES[name]
    assert len(RECIPES[name].splitlines()) < 70


@pytest.mark.parametrize("name", RECIPES)
def test_its_options_and_commands_exist(name: str) -> None:
    flags = {flag for setting in settings() for flag in (setting.flag, f"--no{setting.flag[1:]}")}
    lines = [line for line in RECIPES[name].splitlines() if "fcshim serve" in line]

    assert (
        set()
        == set(re.findall(r"(?<!\S)--[a-z][a-z-]+", "\n".join(line.partition("fcshim")[2] for line in lines))) - flags
    )
    assert set() == set(re.findall(r"(?:`|\$ )fcshim ([a-z]+)\b", RECIPES[name])) - set(COMMANDS)


@pytest.mark.parametrize("name", RECIPES)
def test_its_settings_can_be_read(name: str) -> None:
    page = RECIPES[name]

    for block in _blocks(page, "json"):
        json.loads(block)
    for block in _blocks(page, "toml"):
        tomllib.loads(block)
    for block in _blocks(page, "yaml"):
        yaml.safe_load(block)
    for block in _blocks(page, "python"):
        ast.parse(block)


@pytest.mark.parametrize("name", TESTED)
def test_the_variables_of_an_agent_are_those_of_its_test(name: str) -> None:
    page, agent = RECIPES[name.replace("_", "-")], TESTED[name]
    shown = dict(re.findall(r"^export (\w+)=(\S+)$", page, re.MULTILINE))
    addresses = {key: value for key, value in agent.environment.items() if "{" in value and key in shown}
    filled = dict.fromkeys(addresses, f"http://{PORT}")

    assert {key: shown[key].removesuffix("/v1") for key in addresses} == filled
    assert f"http://{PORT}" in page


def test_every_recipe_is_in_the_list() -> None:
    linked = set(re.findall(r"\]\(([\w-]+)\.md\)", PAGES["index"]))

    assert set(RECIPES) == linked
    assert len(RECIPES) >= 29
