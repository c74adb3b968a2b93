"""Find in a complete call what shows that its arguments stand elsewhere, or are none.

Theory of operation. Strict JSON is no proof that the arguments are those of the call: a model repeats the definition of
the tool, or puts the arguments one level too deep. Only keys that the schema does not have are evidence of that.

Rule: nothing is moved or deleted; such a call is malformed.
"""

import json
from collections.abc import Collection, Iterable, Set

from fcshim.events import JSON, Coercion
from fcshim.parse.call_keys import ARGUMENT_KEYS
from fcshim.schema.expect import Expectation

_ELLIPSES = frozenset(("...", "…", "etc", "etc."))


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
    todo: list[tuple[JSON, Expectation]] = [(json.loads(arguments), expectation)]
    while todo:
        value, expected = todo.pop()
        if isinstance(value, dict):
            if any(key == member and key in words for key, member in value.items()):
                return True
            todo.extend((member, expected.member(key)) for key, member in value.items())
        elif isinstance(value, list):
            todo.extend((item, expected.item(index)) for index, item in enumerate(value))
        elif isinstance(value, str) and value in words and not expected.admits("string", value):
            return True
    return False


def find_misplaced(arguments: str, parameters: Collection[str], expectation: Expectation) -> str:
    """Return why these are not the arguments of a tool with these parameters; empty if nothing shows that."""
    if _repeats_schema(arguments, parameters):
        return "the arguments are a schema, not values"
    if _nests_arguments(arguments, expectation):
        return "the arguments stand inside an argument that the tool does not have"
    return ""


def _repeats_schema(arguments: str, parameters: Collection[str]) -> bool:
    """Return whether the model repeats the definition of the tool instead of calling it."""
    if '"properties"' not in arguments or "properties" in parameters:
        return False
    value = json.loads(arguments)
    return value.get("type") == "object" and isinstance(value.get("properties"), dict)


def _nests_arguments(arguments: str, expectation: Expectation) -> bool:
    """Return whether arguments are the value of a key that is not a parameter (`{"input": {"city": ...}}`).

    Any first key may hold them, and a later one that is a word for arguments.
    """
    members = json.loads(arguments) if arguments.count("{") > 1 else {}
    return any(
        expectation.lists_member(key) is False and _may_be_arguments(value, key, expectation)
        for at, (key, value) in enumerate(members.items())
        if at == 0 or key in ARGUMENT_KEYS
    )


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
