"""A reference model of a streaming reader, which decides by the interface of `Expectation` alone.

Rule: a value that may not stream is coerced as a whole; any other is read part by part, never as a whole.
"""

import json

from fcshim.events import Coercion
from fcshim.schema.coerce import coerce
from fcshim.schema.node import scan


def streamed(expectation, text):
    """Return the value and its changes, as a reader that decides by each value's first character gives them."""
    changes = []
    return _read(expectation, scan(text), "", changes), changes


def _read(expectation, node, path, changes, *, wrap=True):
    if node.text[0] not in expectation.streaming_starts:
        found = coerce(expectation, json.loads(node.text), node.text, wrap=wrap)
        if found is None:
            return json.loads(node.text)
        changes += [Coercion(path + change.path, change.from_, change.to) for change in found.changes]
        return json.loads(found.text)
    if node.kind == "object":
        return _read_object(expectation, node, path, changes)
    if node.kind == "array":
        return [
            _read(expectation.item(at), child, f"{path}/{at}", changes, wrap=False)
            for at, child in enumerate(node.children)
        ]
    return node.value


def _read_object(expectation, node, path, changes):
    result = {}
    for key, child in zip(node.keys, node.children, strict=True):
        pointer = f"{path}/{key}"
        if child.kind == "null" and expectation.drops_null(key):
            changes.append(Coercion(pointer, None, None))
        else:
            result[key] = _read(expectation.member(key), child, pointer, changes)
    return result
