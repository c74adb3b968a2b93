"""Mistakes in one member of a call's arguments: its key, its value, or what stands between the two.

Rule: the call is rendered with a token in the place of what the model writes in a wrong way, so that a mistake is the
same in every dialect. A change returns None where it does not apply.
"""

import json
import random
import re
from collections.abc import Callable

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.testing.mutations.seeds import Call, Seed
from fcshim.testing.mutations.structure import render

_NUMBER_TOKEN = 7_000_999
_KEY_MARK = "zq_key"
_UNITS = (" days", "px", " %", "k", " km/h", "°", " EUR")
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_NUMBER_SIGNS = tuple(str.maketrans(",.", signs) for signs in (",.", ".,", " .", "'."))
"""The signs of thousands and of fractions in several languages, in the place of those of Python."""
_LINE_BREAK = re.compile(r"(?<!\\)(?:\\\\)*\\n")

MemberChange = Callable[[Seed, Dialect, random.Random], str | None]
"""Returns the reply with the mistake."""


def _with_last_arguments(seed: Seed, arguments: dict[str, JSON]) -> list[Call]:
    return [*seed.calls[:-1], (seed.calls[-1][0], arguments)]


def _double_key(seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    """Write a key twice, with another value before or after the one that is meant."""
    arguments = seed.calls[-1][1]
    if not arguments:
        return None
    key = rng.choice(list(arguments))
    other = (_KEY_MARK, rng.choice(("other", 17, ["x"], None)))
    members = list(arguments.items())
    at = rng.randint(0, len(members))
    text = render(dialect, _with_last_arguments(seed, dict([*members[:at], other, *members[at:]])))
    return text.replace(_KEY_MARK, key) if _KEY_MARK in text else None


def _with_value(kind: str) -> MemberChange:
    """Write the value of one member in a way that is not a value."""

    def change(seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
        arguments = seed.calls[-1][1]
        spelled = {key: _misspell(kind, key, value, rng) for key, value in arguments.items()}
        keys = [key for key, text in spelled.items() if text is not None]
        if not keys:
            return None
        key = rng.choice(keys)
        text = render(dialect, _with_last_arguments(seed, {**arguments, key: _NUMBER_TOKEN}))
        before, *after = text.split(str(_NUMBER_TOKEN))
        in_tags = before.rstrip()[-1:] in {">", ""}  # any text is a value there
        return f"{before}{spelled[key]}{after[0]}" if len(after) == 1 and not in_tags else None

    return change


def _misspell(kind: str, key: str, value: JSON, rng: random.Random) -> str | None:
    """Return what stands in the place of a value."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    text = None
    match kind:
        case "key as the value":
            text = key
        case "number with a unit" if is_number:
            text = f"{value}{rng.choice(_UNITS)}"
        case "type as the value":
            text = _TYPE_NAMES.get(type(value))
        case "placeholder as the value":
            text = rng.choice((f"<{key}>", f"{{{key}}}", f"{{{{{key}}}}}", f"${{{key}}}", "...", "…", "", "nil"))
        case "value repeated":
            text = rng.choice(("", " ", ", ")).join([json.dumps(value, ensure_ascii=False)] * rng.randint(2, 5))
        case "number grouped" if is_number:
            spellings = [f"{value:,}".translate(signs) for signs in _NUMBER_SIGNS]
            others = [spelling for spelling in spellings if spelling != str(value)]
            text = rng.choice(others) if others else None
    return text


def _wrap_arguments(seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    """Write the arguments one level too deep."""
    key = rng.choice(("arguments", "parameters", "args", "input", "kwargs", "properties"))
    arguments = seed.calls[-1][1]
    return render(dialect, _with_last_arguments(seed, {key: arguments})) if arguments else None


def _half_escape_line_break(seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    r"""Write a line break in a string of JSON as a backslash and a line break."""
    text, arguments = render(dialect, seed.calls), seed.calls[-1][1]
    whole = json.dumps(arguments, ensure_ascii=False)
    start = text.rfind(whole) if arguments else -1
    places = [start + found.end() - 1 for found in _LINE_BREAK.finditer(whole)] if start >= 0 else []
    if not places:
        return None
    at = rng.choice(places)
    return text[:at] + "\n" + text[at + 1 :]


def _end_early(seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    """Write the end marker between two arguments, too."""
    end = dialect.call.close or dialect.section.close
    arguments = seed.calls[-1][1]
    members = [json.dumps({key: value}, ensure_ascii=False)[1:-1] for key, value in arguments.items()]
    text = render(dialect, seed.calls)
    at = text.rfind(", ".join(members))
    if not end or dialect.fenced or len(members) < 2 or at < 0:
        return None
    before = ", ".join(members[: rng.randrange(1, len(members))])
    at += len(before) + rng.choice((0, 1, 2))
    return text[:at] + end + rng.choice(("", "\n")) + text[at:]


def _escape_for_markdown(seed: Seed, dialect: Dialect, _rng: random.Random) -> str | None:
    r"""Write `\_` for each underscore of names and values, as in Markdown."""
    text = render(dialect, seed.calls)
    for name in {name for name, _ in seed.calls}:
        text = text.replace(name, name.replace("_", "\\_"))
    return text.replace('"_', '"\\_')


_VALUE_MISTAKES = (
    "key as the value",
    "number with a unit",
    "type as the value",
    "placeholder as the value",
    "value repeated",
    "number grouped",
)
MEMBER_CHANGES: dict[str, MemberChange] = {
    "key twice": _double_key,
    **{kind: _with_value(kind) for kind in _VALUE_MISTAKES},
    "arguments one level deeper": _wrap_arguments,
    "line break half escaped": _half_escape_line_break,
    "Markdown escapes": _escape_for_markdown,
    "end marker too early": _end_early,
}
