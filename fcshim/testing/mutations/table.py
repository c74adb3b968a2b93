"""Mistakes that models make in a reply with calls, in every dialect, with what was meant.

Rule: a mutation returns None where it does not apply to the dialect, or where the mistake cannot be seen (the mutant is
valid as it stands, and says something else).
"""

import ast
import html
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from fcshim.events import JSON, StopReason
from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.tagged.syntax import SuffixedCalls, TaggedCalls
from fcshim.prompt.notation import python_arguments, python_literal
from fcshim.testing.mutations.members import MEMBER_CHANGES, MemberChange
from fcshim.testing.mutations.seeds import Call, Seed
from fcshim.testing.mutations.structure import STRUCTURAL_CHANGES, Change, render, structure_of
from fcshim.testing.mutations.styles import JSON_STYLES, NOT_ESCAPED, NOTHING_ESCAPED, PYTHON_STYLES, have_two_readings

_SHORTEST_TAG = 3
_LONE_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\(?!\\)")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A reply with a mistake, and the calls that it means."""

    text: str
    calls: list[Call]
    stop_reason: StopReason = "complete"
    has_two_readings: bool = False
    """True where the reply may mean other calls as well."""
    first_text: str = ""
    """The reply with the first of its two mistakes, or an empty string."""


Mutation = Callable[[Seed, Dialect, random.Random], Mutant | None]


def unchanged(seed: Seed, dialect: Dialect, _rng: random.Random) -> Mutant:
    """Make no mistake."""
    return Mutant(render(dialect, seed.calls), seed.calls)


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _styled(kind: str) -> Mutation:
    """Write the arguments in another style."""

    def mutate(seed: Seed, dialect: Dialect, _rng: random.Random) -> Mutant | None:
        text = render(dialect, seed.calls)
        mutated = text
        for _, arguments in seed.calls:
            replaced = _replace_arguments(mutated, arguments, kind)
            if replaced is None:
                return None
            mutated = replaced
        values = [arguments for _, arguments in seed.calls]
        if mutated == text or (kind in NOTHING_ESCAPED and any(map(_has_doubled_backslashes, values))):
            return None
        return Mutant(mutated, seed.calls, has_two_readings=kind in NOT_ESCAPED and have_two_readings(values))

    return mutate


def _has_doubled_backslashes(value: JSON) -> bool:
    """Return whether a string has no other backslashes: as it stands it means another one, whose quotes are bare."""
    if isinstance(value, str):
        return "\\" in value and _LONE_BACKSLASH.search(value) is None
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_doubled_backslashes, inner))


