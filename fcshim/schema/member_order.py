"""The order in which a schema lists the members of objects: long texts after the short members that are required.

Models write members in the order of the schema. Where the token limit cuts a call inside its last text, all else is
there, and the call can be continued.

Rule: only the order of `properties` changes, never what the schema admits; optional members keep their place, since
models fill in what they are offered before they come to the text.
"""

import re

from fcshim.events import JSON

_LONG_NAME = re.compile(
    r"(?:\w*_)?(?:contents?|text|body|diff|patch|markdown|html|replacement|snippet)"
    r"|(?:(?:new|old|file|source|python|replace|replacement)_)+(?:code|source|str(?:ing)?|data|script|lines?)"
    r"|code|script"
)
"""Names of members that hold long texts, in snake case: what editors, mailers and interpreters call theirs."""
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORT_KEYWORDS = frozenset({"enum", "const", "format", "pattern"})
_SHORT_TEXT = 500
"""Characters of the longest text that counts as short, whatever its name."""


def long_members_last(schema: JSON) -> JSON:
    """Return the schema with long texts after the last required short member of each object; itself if none moves.

    Raises `RecursionError` for a schema that is nested too deeply.
    """
    if isinstance(schema, list):
        items = [long_members_last(item) for item in schema]
        return items if any(new is not old for new, old in zip(items, schema, strict=True)) else schema
    if not isinstance(schema, dict):
        return schema
    changed: dict[str, JSON] = {}
    for keyword in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"):
        value = schema.get(keyword)
        if isinstance(value, dict | list) and (new := long_members_last(value)) is not value:
            changed[keyword] = new
    for keyword in ("properties", "$defs", "definitions"):
        members = schema.get(keyword)
        if isinstance(members, dict):
            ordered = {name: long_members_last(member) for name, member in members.items()}
            if keyword == "properties":
                ordered = _ordered(ordered, schema.get("required"))
            if any(ordered[name] is not member for name, member in members.items()) or list(ordered) != list(members):
                changed[keyword] = ordered
    return {**schema, **changed} if changed else schema


def _ordered(members: dict[str, JSON], required: JSON) -> dict[str, JSON]:
    """Move the long members behind the last required short one; each keeps its place among the others of its kind."""
    names = list(members)
    long = {name for name in names if _is_long(name, members[name])}
    needed = [
        at for at, name in enumerate(names) if name not in long and isinstance(required, list) and name in required
    ]
    end = needed[-1] + 1 if long and needed else 0
    moved = [name for name in names[:end] if name in long]
    kept = [name for name in names[:end] if name not in long]
    return {name: members[name] for name in [*kept, *moved, *names[end:]]}


def _is_long(name: str, schema: JSON) -> bool:
    """Whether a member may hold a long text, by its schema and its name."""
    if not isinstance(schema, dict):
        return False
    if "items" in schema or "properties" in schema:  # edits, files: each with a text of its own
        return _holds_long(schema)
    kinds = schema.get("type", "string")
    if "string" not in (kinds if isinstance(kinds, list) else [kinds]) or not _SHORT_KEYWORDS.isdisjoint(schema):
        return False
    longest = schema.get("maxLength")
    if isinstance(longest, int):
        return longest > _SHORT_TEXT
    if "contentMediaType" in schema:
        return True
    return _LONG_NAME.fullmatch(_WORD_START.sub("_", name).replace("-", "_").lower()) is not None


def _holds_long(schema: JSON) -> bool:
    """Whether an array or object has a member that holds a long text."""
    if not isinstance(schema, dict):
        return False
    members = schema.get("properties")
    if isinstance(members, dict) and any(_is_long(name, member) for name, member in members.items()):
        return True
    return "items" in schema and _holds_long(schema["items"])
