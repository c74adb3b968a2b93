"""Fifty schemas of tools, from a single boolean to a recursive tree.

Rule: each can be satisfied; keywords that no grammar enforces (patterns, unique elements) are left out.
"""

from typing import Any

JSON = Any


def _object(properties: dict[str, JSON], required: str = "", **more: JSON) -> JSON:
    return {"type": "object", "properties": properties, "required": required.split(), **more}


STRING, INTEGER, NUMBER, FLAG = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
SHORT = {"type": "string", "maxLength": 24}
POINT = _object(
    {"lat": {**NUMBER, "minimum": -90, "maximum": 90}, "lon": {**NUMBER, "minimum": -180, "maximum": 180}}, "lat lon"
)
UNIT = {"enum": ["celsius", "fahrenheit"]}


def _form(name: str) -> JSON:
    return {"type": "string", "format": name}


def _list(items: JSON, least: int = 0, most: int | None = None) -> JSON:
    return {"type": "array", "items": items, "minItems": least, **({} if most is None else {"maxItems": most})}


def _referring(definition: JSON, **properties: JSON) -> JSON:
    return {**_object(properties, " ".join(properties)), "$defs": {"node": definition}}


NODE = {"$ref": "#/$defs/node"}
NULL_OR_NODE = {"anyOf": [NODE, {"type": "null"}]}

SCHEMAS: dict[str, JSON] = {
    # Scalars.
    "get_weather": _object({"city": STRING, "days": {**INTEGER, "minimum": 1, "maximum": 14}, "unit": UNIT}, "city"),
    "set_flag": _object({"on": FLAG}, "on"),
    "add": _object({"a": NUMBER, "b": NUMBER}, "a b"),
    "roll_dice": _object({"sides": {"enum": [4, 6, 8, 10, 12, 20]}, "count": {**INTEGER, "minimum": 1}}, "sides"),
    "set_temperature": _object({"value": {**NUMBER, "minimum": 0, "maximum": 2}}, "value"),
    "set_gain": _object({"value": {**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1}}, "value"),
    "seek": _object({"offset": {**INTEGER, "minimum": -500, "maximum": 500, "multipleOf": 25}}, "offset"),
    "set_volume": _object({"percent": {**INTEGER, "minimum": 0, "maximum": 100}}, "percent"),
    "shift": _object({"by": {**INTEGER, "maximum": -1}}, "by"),
    "ping": {},
    "noop": _object({}),
    "search": _object({"query": {"type": "string", "minLength": 1}, "limit": {**INTEGER, "default": 10}}, "query"),
    "say": _object({"text": {"type": "string", "minLength": 5, "maxLength": 40}}, "text"),
    "tweet": _object({"text": {"type": "string", "maxLength": 280}}, "text"),
    "set_code": _object({"code": {"type": "string", "minLength": 6, "maxLength": 6}}, "code"),
    "choose": _object({"option": {"enum": ["yes", "no", "maybe", "yes, but", 'a "quoted" one', "天気"]}}, "option"),
    "versioned": _object({"version": {"const": 2}, "name": SHORT}, "version name"),
    "maybe": _object({"value": {"type": ["string", "null"], "maxLength": 10}}, "value"),
    "nullable": _object({"count": {**INTEGER, "nullable": True}, "on": FLAG}, "count on"),
    # Formats.
    "book_day": _object({"day": _form("date")}, "day"),
    "book_hour": _object({"at": _form("date-time"), "until": _form("date-time")}, "at"),
    "set_alarm": _object({"time": _form("time"), "label": SHORT}, "time"),
    "get_item": _object({"id": _form("uuid")}, "id"),
    "send_email": _object({"to": _list(_form("email"), 1, 3), "subject": SHORT, "body": STRING}, "to subject body"),
    "fetch": _object({"url": _form("uri"), "timeout": {**NUMBER, "minimum": 0.5, "maximum": 60}}, "url"),
    "scan_host": _object(
        {"address": _form("ipv4"), "ports": _list({**INTEGER, "minimum": 1, "maximum": 65535})}, "address"
    ),
    "wait": _object({"duration": _form("duration")}, "duration"),
    # Arrays.
    "sum_up": _object({"numbers": _list(NUMBER, 1)}, "numbers"),
    "tag": _object({"tags": _list(SHORT, 1, 5)}, "tags"),
    "pair": _object(
        {"pair": {"type": "array", "prefixItems": [STRING, INTEGER], "minItems": 2, "maxItems": 2}}, "pair"
    ),
    "matrix": _object({"rows": _list(_list(NUMBER, 2, 3), 1, 3)}, "rows"),
    "plot": _object({"points": _list(POINT, 1, 4), "title": SHORT}, "points"),
    "colours": _object({"names": _list({"enum": ["red", "green", "blue"]}, 1, 3)}, "names"),
    "empty_list": _object({"none": _list(STRING, 0, 0)}, "none"),
    # Objects.
    "distance": _object({"from": POINT, "to": POINT, "unit": {"enum": ["km", "mi"]}}, "from to"),
    "create_user": _object(
        {"name": SHORT, "address": _object({"street": SHORT, "zip": SHORT, "city": SHORT}, "city"), "age": INTEGER},
        "name address",
        additionalProperties=False,
    ),
    "options": _object(dict.fromkeys(("a", "b", "c", "d", "e", "f"), FLAG)),
    "some_options": _object(dict.fromkeys(("a", "b", "c", "d"), FLAG), minProperties=2, maxProperties=3),
    "set_labels": _object({"labels": {"type": "object", "additionalProperties": SHORT, "maxProperties": 3}}, "labels"),
    "deep": _object(
        {"a": _object({"b": _object({"c": _object({"d": _object({"e": INTEGER}, "e")}, "d")}, "c")}, "b")}, "a"
    ),
    # Unions and references.
    "either": _object({"value": {"anyOf": [STRING, INTEGER, FLAG]}}, "value"),
    "shape": _object(
        {
            "shape": {
                "oneOf": [
                    _object({"kind": {"const": "circle"}, "radius": NUMBER}, "kind radius"),
                    _object({"kind": {"const": "box"}, "width": NUMBER, "height": NUMBER}, "kind width height"),
                ]
            }
        },
        "shape",
    ),
    "merged": {"allOf": [_object({"id": INTEGER}, "id"), _object({"name": SHORT}, "name")], "type": "object"},
    "by_reference": _referring(POINT, start=NODE, end=NODE),
    "optional_reference": _referring(POINT, where=NULL_OR_NODE),
    "linked_list": _referring(_object({"value": INTEGER, "next": NULL_OR_NODE}, "value next"), head=NODE),
    "tree": _referring(_object({"name": SHORT, "children": _list(NODE)}, "name"), root=NODE),
    "comment": _referring(_object({"text": SHORT, "reply": NODE}, "text"), first=NODE),
    "query": _referring(
        {"anyOf": [_object({"not": NODE}, "not"), _object({"field": SHORT, "equals": SHORT}, "field equals")]},
        where=NODE,
    ),
    "write_file": _object(
        {"path": {"type": "string", "minLength": 1}, "content": STRING, "append": FLAG}, "path content"
    ),
}
