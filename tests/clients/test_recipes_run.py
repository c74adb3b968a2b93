"""The programs of the recipes, as the pages have them, in the environments of their frameworks.

The embedded model is behind the address that they name; it makes the call that the user's text names.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.environments import missing
from tests.clients.programs import programs, run_program
from tests.demo.served import Addresses, served_demo

RECIPES = [
    ("langchain", "python", "langchain", "get_weather"),
    ("pydantic-ai", "python", "pydantic_ai", "get_weather"),
    ("openai-agents", "python", "openai_agents", "get_weather"),
    ("ai-sdk", "js", "vercel_ai", "sunny in Paris"),
]
"""Each page with the language and the environment of its program, and a part of what it prints."""


@pytest.fixture(scope="module")
def addresses() -> Iterator[Addresses]:
    with served_demo() as found:
        yield found


@pytest.mark.parametrize(("recipe", "language", "environment", "printed"), RECIPES)
def test_the_program_of_a_recipe_calls_the_tool(
    recipe: str, language: str, environment: str, printed: str, addresses: Addresses, tmp_path: Path
) -> None:
    if problem := missing(environment):
        pytest.skip(problem)
    (program,) = programs(f"docs/recipes/{recipe}.md", language)
    shown = run_program(program.replace("http://127.0.0.1:8181", addresses.proxy), environment, tmp_path)

    assert printed in shown
    assert "Paris" in shown
