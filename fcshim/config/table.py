"""The table of settings for flags, environment variables, help and error messages; and their JSON Schema, for editors.

Rule: everything here is derived from the fields of `Config` and the tables of the file.
"""

import functools
from collections.abc import Sequence
from typing import Annotated, Literal, get_args, get_origin

import msgspec

from fcshim.config.model_settings import Group, ModelOverrides, ModelSettings, about
from fcshim.config.secret import Secret
from fcshim.config.upstreams import UpstreamConfig
from fcshim.config.values import Config
from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.prompt.profiles import Profile

TABLES = frozenset({"models", "upstreams"})
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Config)}
_KEY = {"type": "string", "pattern": r"^[ -~]*[!-~][ -~]*$"}
"""What `Secret` accepts: printable ASCII with more than blanks."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `kind`: its flag takes a value, is a switch (`--x`, `--no-x`), or may be repeated (list)."""

    name: str
    kind: Literal["value", "switch", "list"]
    flag: str
    env: str
    group: str
    help: str
    metavar: str
    choices: tuple[str, ...]
    default: str
    expected: str
    secret: bool
    type: JSON
    common: bool


@functools.cache
def settings() -> tuple[Setting, ...]:
    """Return the settings by group, without `models` and `upstreams`: only the TOML file has tables."""
    table = [_setting(field) for field in msgspec.structs.fields(Config) if field.name not in TABLES]
    return tuple(sorted(table, key=lambda setting: get_args(Group).index(setting.group)))


def model_settings() -> tuple[Setting, ...]:
    """Return the settings that each model may have for itself."""
    return tuple(setting for setting in settings() if setting.name in ModelSettings.__struct_fields__)


def _setting(field: msgspec.structs.FieldInfo) -> Setting:
    declared, *others = get_args(field.type)
    metas = [each for each in others if isinstance(each, msgspec.Meta)]
    bare = _written(declared)
    origin: JSON = get_origin(bare)
    described = about(field)
    kind: Literal["value", "switch", "list"] = "switch" if bare is bool else "list" if origin is tuple else "value"
    singular = field.name.removesuffix("s") if kind == "list" else field.name
    return Setting(
        name=field.name,
        kind=kind,
        flag="--" + singular.replace("_", "-"),
        env=f"FCSHIM_{field.name.upper()}",
        group=described.group,
        help=described.help,
        metavar=described.metavar,
        choices=get_args(bare) if origin is Literal else (),
        default=described.default or _default_text(field.default),
        expected=_expected(bare, metas),
        secret=Secret in (bare, *get_args(bare)),
        type=Annotated[bare, *others],
        common=described.common,
    )


def _written(declared: JSON) -> JSON:
    """Return the type of a value in a file, variable or flag: dialects and profiles have names there."""
    return str if {Dialect, Profile} & {*get_args(declared)} else declared


def _default_text(default: JSON) -> str:
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _expected(bare: JSON, metas: Sequence[msgspec.Meta]) -> str:
    origin: JSON = get_origin(bare)
    if origin is Literal:
        return "one of " + ", ".join(get_args(bare))
    if origin is tuple:
        return "a list of strings"
    if bare is bool:
        return "true or false"
    if bare in (int, float):
        return ("a whole number" if bare is int else "a number") + "".join(map(_bounds, metas))
    return "a string"


def _bounds(meta: msgspec.Meta) -> str:
    words = {"gt": "above", "ge": "from", "le": "up to"}
    return "".join(f" {word} {getattr(meta, key)}" for key, word in words.items() if getattr(meta, key) is not None)


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
