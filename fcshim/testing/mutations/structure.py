"""Mistakes in the structure around the values of a call: its quotes, brackets, separators and tags.

Rule: a mutation changes only what stands outside values and names, so that what was meant stays clear to a reader who
knows the format.
"""

import html
import json
import random
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial

from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.prompt.render import render_calls
from fcshim.testing.mutations.seeds import Call, Seed

_TOKEN = re.compile(r"Zq\d{4}qZ|70\d{5}")
_TAG = re.compile(r"<[^<>\n\"=]{1,40}>?")
_QUOTES, _BRACKETS, _SEPARATORS = frozenset("\"'"), frozenset("[]{}()"), frozenset(",:=")

Change = Callable[["Structure", random.Random], str | None]


def render(dialect: Dialect, calls: Sequence[Call]) -> str:
    """Write the calls without a mistake."""
    return render_calls(dialect, [(name, json.dumps(value, ensure_ascii=False)) for name, value in calls])


def stands_as_written(dialect: Dialect, calls: Sequence[Call], text: str) -> bool:
    """Return whether a reply, except for white space, is what the dialect writes for these calls."""
    return "".join(render(dialect, calls).split()) == "".join(text.split())


class Structure:
    """The text of calls, with the positions of its values and names."""

    def __init__(self, text: str, values: Sequence[tuple[int, int]], names: frozenset[str]) -> None:
        self.text = text
        self.values = values
        inside = {at for start, end in values for at in range(start, end)}
        named = {
            at
            for found in re.finditer(r"\w+", text)
            if found[0] in names and found.start() not in inside
            for at in range(*found.span())
        }
        self.outside = [at for at in range(len(text)) if at not in inside and at not in named]
        self.marks = [at for at in self.outside if not text[at].isspace()]

    def in_arguments(self, chars: Container[str]) -> list[int]:
        """Return the positions of these characters among the arguments."""
        start, end = (self.values[0][0] - 12, self.values[-1][1] + 4) if self.values else (0, len(self.text))
        return [at for at in self.marks if start <= at < end and self.text[at] in chars]

    def tags(self) -> list[re.Match[str]]:
        """Return the tags."""
        outside = set(self.outside)
        return [found for found in _TAG.finditer(self.text) if found.start() in outside]


def structure_of(seed: Seed, dialect: Dialect) -> Structure | None:
    """Find the values in the text of a seed's calls; None where a value is not written as it is."""
    marked, values = _with_tokens(seed.calls)
    template, text = render(dialect, marked), render(dialect, seed.calls)
    found = _align(template, text, values)
    return None if found is None else Structure(text, found, _names(seed))


def _align(template: str, text: str, values: Sequence[JSON]) -> list[tuple[int, int]] | None:
    """Find each value between the same pieces of text as its token."""
    spans: list[tuple[int, int]] = []
    pieces = _TOKEN.split(template)
    if len(pieces) != len(values) + 1 or not text.startswith(pieces[0]):
        return None
    at = len(pieces[0])
    for value, following in zip(values, pieces[1:], strict=True):
        ends = (at + len(spelling) for spelling in _spellings(value) if text.startswith(spelling + following, at))
        end = next(ends, -1)
        if end < 0:
            return None
        spans.append((at, end))
        at = end + len(following)
    return spans if at == len(text) else None


def _spellings(value: JSON) -> list[str]:
    written = [json.dumps(value, ensure_ascii=False), repr(value)]
    return [value, *(text[1:-1] for text in written)] if isinstance(value, str) else written


def _with_tokens(calls: Sequence[Call]) -> tuple[list[Call], list[JSON]]:
    """Return the calls with a token for each string and number, and these values."""
    values: list[JSON] = []

    def mark(value: JSON) -> JSON:
        match value:
            case dict():
                return {key: mark(item) for key, item in value.items()}
            case list():
                return [mark(item) for item in value]
            case None | bool() | "":
                return value
        values.append(value)
        return f"Zq{len(values):04d}qZ" if isinstance(value, str) else 7_000_000 + len(values)

    return [(name, mark(arguments)) for name, arguments in calls], values


def _names(seed: Seed) -> frozenset[str]:
    keys = (key for _, arguments in seed.calls for key in _keys(arguments))
    return frozenset((*keys, *(tool.name for tool in seed.tools)))


def _keys(value: JSON) -> Iterator[str]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield from value
    for item in items:
        yield from _keys(item)


