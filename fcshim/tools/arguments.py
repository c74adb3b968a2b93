"""Parses a call's arguments, repairs them and checks them against the tool's schema.

Rule: common mistakes (a number in a string) are repaired, a value that fits is never changed; each violation has its
own message that says what was expected, so that the model can correct all of them at once.
"""

import difflib
import json
from collections.abc import Iterator, Mapping

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.schema.coerce import coerce
from fcshim.schema.expect import compile_schema
from fcshim.schema.limits import StepLimitError
from fcshim.schema.strict_json import parse_strict_json
from fcshim.schema.validate import SchemaViolation, find_violations

_EXCERPT = 60
"""Characters of an invalid value that its message quotes."""
_TYPE_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def read_arguments(tool: Tool, text: str) -> dict[str, JSON]:
    """Decode, repair and check arguments; empty text means `{}`. Raises `ToolError` that names every violation."""
    value = parse_strict_json(text or "{}")
    if isinstance(value, dict) and tool.parameters:
        repaired = coerce(compile_schema(tool.parameters), value, text or "{}")
        value = value if repaired is None else json.loads(repaired.text)
    if not isinstance(value, dict):
        raise ToolError("The arguments are not a JSON object.")
    check_arguments(tool, value)
    return value


def check_arguments(tool: Tool, arguments: Mapping[str, JSON]) -> None:
    """Check arguments against the tool's schema. Raises `ToolError` that names every violation."""
    try:
        violations = find_violations(tool.parameters, arguments)
    except StepLimitError:
        raise ToolError(f"The arguments for {tool.name} are too large to be checked against its schema.") from None
    messages = list(dict.fromkeys(message for fault in violations for message in _messages(fault)))
    if messages:
        raise ToolError(f"Wrong arguments for {tool.name}:\n" + "\n".join(f"- {fault}" for fault in messages))


def _messages(violation: SchemaViolation) -> Iterator[str]:
    at = f"{violation.path}." if violation.path else ""
    match violation.keyword:
        case "required":
            for name in violation.expected:
                if name not in violation.value:
                    yield f"{at}{name}: missing"
        case "additionalProperties" if violation.expected is False:
            yield from _unknown_parameters(at, violation)
        case "type":
            allowed = violation.expected if isinstance(violation.expected, list) else [violation.expected]
            expected = " or ".join(map(str, allowed))
            yield f"{_location(violation)}: expected {expected}, got {_TYPE_NAMES.get(type(violation.value), 'null')}"
        case "enum":
            listed = ", ".join(json.dumps(each, ensure_ascii=False) for each in violation.expected)
            yield f"{_location(violation)}: expected one of {listed}, got {_excerpt(violation.value)}"
        case "anyOf" | "oneOf":
            yield f"{_location(violation)}: {_excerpt(violation.value)} has none of the forms that are allowed"
        case _:
            yield f"{_location(violation)}: {violation.message[:200]}"


def _unknown_parameters(prefix: str, violation: SchemaViolation) -> Iterator[str]:
    known = list(violation.schema.get("properties") or ())
    for name in violation.value:
        if name not in known:
            similar = difflib.get_close_matches(name, known, n=1)
            hint = f", did you mean {similar[0]}?" if similar else f" (there are: {', '.join(known) or 'none'})"
            yield f"{prefix}{name}: no such parameter{hint}"


def _location(violation: SchemaViolation) -> str:
    return violation.path or "the arguments"


def _excerpt(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)[:_EXCERPT]