def _structural(change: Change) -> Mutation:
    """Change what stands outside the values."""

    def mutate(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
        structure = structure_of(seed, dialect)
        text = change(structure, rng) if structure is not None and structure.marks else None
        return None if structure is None or text is None or text == structure.text else Mutant(text, seed.calls)

    return mutate


def _in_member(change: MemberChange) -> Mutation:
    """Change one member of the arguments."""

    def mutate(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
        text = change(seed, dialect, rng)
        return None if text is None or text == render(dialect, seed.calls) else Mutant(text, seed.calls)

    return mutate


def _replace_arguments(text: str, arguments: dict[str, JSON], kind: str) -> str | None:
    """Replace arguments by those in another style; None if the result is valid and says something else."""
    plain = _json(arguments)
    if arguments and plain in text:
        style = JSON_STYLES[kind]
        styled = style.write(arguments)
        return None if _is_other_json(styled, arguments) else text.replace(plain, styled, 1)
    plain = python_arguments(_json(arguments))
    if arguments and f"({plain})" in text and kind in PYTHON_STYLES:
        styled = f"({PYTHON_STYLES[kind].keywords(arguments)})"
        return None if _is_other_python(styled, arguments) else text.replace(f"({plain})", styled, 1)
    if kind != "Python literals":
        return None
    # of tagged arguments, the containers are Python literals
    for value in arguments.values():
        if isinstance(value, (dict, list)) and f">{_json(value)}<" in text:
            text = text.replace(f">{_json(value)}<", f">{python_literal(value)}<", 1)
    return text


def _is_other_json(styled: str, arguments: dict[str, JSON]) -> bool:
    """Return whether this is JSON of other arguments."""
    try:
        return bool(json.loads(styled) != arguments)
    except ValueError:
        return False


def _is_other_python(styled: str, arguments: dict[str, JSON]) -> bool:
    """Return whether these are the arguments of another call in Python."""
    try:
        call = ast.parse(f"f{styled}", mode="eval").body
        assert isinstance(call, ast.Call)
        written = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, MemoryError):
        return False
    return written != arguments


TextChange = Callable[[str, Seed, Dialect, random.Random], str | None]


def _on_text(change: TextChange) -> Mutation:
    """Change the text of the whole reply; the calls stay."""

    def mutate(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
        text = render(dialect, seed.calls)
        changed = change(text, seed, dialect, rng)
        return None if changed is None or changed == text else Mutant(changed, seed.calls)

    return mutate


def _change_marker(text: str, _seed: Seed, dialect: Dialect, rng: random.Random, *, kind: str) -> str | None:
    """Leave out or double the first start marker or the end marker."""
    start, end = dialect.section.open or dialect.call.open, dialect.section.close or dialect.call.close
    if dialect.fenced:
        return None
    match kind:
        case "end marker dropped" if end and "\n" not in end:
            return text.replace(end, "")
        case "end marker doubled" if end and text.endswith(end):
            return text + rng.choice(("", "\n")) + end
        case "start marker dropped" if start:
            return text.replace(start, "", 1).lstrip("\n")
        case "start marker doubled" if start:
            return text.replace(start, start + rng.choice(("", "\n")) + start, 1)
    return None


def _in_json(change: Callable[[list[str], str, random.Random], str | None]) -> Mutation:
    """Change the JSON of the last call's arguments; `change` gets its members and the whole."""

    def mutate(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
        text, arguments = render(dialect, seed.calls), seed.calls[-1][1]
        whole = _json(arguments)
        at = text.rfind(whole) if arguments else -1
        members = [f"{_json(key)}: {_json(value)}" for key, value in arguments.items()]
        changed = change(members, whole, rng) if at >= 0 else None
        if changed is None or _is_other_json(changed, arguments):
            return None
        return Mutant(text[:at] + changed + text[at + len(whole) :], seed.calls)

    return mutate


def _glue_values(members: list[str], _whole: str, rng: random.Random) -> str | None:
    """Leave out a key, so that its value stands behind another one."""
    if len(members) < 2:
        return None
    at = rng.randrange(1, len(members))
    value = members[at].split('": ', 1)[1]
    glued = members[at - 1] + rng.choice((", ", " ", "", " | ", "; ")) + value
    return "{" + ", ".join([*members[: at - 1], glued, *members[at + 1 :]]) + "}"


def _write_two_values(members: list[str], _whole: str, rng: random.Random) -> str:
    """Write another value beside one, with a sign or a word between them."""
    at = rng.randrange(len(members))
    sign = rng.choice((" | ", " or ", " / ", " || ", " ?? ", " + ", " and ", " = ", ": "))
    both = members[at] + sign + rng.choice(('"other"', "2", "null", '["x"]'))
    return "{" + ", ".join([*members[:at], both, *members[at + 1 :]]) + "}"


def _halve_escaped_quote(_members: list[str], whole: str, rng: random.Random) -> str | None:
    """Leave out the backslash or the quote of an escaped quote."""
    places = [found.start() for found in re.finditer(r'\\"', whole)]
    if not places:
        return None
    at = rng.choice(places) + rng.randrange(2)
    return whole[:at] + whole[at + 1 :]


def _halve_doubled_quote(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
    """Write one quote at the end of a string that ends with a quotation, and escape none."""
    mutant = _styled("unescaped quotes")(seed, dialect, rng)
    places = [found.start() for found in re.finditer(r'(?<=\w)""(?=[,})\]])', mutant.text)] if mutant else []
    if mutant is None or not places:
        return None
    at = rng.choice(places)
    return replace(mutant, text=mutant.text[:at] + mutant.text[at + 1 :])


def _drop_brackets(seed: Seed, dialect: Dialect, _rng: random.Random) -> Mutant | None:
    """Leave out the last bracket of the arguments; without an end marker, more text may have to follow."""
    text, arguments = render(dialect, seed.calls), _json(seed.calls[-1][1])
    if arguments not in text or len(arguments) <= 2:
        return None
    is_open = not (dialect.call.close or dialect.section.close or dialect.fenced)
    return Mutant(text.replace(arguments, arguments[:-1], 1), seed.calls, has_two_readings=is_open)


def _split_object(text: str, seed: Seed, _dialect: Dialect, rng: random.Random) -> str | None:
    """End the object of the arguments, or that of the call, before one of its members."""
    arguments = seed.calls[-1][1]
    members = [_json({key: value})[1:-1] for key, value in arguments.items()]
    written = ", ".join(members)
    at = text.find(written)
    if at < 0 or not members:
        return None
    pieces = [text[: at + len(", ".join(members[:count]))] for count in range(1, len(members))]
    found = re.search(r", (?=\"(?:arguments|parameters|args)\": )", text)
    pieces += [text[: found.start()]] if found else []
    if not pieces:
        return None
    before = rng.choice(pieces)
    return before + rng.choice(("}, {", "}{", "}\n{")) + text[len(before) + 2 :]


def _drop_quote(text: str, seed: Seed, _dialect: Dialect, rng: random.Random, *, closing: bool) -> str | None:
    """Leave out one quote of a string that contains none."""
    values = (value for _, arguments in seed.calls for value in arguments.values())
    strings = [_json(value) for value in values if isinstance(value, str) and value and '"' not in value]
    written = [string for string in strings if string in text]
    if not written:
        return None
    string = rng.choice(written)
    return text.replace(string, string[:-1] if closing else string[1:], 1)


def _damage_tag(text: str, _seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    """Drop, replace or double one character inside a tag of a dialect that has them; its ends may be a value's text."""
    bodies = dialect.body.bodies if isinstance(dialect.body, UnionBody) else (dialect.body,)
    tags = next((each.tags for each in bodies if isinstance(each, (TaggedCalls, SuffixedCalls))), None)
    parts = [part for part in tags.markers() if len(part) > _SHORTEST_TAG] if tags else []
    patterns = [f"{re.escape(part[0])}({re.escape(part[1:-1])}){re.escape(part[-1])}" for part in parts]
    places = [at for pattern in patterns for found in re.finditer(pattern, text) for at in range(*found.span(1))]
    if not places:
        return None
    at = rng.choice(places)
    return text[:at] + rng.choice(("", "x" if text[at] != "x" else "y", 2 * text[at])) + text[at + 1 :]


_TRANSLATED_KEYS = (
    ("nombre", "argumentos"),
    ("tool_name", "kwargs"),
    ("function_name", "params"),
    ("nom", "arguments"),
)


def _translate_keys(text: str, _seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    if isinstance(dialect.body, (HeaderShape, UnionBody)):
        return None
    found = re.search(r'"(?:tool_)?name": "\w+", "(arguments|parameters)": ', text)
    if found is None:
        return None
    name, arguments = rng.choice(_TRANSLATED_KEYS)
    text = re.sub(r'"(?:tool_)?name": "(?=\w+", "(?:arguments|parameters)": )', f'"{name}": "', text)
    return text.replace(f'"{found[1]}": ', f'"{arguments}": ', text.count(f'"{name}": "'))


def _reshape(shape: Callable[[str, dict[str, JSON]], JSON]) -> Mutation:
    """Write each call as another object."""

    def mutate(seed: Seed, dialect: Dialect, _rng: random.Random) -> Mutant | None:
        text = mutated = render(dialect, seed.calls)
        if isinstance(dialect.body, (HeaderShape, UnionBody)):
            return None
        for name, arguments in seed.calls:
            for key in ("arguments", "parameters"):
                mutated = mutated.replace(_json({"name": name, key: arguments}), _json(shape(name, arguments)), 1)
        return Mutant(mutated, seed.calls) if mutated != text else None

    return mutate


def _fence(text: str, _seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    return None if dialect.fenced else f"```{rng.choice(('', 'json', 'xml', 'tool_call'))}\n{text}\n```"


def _prose_before(text: str, _seed: Seed, _dialect: Dialect, rng: random.Random) -> str:
    return rng.choice(("Sure, I will do that.\n\n", "Let me look:\n", "I'll call the tool now.\n\n")) + text


def _entities(text: str, _seed: Seed, dialect: Dialect, _rng: random.Random) -> str | None:
    start, end = dialect.section.open or dialect.call.open, dialect.section.close or dialect.call.close
    body = text.removeprefix(start).removesuffix(end)
    if not body.strip().startswith(("{", "[{")):
        return None
    return text.replace(body, html.escape(body).replace("&#x27;", "'"), 1)


_SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda name: name.replace("_", "-"),
    lambda name: "".join(word.capitalize() for word in name.split("_")),
    lambda name: re.sub(r"_(\w)", lambda found: found[1].upper(), name),
    lambda name: name.upper(),
    lambda name: f"functions.{name}",
    lambda name: f"default_api.{name}",
)


def _rename(text: str, seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    if dialect.name == "harmony":
        return None  # its header carries a prefix of its own
    spell = rng.choice(_SPELLINGS)
    for name in {name for name, _ in seed.calls}:
        text = re.sub(rf"(?<!\w){name}(?!\w)", spell(name), text)
    return text


def _other_markers(text: str, _seed: Seed, dialect: Dialect, rng: random.Random) -> str | None:
    """Put the body between another dialect's markers."""
    start, end = dialect.call.open, dialect.call.close
    others = [
        row for row in DIALECTS.values() if row.call.open.startswith("<") and row.call.close and not row.section.open
    ]
    if not start or not end or dialect.section.open or dialect.fenced or text.count(start) != 1:
        return None
    other = rng.choice([row for row in others if row.call.open != start])
    return text.replace(start, other.call.open, 1).replace(end, other.call.close, 1)


def other_dialect(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant:
    """Write the calls in another dialect than the selected one."""
    other = rng.choice([row for row in DIALECTS.values() if row is not dialect])
    return Mutant(render(other, seed.calls), seed.calls)


def truncated(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
    """Cut the reply off inside its last call, by the token limit."""
    before = render(dialect, seed.calls[:-1]) if len(seed.calls) > 1 else ""
    text = render(dialect, seed.calls)
    arguments = seed.calls[-1][1]
    last = _last_value_start(text, arguments)
    if last <= len(before) + 1:
        return None
    return Mutant(text[: rng.randint(len(before) + 1, last)], seed.calls[:-1], "max_tokens")


def broken_off(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
    """End the reply inside its last call, before the token limit; behind a tag, nothing shows that more was to come."""
    mutant = truncated(seed, dialect, rng)
    ends_with_tag = mutant is None or mutant.text.rstrip().endswith(">")
    return None if mutant is None or ends_with_tag else replace(mutant, stop_reason="complete")


def restarted(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
    """Break the call off, and write it again from its start marker on."""
    start = dialect.section.open or dialect.call.open
    calls = seed.calls[:1]
    text = render(dialect, calls)
    last = _last_value_start(text, calls[0][1])
    if not start or dialect.fenced or last <= len(start):
        return None
    return Mutant(text[: rng.randint(len(start), last)] + "\n" + text, calls)


def _two_mistakes(seed: Seed, dialect: Dialect, rng: random.Random) -> Mutant | None:
    """Make any mistake, and in the same reply one that changes its whole text."""
    mistakes, changes = list(_SINGLE_MISTAKES.values()), list(_TEXT_CHANGES.values())
    rng.shuffle(mistakes)
    rng.shuffle(changes)
    first = next(filter(None, (mutate(seed, dialect, rng) for mutate in mistakes)), None)
    if first is None:
        return None
    texts = (change(first.text, seed, dialect, rng) for change in changes)
    text = next((text for text in texts if text not in {None, first.text}), None)
    return replace(first, text=text, first_text=first.text) if text else None


def _last_value_start(text: str, arguments: dict[str, JSON]) -> int:
    """Return the position at which the last argument's key is written last, or -1."""
    return text.rfind(next(reversed(arguments))) if arguments else -1


_TEXT_CHANGES: dict[str, TextChange] = {
    "end marker dropped": partial(_change_marker, kind="end marker dropped"),
    "object in two": _split_object,
    "closing quote dropped": partial(_drop_quote, closing=True),
    "opening quote dropped": partial(_drop_quote, closing=False),
    "start marker dropped": partial(_change_marker, kind="start marker dropped"),
    "start marker doubled": partial(_change_marker, kind="start marker doubled"),
    "end marker doubled": partial(_change_marker, kind="end marker doubled"),
    "tag damaged": _damage_tag,
    "translated keys": _translate_keys,
    "code fence around": _fence,
    "prose before": _prose_before,
    "entity escapes": _entities,
    "renamed tool": _rename,
    "other markers": _other_markers,
}
_SINGLE_MISTAKES: dict[str, Mutation] = {
    **{kind: _styled(kind) for kind in JSON_STYLES},
    "closing bracket dropped": _drop_brackets,
    **{name: _on_text(change) for name, change in _TEXT_CHANGES.items()},
    "values glued": _in_json(_glue_values),
    "two values": _in_json(_write_two_values),
    "escaped quote halved": _in_json(_halve_escaped_quote),
    "quotes escaped twice": _in_json(
        lambda _members, whole, _rng: whole.replace('\\"', '\\\\"') if '\\"' in whole else None
    ),
    "doubled quote halved": _halve_doubled_quote,
    **{name: _structural(change) for name, change in STRUCTURAL_CHANGES.items()},
    **{name: _in_member(change) for name, change in MEMBER_CHANGES.items()},
    "arguments beside the name": _reshape(lambda name, arguments: {"name": name, **arguments}),
    "name as the key": _reshape(lambda name, arguments: {name: arguments}),
    "other dialect": other_dialect,
    "truncated": truncated,
    "broken off": broken_off,
    "restarted": restarted,
}
MUTATIONS: dict[str, Mutation] = {"no mistake": unchanged, **_SINGLE_MISTAKES, "two mistakes": _two_mistakes}
