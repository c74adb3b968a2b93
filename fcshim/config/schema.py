"""The JSON Schema of the TOML file, for editors.

Rule: it is made from the table of settings and from the tables of the file; nothing about a setting is written here.
"""

import functools

import msgspec

from fcshim.config.model_settings import ModelOverrides
from fcshim.config.secret import Secret
from fcshim.config.table import Setting, model_settings, settings
from fcshim.config.upstreams import UpstreamConfig
from fcshim.config.values import Config
from fcshim.events import JSON

_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Config)}
_KEY = {"type": "string", "pattern": r"^[ -~]*[!-~][ -~]*$"}
"""What `Secret` accepts: printable ASCII with more than blanks."""


@functools.cache
def config_schema() -> dict[str, JSON]:
    """Return the schema (draft 2020-12). The loader refuses some values that it admits, such as unknown dialects."""
    overrides = dict(msgspec.json.schema(ModelOverrides)["$defs"][ModelOverrides.__name__]["properties"])
    del overrides["settings"]  # in the file, the settings themselves
    section = msgspec.json.schema(UpstreamConfig, schema_hook=_key_schema)["$defs"][UpstreamConfig.__name__]
    rows = {setting.name: _type_of(setting) for setting in model_settings()}
    rows |= {name: _without_null(row) for name, row in overrides.items()}
    properties = {setting.name: _property(setting) for setting in settings()}
    table = {"type": "object", "properties": rows, "additionalProperties": False}
    properties["upstreams"] = {
        "type": "object",
        "description": "the endpoints, by name, where there are several",
        "additionalProperties": {
            "type": "object",
            "properties": {name: _without_null(row) for name, row in section["properties"].items()},
            "required": section["required"],
            "additionalProperties": False,
        },
    }
    properties["models"] = {"type": "object", "description": "settings by model name", "additionalProperties": table}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fcshim",
        "description": "The settings of fcshim, as in the file of --config",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _property(setting: Setting) -> dict[str, JSON]:
    default = _DEFAULTS[setting.name]
    return _type_of(setting) | ({} if default in (None, ()) else {"default": default})


def _type_of(setting: Setting) -> dict[str, JSON]:
    return {"description": setting.help} | _without_null(msgspec.json.schema(setting.type, schema_hook=_key_schema))


def _key_schema(wanted: type) -> dict[str, JSON]:
    assert wanted is Secret
    return dict(_KEY)


def _without_null(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Return the schema of what TOML can say, which has no null: a setting that is not given is left out."""
    others = {key: value for key, value in schema.items() if key != "anyOf" and (key, value) != ("default", None)}
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if "enum" in others:
        others["enum"] = [value for value in others["enum"] if value is not None]
    if isinstance(others.get("type"), list):
        others["type"] = next(kind for kind in others["type"] if kind != "null")
    return {**others, **options[0]} if len(options) == 1 else {**others, **({"anyOf": options} if options else {})}
