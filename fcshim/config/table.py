"""The table of settings for flags, environment variables, help and error messages.

Rule: everything here is derived from the fields of `Config`.
"""

import functools
from collections.abc import Sequence
from typing import Literal, get_args, get_origin

import msgspec

from fcshim.config.secret import Secret
from fcshim.config.values import Config
from fcshim.events import JSON

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


@functools.cache
def settings() -> tuple[Setting, ...]:
    """Return the settings in the order of `Config`, without `models` and `upstreams`: only the TOML file has tables."""
    return tuple(_setting(field) for field in msgspec.structs.fields(Config) if field.name not in TABLES)


def _setting(field: msgspec.structs.FieldInfo) -> Setting:
    bare, *metas = get_args(field.type)
    origin: JSON = get_origin(bare)
    about = next(meta for meta in metas if meta.description)
    kind: Literal["value", "switch", "list"] = "switch" if bare is bool else "list" if origin is tuple else "value"
    singular = field.name.removesuffix("s") if kind == "list" else field.name
    return Setting(
        name=field.name,
        kind=kind,
        flag="--" + singular.replace("_", "-"),
        env=f"FCSHIM_{field.name.upper()}",
        group=about.extra["group"],
        help=about.description,
        metavar=about.extra["metavar"],
        choices=get_args(bare) if origin is Literal else (),
        default=about.extra["default"] or _default_text(field.default),
        expected=_expected(bare, metas),
        secret=Secret in (bare, *get_args(bare)),
        type=field.type,
    )


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
