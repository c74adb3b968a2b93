"""Write a JSON value into an error message, cut after some characters.

Rule: the work is bounded by the characters, whatever the size of the value.
"""

from collections.abc import Iterator

from fcshim.events import JSON

MAX_EXCERPT = 1_000
"""Characters of one value in a message: a schema's list of values fits, a file does not."""


def excerpt(value: JSON, limit: int = MAX_EXCERPT) -> str:
    """Return the value as Python writes it; longer than `limit` characters, its beginning and an ellipsis."""
    parts: list[str] = []
    size = 0
    for part in _parts(value, limit):
        parts.append(part)
        size += len(part)
        if size > limit:
            return "".join(parts)[:limit] + "..."
    return "".join(parts)


def _parts(value: JSON, limit: int) -> Iterator[str]:
    if isinstance(value, dict):
        separator = "{"
        for key, member in value.items():
            yield f"{separator}{key[: limit + 1]!r}: "
            yield from _parts(member, limit)
            separator = ", "
        yield "}" if value else "{}"
    elif isinstance(value, list):
        separator = "["
        for item in value:
            yield separator
            yield from _parts(item, limit)
            separator = ", "
        yield "]" if value else "[]"
    else:
        yield repr(value[: limit + 1] if isinstance(value, str) else value)
