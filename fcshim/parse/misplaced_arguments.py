"""Find in complete arguments what shows that a part of them stands at another place than it should, or is none.

Theory of operation. Where a bracket is missing, the members after it belong to the container around it. It is certain
that it is missing at the end only if the last member of each container cannot be one of the container around it: the
two are of different kinds, or the schema lists the key in one of them only. Strict JSON is no proof either that the
arguments are those of the call: a model repeats the definition of the tool, or puts the arguments one level too deep.
Only keys that the schema does not have are evidence of that.

Rule: nothing is moved or deleted; where two places are possible, the arguments have two readings.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Set

from fcshim.events import JSON, Coercion
from fcshim.parse.call_keys import ARGUMENT_KEYS
from fcshim.schema.expect import Expectation
from fcshim.schema.node import kind_of

_CLOSERS = {")": "(", "]": "[", "}": "{", ",": ""}
_ELLIPSES = frozenset(("...", "…", "etc", "etc."))


# Brackets.


def may_lack_inner_bracket(arguments: dict[str, JSON], expected: Expectation, *, separate_names: bool = False) -> bool:
    """Return whether a bracket may be missing inside the arguments, of which one bracket is missing.

    `separate_names`: arguments are named in another syntax than keys of objects.
    """
    may_move_out = any(
        _may_move_out(outer, inner, around, within)
        for outer, inner, around, within in _last_containers(arguments, expected)
        if not (separate_names and outer is arguments)
    )
    return may_move_out or any(_may_be_doubled(each, around) for each, around in _values(arguments, expected))


def has_unlisted_key(arguments: dict[str, JSON], expected: Expectation) -> bool:
    """Return whether an object of the arguments has a key that the schema does not list.

    Where a bracket is left over, the key may belong to another object, or be a key and a part of the next one.
    """
    return any(
        within.lists_member(key) is False
        for value, within in _values(arguments, expected)
        if isinstance(value, dict)
        for key in value
    )


def ends_like_closer(arguments: dict[str, JSON]) -> bool:
    """Return whether the last string of the arguments ends with a bracket or comma that is missing after it."""
    value: JSON = arguments
    while isinstance(value, (dict, list)) and value:
        value = value[next(reversed(value))] if isinstance(value, dict) else value[-1]
    return isinstance(value, str) and ends_with_closer(value)


def ends_with_closer(text: str) -> bool:
    """Return whether a string ends with a comma, or with a bracket that it does not open."""
    last = text.rstrip()[-1:]
    opener = _CLOSERS.get(last)
    return opener is not None and (not opener or text.count(last) > text.count(opener))


def _last_containers(value: JSON, expected: Expectation) -> Iterator[tuple[JSON, JSON, Expectation, Expectation]]:
    """Yield each container that is the last member of another one, with what the schema admits in both."""
    while isinstance(value, (dict, list)) and value:
        if isinstance(value, dict):
            key = next(reversed(value))
            inner, within = value[key], expected.member(key)
        else:
            inner, within = value[-1], expected.item(len(value) - 1)
        if isinstance(inner, (dict, list)):
            yield value, inner, expected, within
        value, expected = inner, within


def _may_move_out(outer: JSON, inner: JSON, around: Expectation, within: Expectation) -> bool:
    """Return whether members of the inner container may be members of the outer one."""
    if not inner or not isinstance(inner, type(outer)):
        return False
    if isinstance(inner, list):
        last = inner[-1]
        return len(inner) > 1 and around.item(len(outer)).admits(kind_of(last), last)
    if any(around.lists_member(key) and key not in outer for key in inner):
        return True
    last_key = next(reversed(inner))
    unlisted = around.lists_member(last_key) is None and not within.lists_member(last_key)
    return len(inner) > 1 and last_key not in outer and unlisted


def _values(value: JSON, expected: Expectation) -> Iterator[tuple[JSON, Expectation]]:
    """Yield the value and each one in it, with what the schema admits there."""
    todo = [(value, expected)]
    while todo:
        value, expected = todo.pop()
        if isinstance(value, dict):
            todo.extend((member, expected.member(key)) for key, member in value.items())
        elif isinstance(value, list):
            todo.extend((item, expected.item(index)) for index, item in enumerate(value))
        yield value, expected


def _may_be_doubled(array: JSON, around: Expectation) -> bool:
    """Return whether no bracket is missing: `[[` is one bracket that was written twice, or `[{}` a damaged `[]`."""
    if not isinstance(array, list) or len(array) != 1 or not isinstance(array[0], (list, dict)):
        return False
    item = array[0]
    return not item or (isinstance(item, list) and around.item(0).admits(kind_of(item[0]), item[0]))


# Words and members.


def holds_misplaced_word(
    arguments: str, words: Set[str], coerced: Iterable[Coercion], expectation: Expectation
) -> bool:
    """Return whether one of the `words` without quotes stands where the schema admits no string.

    A single word for an array is a placeholder (`TODO`), and an ellipsis stands for what was left out. So does a word
    that is its own key (`{"city": city}`): the name of a variable. A word that is a number in another spelling (`0x1F`)
    must not become a string: it would be another one than was written.
    """
    if not words.isdisjoint(_ELLIPSES):
        return True
    for change in coerced:
        if isinstance(change.to, list) and isinstance(change.from_, str) and change.from_ in words:
            return True
        if isinstance(change.from_, (int, float)) and isinstance(change.to, str) and change.to in words:
            return True
    for value, expected in _values(json.loads(arguments), expectation):
        if isinstance(value, dict) and any(key == member and key in words for key, member in value.items()):
            return True
        if isinstance(value, str) and value in words and not expected.admits("string", value):
            return True
    return False


def find_misplaced(arguments: str, parameters: Collection[str], expectation: Expectation) -> str:
    """Return why these are not the arguments of a tool with these parameters; empty if nothing shows that."""
    if arguments.count("{") < 2:  # both kinds have an object in the arguments
        return ""
    members = json.loads(arguments)
    is_schema = members.get("type") == "object" and isinstance(members.get("properties"), dict)
    if is_schema and "properties" not in parameters:
        return "the arguments are a schema, not values"
    for at, (key, value) in enumerate(members.items()):
        # `{"input": {"city": ...}}`: any first key may hold the arguments, and a later one that is a word for them.
        may_hold = (at == 0 or key in ARGUMENT_KEYS) and expectation.lists_member(key) is False
        if may_hold and _may_be_arguments(value, key, expectation):
            return "the arguments stand inside an argument that the tool does not have"
    return ""


def _may_be_arguments(value: JSON, key: str, expectation: Expectation) -> bool:
    """Return whether the value of an unknown key is an object of parameters, or JSON that cannot be read."""
    if isinstance(value, str):
        if not value.lstrip().startswith("{"):
            return False
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return key in ARGUMENT_KEYS
    return isinstance(value, dict) and bool(value) and all(map(expectation.lists_member, value))
