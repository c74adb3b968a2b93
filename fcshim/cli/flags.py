"""The settings of `fcshim.config` as flags of a command.

Rule: every flag is made from the table of settings; this module names no setting.
"""

import argparse
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from fcshim.config import FILE_VARIABLE, Config, Setting, load_config, settings
from fcshim.events import JSON

_SETTING_NAMES = frozenset(setting.name for setting in settings())


def add_settings(
    parser: argparse.ArgumentParser,
    *,
    only: Container[str] | None = None,
    without: Container[str] = (),
    without_group: str = "",
    short_help: bool = False,
    defaults: Mapping[str, JSON] | None = None,
) -> None:
    """Add a flag for each setting; `only` limits them to groups and names, the others leave some out.

    `defaults` replace the usual ones in the help. With `short_help` that shows the common ones, and `--help-all` the
    others, too.
    """
    hidden: dict[argparse.Action, str] = {}
    parser.add_argument("--config", metavar="FILE", help=f"TOML file of settings [{FILE_VARIABLE}]")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for setting in settings():
        if only is not None and setting.group not in only and setting.name not in only:
            continue
        if setting.name in without or setting.group == without_group:
            continue
        if setting.group not in groups:
            groups[setting.group] = parser.add_argument_group(setting.group)
        default = (defaults or {}).get(setting.name)
        shown = setting if default is None else msgspec.structs.replace(setting, default=str(default))
        action = _add_flag(groups[setting.group], shown)
        if short_help and not setting.common:
            hidden[action], action.help = action.help or "", argparse.SUPPRESS
    if short_help:
        parser.add_argument("--help-all", action=HelpAll, hidden=hidden)


class HelpAll(argparse.Action):
    """Shows the help with the flags that the short one hides, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, hidden: Mapping[argparse.Action, str]) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="show all options and exit")
        self._hidden = hidden

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Show the whole help and exit."""
        self.show_all()
        parser.print_help()
        parser.exit()

    def show_all(self) -> None:
        """Have the help show the hidden flags from now on."""
        for action, text in self._hidden.items():
            action.help = text


def read_settings(
    arguments: argparse.Namespace,
    *,
    defaults: Mapping[str, JSON] | None = None,
    only: Container[str] = _SETTING_NAMES,
) -> Config:
    """Read the settings from flags, environment and file; `defaults` replace the usual ones. Raises `ConfigError`.

    `only`: the settings that a command has which has few; it reads no variables of others.
    """
    flags = {name: value for name, value in vars(arguments).items() if name in _SETTING_NAMES and name in only}
    env = dict(os.environ)
    if only is not _SETTING_NAMES:
        read = {setting.env for setting in settings() if setting.name in only}
        env = {name: value for name, value in env.items() if name in read or not name.startswith("FCSHIM_")}
    return load_config(flags, env=env, file=settings_file(arguments), defaults=defaults)


def settings_file(arguments: argparse.Namespace) -> Path | None:
    """Return the file of settings that the flags or the environment name."""
    file = arguments.config or os.environ.get(FILE_VARIABLE)
    return Path(file) if file else None


def _add_flag(group: "argparse._ArgumentGroup", setting: Setting) -> argparse.Action:
    """Add the flag of a setting. A flag that is not given sets no attribute, so that environment and file apply."""
    common: dict[str, JSON] = {"dest": setting.name, "default": argparse.SUPPRESS, "help": _help(setting)}
    match setting.kind:
        case "switch":
            return group.add_argument(setting.flag, action=argparse.BooleanOptionalAction, **common)
        case "list":
            return group.add_argument(setting.flag, action="append", metavar=setting.metavar, **common)
        case "value" if setting.choices:
            return group.add_argument(setting.flag, choices=setting.choices, **common)
        case "value":
            return group.add_argument(setting.flag, metavar=setting.metavar, **common)


def _help(setting: Setting) -> str:
    default = f"; default: {setting.default}" if setting.default else ""
    return f"{setting.help} [{setting.env}{default}]".replace("%", "%%")
