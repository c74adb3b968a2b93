"""Return whether a closing bracket that is missing, or one too many, may stand at an earlier place than the end.

Theory of operation. Where a bracket is missing, the members after it belong to the container around it. It is certain
that it is missing at the end only if the last member of each container cannot be one of the container around it: the
two are of different kinds, or the schema lists the key in one of them only.

Rule: where both places are possible, the arguments have two readings.
"""

from collections.abc import Iterator

from fcshim.events import JSON
from fcshim.schema.expect import Expectation
from fcshim.schema.node import kind_of

_CLOSERS = {")": "(", "]": "[", "}": "{", ",": ""}


def may_lack_inner_bracket(arguments: dict[str, JSON], expected: Expectation, *, separate_names: bool = False) -> bool:
    """Return whether a bracket may be missing inside the arguments, of which one bracket is missing.

    `separate_names`: arguments are named in another syntax than keys of objects.
    """
    may_move_out = any(
        _may_move_out(outer, inner, around, within)
        for outer, inner, around, within in _last_containers(arguments, expected)
        if not (separate_names and outer is arguments)
    )
    return may_move_out or any(_may_be_doubled(each, around) for each, around in _containers(arguments, expected))


def has_unlisted_key(arguments: dict[str, JSON], expected: Expectation) -> bool:
    """Return whether an object of the arguments has a key that the schema does not list.

    Where a bracket is left over, the key may belong to another object, or be a key and a part of the next one.
    """
    return any(
        within.lists_member(key) is False
        for value, within in _containers(arguments, expected)
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


def _containers(value: JSON, expected: Expectation) -> Iterator[tuple[JSON, Expectation]]:
    """Yield each object and array, with what the schema admits in it."""
    todo = [(value, expected)]
    while todo:
        value, expected = todo.pop()
        if isinstance(value, dict):
            todo.extend((member, expected.member(key)) for key, member in value.items())
        elif isinstance(value, list):
            todo.extend((item, expected.item(index)) for index, item in enumerate(value))
        else:
            continue
        yield value, expected


def _may_be_doubled(array: JSON, around: Expectation) -> bool:
    """Return whether no bracket is missing: `[[` is one bracket that was written twice, or `[{}` a damaged `[]`."""
    if not isinstance(array, list) or len(array) != 1 or not isinstance(array[0], (list, dict)):
        return False
    item = array[0]
    return not item or (isinstance(item, list) and around.item(0).admits(kind_of(item[0]), item[0]))
