"""Decode the entities of a body that was escaped as a whole: `{&quot;name&quot;: &quot;f&quot;}`.

Rule: all of the body is decoded, once; where it also contains what it would have escaped, two readings differ, and it
stays as it is.
"""

import re
import string

_ENTITIES = {
    '"': ("&quot;", "&#34;", "&#x22;"),
    "'": ("&apos;", "&#39;", "&#x27;"),
    "<": ("&lt;", "&#60;", "&#x3c;", "&#x3C;"),
    ">": ("&gt;", "&#62;", "&#x3e;", "&#x3E;"),
    "&": ("&amp;", "&#38;", "&#x26;"),
}
_CHARS = {entity: char for char, entities in _ENTITIES.items() for entity in entities}
QUOTE_ENTITIES = _ENTITIES['"']
_MAX_ENTITY = max(map(len, QUOTE_ENTITIES))
_ENTITY = re.compile("|".join(map(re.escape, _CHARS)))
_ANY_ENTITY = re.compile(r"&(?:#\w{1,8}|[A-Za-z]\w{1,31});")
_BEFORE_KEY = string.whitespace + "{["
_MAX_BEFORE_KEY = 64
_MARKUP = frozenset("<>&")


def is_escaped_body(text: str) -> bool:
    """Return whether the first key of a body is in escaped quotes."""
    return text[: _MAX_BEFORE_KEY + _MAX_ENTITY].lstrip(_BEFORE_KEY).startswith(QUOTE_ENTITIES)


def holds_entity(text: str) -> bool:
    """Return whether a text has an entity of XML or HTML."""
    return _ANY_ENTITY.search(text) is not None


def escape_marker(marker: str) -> str:
    """Return a marker as it is written in escaped text."""
    return marker.replace("<", "&lt;").replace(">", "&gt;")


def unescape_entities(text: str) -> str:
    """Return the decoded text if its first key is in escaped quotes and nothing in it is ambiguous."""
    if not is_escaped_body(text):
        return text
    decoded = {_CHARS[entity] for entity in _ENTITY.findall(text)}
    raw = {char for char in _ENTITIES if char in _ENTITY.sub("", text)}
    if decoded & raw or (decoded & _MARKUP and raw & _MARKUP):
        return text
    return _ENTITY.sub(lambda found: _CHARS[found[0]], text)