def _without(text: str, start: int, size: int = 1, *, instead: str = "") -> str:
    return text[:start] + instead + text[start + size :]


def _damage_character(structure: Structure, rng: random.Random, *, kind: str) -> str:
    """Change any character: leave it out, double it, or lose it on the way, as bytes that are not UTF-8."""
    at = rng.choice(structure.marks)
    match kind:
        case "character doubled":
            instead = 2 * structure.text[at]
        case "bytes lost":
            instead = "\ufffd" * rng.choice((1, 3))
        case _:
            instead = ""
    return _without(structure.text, at, instead=instead)


def _swap_marks(structure: Structure, rng: random.Random) -> str | None:
    outside, text = set(structure.outside), structure.text
    places = [at for at in structure.outside if at + 1 in outside and text[at] != text[at + 1]]
    if not places:
        return None
    at = rng.choice(places)
    return _without(text, at, 2, instead=text[at + 1] + text[at])


def _replace_sign(structure: Structure, rng: random.Random, *, others: Mapping[str, Sequence[str]]) -> str | None:
    """Write one of these signs of the arguments in another way."""
    places = structure.in_arguments(others)
    if not places:
        return None
    at = rng.choice(places)
    choices = others[structure.text[at]]
    return _without(structure.text, at, instead=rng.choice(choices) if len(choices) > 1 else choices[0])


def _drop_separator(structure: Structure, rng: random.Random) -> str | None:
    places = structure.in_arguments(_SEPARATORS)
    return _without(structure.text, rng.choice(places), rng.choice((1, 2))) if places else None


def _escape_sign(structure: Structure, rng: random.Random) -> str | None:
    """Write one sign as an entity of HTML."""
    places = [at for at in structure.marks if structure.text[at] in "\"'<>{}"]
    if not places:
        return None
    at = rng.choice(places)
    return _without(
        structure.text, at, instead=rng.choice((f"&#{ord(structure.text[at])};", html.escape(structure.text[at])))
    )


def _double_tag(structure: Structure, rng: random.Random) -> str | None:
    tags = structure.tags()
    tag = rng.choice(tags) if tags else None
    return None if tag is None else _without(structure.text, tag.start(), 0, instead=tag[0])


def _change_case(structure: Structure, rng: random.Random) -> str | None:
    tags = structure.tags()
    if not tags:
        return None
    tag, outside = rng.choice(tags), set(structure.outside)
    changed = "".join(char.upper() if tag.start() + at in outside else char for at, char in enumerate(tag[0]))
    return _without(structure.text, tag.start(), len(tag[0]), instead=changed)


def _break_tag(structure: Structure, rng: random.Random) -> str | None:
    """Leave out one end of a tag."""
    tags = [tag for tag in structure.tags() if len(tag[0]) > 3]
    if not tags:
        return None
    tag = rng.choice(tags)
    size = rng.randint(2, len(tag[0]) - 1)
    start = rng.choice((tag.start(), tag.end() - size))
    return _without(structure.text, start, size) if set(range(start, start + size)) <= set(structure.outside) else None


_OTHER_BRACKETS = {sign: sorted(_BRACKETS - {sign}) for sign in _BRACKETS}
_OTHER_SEPARATORS = {
    sign: [other for other in (";", "=", ":", "=>", ",", ".", "|", "\n") if other != sign] for sign in _SEPARATORS
}
_FULL_WIDTH = {sign: chr(ord(sign) + ord("！") - ord("!")) for sign in _BRACKETS | _SEPARATORS}
STRUCTURAL_CHANGES: dict[str, Change] = {
    "character missing": partial(_damage_character, kind="character missing"),
    "quote or bracket missing": partial(_replace_sign, others=dict.fromkeys(_QUOTES | _BRACKETS, ("",))),
    "character doubled": partial(_damage_character, kind="character doubled"),
    "characters swapped": _swap_marks,
    "other bracket": partial(_replace_sign, others=_OTHER_BRACKETS),
    "other separator": partial(_replace_sign, others=_OTHER_SEPARATORS),
    "separator missing": _drop_separator,
    "bytes lost": partial(_damage_character, kind="bytes lost"),
    "other quote": partial(_replace_sign, others={'"': "“”„«»＂″`´"}),
    "one full-width sign": partial(_replace_sign, others=_FULL_WIDTH),
    "one entity": _escape_sign,
    "tag doubled": _double_tag,
    "tag in upper case": _change_case,
    "part of a tag missing": _break_tag,
}
