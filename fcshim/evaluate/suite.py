"""The suite: the cases of every category, loaded from the files beside this module, and those made for the demo model.

A file of cases is one category, a file of tools is one set; the cases are the same, in the same order, each time.
The category `commands` is generated from a seed that the training of the demo model does not use: each command names
the tool to call and the values of its arguments.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from fcshim.demo.conversations import Scenario, SyntheticExchange, make_exchange, make_scenario
from fcshim.errors import ConfigError
from fcshim.evaluate.case import Case, CaseLine, ExpectedCall, expand
from fcshim.messages import Tool

_SEED = 20_261_121
_ONE_CALL, _TWO_CALLS, _NO_CALL = 60, 20, 10


def command_cases(category: str) -> Iterator[Case]:
    """Yield the cases: commands for one call, for two calls, and texts to repeat."""
    rng = Random(_SEED)
    for calls, times in ((1, _ONE_CALL), (2, _TWO_CALLS), (0, _NO_CALL)):
        for number in range(1, times + 1):
            scenario = make_scenario(rng, plain=True)
            yield _case(f"{category}-{calls}-{number:03}", category, scenario, make_exchange(rng, scenario, calls))


def _case(id_: str, category: str, scenario: Scenario, exchange: SyntheticExchange) -> Case:
    system = ({"role": "system", "content": scenario.instructions},) if scenario.instructions else ()
    return Case(
        id=id_,
        category=category,
        messages=(*system, {"role": "user", "content": exchange.command}),
        tools=scenario.tools,
        expected=(tuple(_expected(call.name, call.arguments) for call in exchange.calls),),
    )


def _expected(name: str, arguments: dict[str, object]) -> ExpectedCall:
    return ExpectedCall(name, {key: [value] for key, value in arguments.items()})


DEFAULT_CATEGORIES = (
    "simple",
    "several_tools",
    "parallel",
    "multi_turn",
    "missing_information",
    "no_tool_fits",
    "many_tools",
    "nested_arguments",
    "languages",
    "long_results",
)
COMMANDS = "commands"
RACE = "race"
CATEGORIES = (*DEFAULT_CATEGORIES, COMMANDS, RACE)
"""`commands` is for models that cannot understand requests, such as the demo model; `race` are the short cases with
which the doctor compares settings: one set of tools, in turn a case that expects calls and one that expects none. Both
run only if they are named."""

_T = TypeVar("_T")

_HERE = Path(__file__).parent
_SET_PREFIX = "@"


def load_cases(categories: Sequence[str] = DEFAULT_CATEGORIES, limit: int | None = None) -> list[Case]:
    """Return the cases of these categories, at most `limit` of each. Raises `ConfigError` for an unknown category.

    With a limit, each line's first phrasing comes before any second one.
    """
    for category in categories:
        if category not in CATEGORIES:
            raise ConfigError(f"there is no category {category!r}. Known are {', '.join(CATEGORIES)}")
    return [case for category in dict.fromkeys(categories) for case in _cases(category)[:limit]]


def select_cases(categories: Sequence[str], count: int | None = None) -> list[Case]:
    """Return `count` cases, evenly from the categories as far as they have enough. Raises `ConfigError`."""
    by_category = [load_cases([category], count) for category in categories]
    mixed = [case for case in chain.from_iterable(zip_longest(*by_category)) if case is not None]
    return mixed[:count]


@cache
def fingerprint() -> str:
    """Return a digest of all cases, tools and documents, so that results of different suites are not mixed."""
    digest = hashlib.sha256()
    for path in sorted(chain.from_iterable(_HERE.glob(f"{folder}/*") for folder in ("cases", "tools", "documents"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(msgspec.json.encode(_cases(COMMANDS)))
    return digest.hexdigest()[:16]


@cache
def _cases(category: str) -> tuple[Case, ...]:
    if category == COMMANDS:
        return tuple(command_cases(COMMANDS))
    lines = _lines(_HERE / "cases" / f"{category}.jsonl", CaseLine)
    phrased = [expand(line, category, _tools_of(line), _document) for line in lines]
    longest = max(map(len, phrased))
    return tuple(cases[position] for position in range(longest) for cases in phrased if position < len(cases))


@cache
def tool_sets() -> dict[str, tuple[Tool, ...]]:
    """Return the tools by the name of their set."""
    return {path.stem: tuple(_lines(path, Tool)) for path in sorted((_HERE / "tools").glob("*.jsonl"))}


def _tools_of(line: CaseLine) -> tuple[Tool, ...]:
    """Return the tools of a line in the order in which it names them, without duplicates."""
    named = chain.from_iterable(map(_resolve_tools, line.tools))
    return tuple({tool.name: tool for tool in named}.values())


def _resolve_tools(name: str) -> tuple[Tool, ...]:
    sets = tool_sets()
    if name.startswith(_SET_PREFIX):
        return sets[name.removeprefix(_SET_PREFIX)]
    (tool,) = (tool for tool in chain.from_iterable(sets.values()) if tool.name == name)
    return (tool,)


def _document(name: str) -> str:
    (path,) = (_HERE / "documents").glob(f"{name}.*")
    return path.read_text(encoding="utf-8")


def _lines(path: Path, type_: type[_T]) -> Iterator[_T]:
    with path.open("rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line, type=type_)
