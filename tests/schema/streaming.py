"""What a streaming reader makes of a value with nothing but the expectations' promises: the model for the laws.

Rule: a value that may not stream is coerced whole, any other is looked at part by part and never as a whole.
Neighbours: `test_expect` compares it with the coercion of the whole value.
"""

import json

from fcshim.events import Coercion
from fcshim.schema.node import scan


def streamed(expectation, text):
    """Give the value, and what was changed, as a reader does that decides by the first character."""
    changes = []
    return _read(expectation, scan(text), "", changes), changes


def _read(expectation, node, path, changes):
    if node.text[0] not in expectation.streaming_starts:
        found = expectation.coerce(json.loads(node.text), node.text)
        if found is None:
            return json.loads(node.text)
        changes += [Coercion(path + change.path, change.from_, change.to) for change in found.changes]
        return json.loads(found.text)
    if node.kind == "object":
        return _read_object(expectation, node, path, changes)
    if node.kind == "array":
        return [_read(expectation.item(at), child, f"{path}/{at}", changes) for at, child in enumerate(node.children)]
    return node.value


def _read_object(expectation, node, path, changes):
    result = {}
    for key, child in zip(node.keys, node.children, strict=True):
        place = f"{path}/{key}"
        if child.kind == "null" and expectation.drops_null(key):
            changes.append(Coercion(place, None, None))
        else:
            result[key] = _read(expectation.member(key), child, place, changes)
    return result
