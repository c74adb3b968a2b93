"""The programs of the recipes, as the pages have them, in the environments of their frameworks.

The embedded model is behind the address that they name; it makes the call that the user's text names.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.environments import CACHE, ROOT, missing, node_folder
from tests.demo.served import Addresses, served_demo

RECIPES = ROOT / "docs" / "recipes"
PYTHON = {"langchain": "langchain", "pydantic-ai": "pydantic_ai", "openai-agents": "openai_agents"}
"""The environment of each recipe whose program is Python."""


@pytest.fixture(scope="module")
def addresses() -> Iterator[Addresses]:
    with served_demo() as found:
        yield found


def _block(recipe: str, language: str, proxy: str) -> str:
    page = (RECIPES / f"{recipe}.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return block.replace("http://127.0.0.1:8181", proxy)


def _printed(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)

    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("recipe", PYTHON)
def test_the_program_of_a_recipe_calls_the_tool(recipe: str, addresses: Addresses, tmp_path: Path) -> None:
    if problem := missing(PYTHON[recipe]):
        pytest.skip(problem)
    program = tmp_path / "program.py"
    program.write_text(_block(recipe, "python", addresses.proxy), encoding="utf-8")
    shown = _printed([str(CACHE / PYTHON[recipe] / "bin" / "python"), str(program)], tmp_path)

    assert "get_weather" in shown
    assert "Paris" in shown


def test_the_program_of_the_recipe_for_the_ai_sdk_calls_the_tool(addresses: Addresses) -> None:
    if problem := missing("vercel_ai"):
        pytest.skip(problem)
    folder = CACHE / "vercel_ai"
    program = folder / "recipe.mjs"
    program.write_text(_block("ai-sdk", "js", addresses.proxy), encoding="utf-8")

    assert "sunny in Paris" in _printed([str(node_folder() / "node"), str(program)], folder)
