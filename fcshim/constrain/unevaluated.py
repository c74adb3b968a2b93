"""`unevaluatedProperties` and `unevaluatedItems` as `additionalProperties` and `items` of one alternative."""

from fcshim.constrain.subschemas import first_elements, list_of
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative

NOT_EVALUATED = "x-fcshim-not-evaluated"
"""Lists keywords of a schema that `conditions` wrote, which the original schema does not evaluate members by."""
_UNKNOWN = ("if", "dependentSchemas", "dependencies", "$dynamicRef")
"""Keywords that may evaluate members, depending on the value."""


def close(alternative: Alternative) -> Alternative:
    """Add what the first part says about the members and elements that no part of the alternative evaluates."""
    if any(keyword in part for part in alternative for keyword in _UNKNOWN):
        return alternative
    if any("allOf" in list_of(part.get(NOT_EVALUATED)) for part in alternative):
        return alternative
    schema, closing = dict(alternative[0]), dict[str, JSON]()
    if "unevaluatedProperties" in schema:
        closing |= _other_members(alternative, schema.pop("unevaluatedProperties"))
    if "unevaluatedItems" in schema and not any("contains" in part for part in alternative):
        closing["items"] = schema.pop("unevaluatedItems")
        if _evaluates_all(alternative, "items", "unevaluatedItems"):
            closing["items"] = True
        else:
            closing["prefixItems"] = [True] * max(len(first_elements(part)) for part in alternative)
    return (schema, *alternative[1:], closing)


def _other_members(alternative: Alternative, schema: JSON) -> dict[str, JSON]:
    if _evaluates_all(alternative, "additionalProperties", "unevaluatedProperties"):
        return {"additionalProperties": True}
    found: dict[str, JSON] = {"additionalProperties": schema}
    for keyword in ("properties", "patternProperties"):
        named = [part.get(keyword) for part in alternative if keyword not in list_of(part.get(NOT_EVALUATED))]
        found[keyword] = dict.fromkeys((key for names in named if isinstance(names, dict) for key in names), True)
    return found


def _evaluates_all(alternative: Alternative, keyword: str, unevaluated: str) -> bool:
    """Return whether a part evaluates all members or elements, also those that no part names."""
    return any(
        (keyword in part and not isinstance(part[keyword], list) and keyword not in list_of(part.get(NOT_EVALUATED)))
        or (at and unevaluated in part)
        for at, part in enumerate(alternative)
    )
