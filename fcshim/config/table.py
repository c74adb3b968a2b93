"""The table of settings for flags, environment variables, help and error messages.

Rule: everything here is derived from the fields of `Config`.
"""

import functools
from collections.abc import Sequence
from typing import Annotated, Literal, get_args, get_origin

import msgspec

from fcshim.config.model_settings import Group, ModelSettings, about
from fcshim.config.secret import Secret
from fcshim.config.values import Config
from fcshim.events import JSON
from fcshim.parse.dialect import Dialect
from fcshim.prompt.profiles import Profile

TABLES = frozenset({"models", "upstreams"})


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
