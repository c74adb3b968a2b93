"""Texts on which a regular expression may take exponential or quadratic time, made from its own syntax tree.

Rule: a text begins as a match, repeats what one of the expression's repetitions matches, and ends with something else.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from random import Random
from re import _parser as syntax
from typing import Any

import fcshim

_SKIPPED = ("fcshim.__main__", "fcshim.demo.recipe", "fcshim.integrations")
"""Modules that run a program, or need packages that are not installed with the tests."""
_CATEGORIES = {"CATEGORY_SPACE": " \n", "CATEGORY_DIGIT": "12", "CATEGORY_WORD": "ax1_"}
_OTHER = ";-\\"
_ANY = "ax1;, \n<\"'{[(&:="
_ENDS = ("", "\0", "\\", '"', "x", "\0x")
_SIZES = (120, 20_000)
"""Exponential time shows in a short text, quadratic time in a long one."""


def expressions() -> dict[str, re.Pattern[str]]:
    """Return the compiled expressions in the modules of fcshim, by the name of the first that has each."""
    found: dict[tuple[str, int], tuple[str, re.Pattern[str]]] = {}
    for module in pkgutil.walk_packages(fcshim.__path__, "fcshim."):
        if not module.name.startswith(_SKIPPED):
            for name, value in vars(importlib.import_module(module.name)).items():
                for pattern in _patterns_in(value):
                    found.setdefault((pattern.pattern, pattern.flags), (f"{module.name}.{name}", pattern))
    return dict(found.values())


def _patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif isinstance(owner := getattr(value, "__self__", None), re.Pattern):
        yield from _patterns_in(owner)
    elif depth < 3 and isinstance(value, (tuple, list, set, frozenset, dict)):
        for item in list(value.values() if isinstance(value, dict) else value):
            yield from _patterns_in(item, depth + 1)


def slow_text(pattern: re.Pattern[str], random: Random) -> str:
    """Return a text; empty for an expression without repetitions."""
    tree = syntax.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    repeated = list(_repeated_parts(tree))
    if not repeated:
        return ""
    part = random.choice(repeated)
    unit = "".join(_sample(part, random) for _ in range(random.choice((1, 2, 3, 9)))) or " "
    start = _sample(tree, random)[: random.choice((0, 3, 20))]
    size = random.choice(_SIZES)
    return start + (unit * (size // len(unit) + 1))[:size] + random.choice(_ENDS)


def _repeated_parts(tree: Any) -> Iterator[Any]:
    """Yield what each repetition without a small limit repeats."""
    for operator, argument in tree:
        match str(operator):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                if int(argument[1]) > 8:
                    yield argument[2]
                yield from _repeated_parts(argument[2])
            case "BRANCH":
                for branch in argument[1]:
                    yield from _repeated_parts(branch)
            case "SUBPATTERN":
                yield from _repeated_parts(argument[3])
            case "ATOMIC_GROUP":
                yield from _repeated_parts(argument)
            case "ASSERT" | "ASSERT_NOT":
                yield from _repeated_parts(argument[1])


def _sample(tree: Any, random: Random) -> str:
    """Return a text that the tree matches, but for what its assertions and references demand."""
    return "".join(_sample_node(str(operator), argument, random) for operator, argument in tree)


def _sample_node(operator: str, argument: Any, random: Random) -> str:
    match operator:
        case "LITERAL":
            return chr(argument)
        case "ANY" | "NOT_LITERAL":
            return random.choice(_ANY)
        case "IN":
            return _sample_set(argument, random)
        case "BRANCH":
            return _sample(random.choice(argument[1]), random)
        case "SUBPATTERN":
            return _sample(argument[3], random)
        case "ATOMIC_GROUP":
            return _sample(argument, random)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high = argument[0], min(int(argument[1]), argument[0] + random.choice((0, 1, 2, 8)))
            return "".join(_sample(argument[2], random) for _ in range(random.randint(low, max(low, high))))
    return ""


def _sample_set(items: Any, random: Random) -> str:
    options: list[str] = []
    for kind, value in items:
        match str(kind):
            case "LITERAL":
                options.append(chr(value))
            case "RANGE":
                options += map(chr, value)
            case "CATEGORY":
                options += _CATEGORIES.get(str(value), _OTHER)
    if any(str(kind) == "NEGATE" for kind, _ in items):
        options = [char for char in _ANY if char not in options] or ["\1"]
    return random.choice(options)
