"""JSON Schemas and structural tags, for servers that take these instead of a grammar.

Rule: a tool's schema is passed on unchanged, except that its references are rebased to its new place.
"""

from collections.abc import Sequence

from fcshim.constrain.call_template import CallTemplate
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.schema.providers import as_object


def schema_of_calls(tools: Sequence[Tool], *, max_calls: int, document: JSON = None) -> dict[str, JSON]:
    """Return the schema of a reply that is a call, an object with `name` and `arguments`.

    If `max_calls` is more than one, it is an array of calls. With `document`, a schema, the reply may be such a
    document instead.
    """
    schemas = enumerate(as_object(tool.parameters) for tool in tools)
    definitions = {f"tool{at}": _rebased(schema, f"#/$defs/tool{at}") for at, schema in schemas}
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": {"$ref": f"#/$defs/tool{at}"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for at, tool in enumerate(tools)
    ]
    call: dict[str, JSON] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    several = {"type": "array", "items": call, "minItems": 1, "maxItems": max_calls}
    reply = several if max_calls > 1 else call
    if document is not None:
        definitions["document"] = _rebased(document, "#/$defs/document")
        reply = {"anyOf": [{"$ref": "#/$defs/document"}, reply]}
    return {**reply, "$defs": definitions}


def structural_tag_of_calls(
    template: CallTemplate, tools: Sequence[Tool], *, max_calls: int, trigger: str = "", document: JSON = None
) -> dict[str, JSON] | None:
    """Return the structural tag of a reply that consists of calls; None where calls share one pair of markers.

    Each call is a tag of its own, from start marker to end marker. With `trigger`, a common prefix of the tags, free
    text is allowed around calls; with `document`, a schema, the reply may be such a document instead.
    """
    if template.closing and template.separators and not template.separators[0].startswith(template.closing):
        return None
    tags = [
        {
            "type": "tag",
            "begin": template.before_name(0) + template.name_to_arguments(0, tool.name),
            "content": {"type": "json_schema", "json_schema": as_object(tool.parameters)},
            "end": template.closing,
        }
        for tool in tools
    ]
    last: dict[str, JSON] = {"stop_after_first": max_calls == 1}
    if trigger:
        return _tag({"type": "triggered_tags", "triggers": [trigger], "tags": tags, **last})
    rest = template.separators[0][len(template.closing) :] if template.separators else template.opening
    separator = rest[: len(rest) - len(template.opening)] if rest.endswith(template.opening) else ""
    calls = {"type": "tags_with_separator", "tags": tags, "separator": separator, "at_least_one": True, **last}
    if document is None:
        return _tag(calls)
    return _tag({"type": "or", "elements": [{"type": "json_schema", "json_schema": document}, calls]})


def _tag(form: dict[str, JSON]) -> dict[str, JSON]:
    return {"type": "structural_tag", "format": form}


def _rebased(value: JSON, pointer: str) -> JSON:
    """Rebase the local references of a schema to `pointer`, its new place; remote references and ids are dropped."""
    if isinstance(value, list):
        return [_rebased(inner, pointer) for inner in value]
    if not isinstance(value, dict):
        return value
    rebased = {key: _rebased(inner, pointer) for key, inner in value.items() if key not in _IDENTITY_KEYWORDS}
    reference = value.get("$ref")
    if isinstance(reference, str):
        return {**rebased, "$ref": pointer + reference[1:]} if reference.startswith("#") else rebased
    return rebased if reference is None else {**rebased, "$ref": _rebased(reference, pointer)}


_IDENTITY_KEYWORDS = frozenset({"$ref", "$id", "$schema"})
