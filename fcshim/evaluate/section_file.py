"""The recommended settings in one section `[upstreams.NAME]` of a file that has others.

Rule: everything else stays as it is, comments and order too. A row of `models` that belongs to another upstream is
never changed: the model then gets a row of its own, `NAME/model`. No key is written.
"""

import textwrap
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from fcshim.errors import ConfigError
from fcshim.evaluate.recommendations import Recommendation
from fcshim.events import JSON

_KEYS = {"upstream": "url", "upstream_api": "api"}
"""The names of settings of one upstream in a section."""
_WIDTH = 110


def edit_section(text: str, section: str, choices: Iterable[Recommendation], model: str) -> str:
    """Return the text of a settings file with the choices for `model` of the upstream `section`.

    Raises `ConfigError` if the text is not TOML, or has one upstream only.
    """
    try:
        document = tomlkit.parse(text)
        _refuse_single(document)
        choices = list(choices)
        upstreams = _table(document, "upstreams", is_super=True)
        _set(_table(upstreams, section), [choice for choice in choices if not choice.of_model])
        own = [choice for choice in choices if choice.of_model]
        if own:
            models = _table(document, "models", is_super=True)
            _set(_row(models, section, model), own)
        edited = tomlkit.dumps(document)
        tomllib.loads(edited)
    except (TOMLKitError, tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
        raise ConfigError(f"the file cannot be edited: expected TOML with tables [upstreams.NAME]: {error}") from error
    return edited


def read_existing(file: Path) -> str:
    """Return the text of a settings file; empty if there is none. Raises `ConfigError`."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error


def _refuse_single(document: tomlkit.TOMLDocument) -> None:
    single = [name for name in ("upstream", "upstream_api", "upstream_key") if name in document]
    if single:
        raise ConfigError(
            f"the file has one upstream ({single[0]}): expected sections [upstreams.NAME], or another file"
        )


def _table(parent: JSON, name: str, *, is_super: bool = False) -> JSON:
    """Return the table of that name, which is made if there is none."""
    if name not in parent:
        parent.add(name, tomlkit.table(is_super_table=is_super))
    return parent[name]


def _row(models: JSON, section: str, model: str) -> JSON:
    """Return the row for the model of this upstream."""
    existing = models.get(model)
    if existing is None:
        row = _table(models, model)
        row.add("upstream", section)
        return row
    owner = existing.get("upstream", section)
    is_own = section in ([owner] if isinstance(owner, str) else owner)
    return existing if is_own else _table(models, f"{section}/{model}")


def _set(table: Table, choices: Sequence[Recommendation]) -> None:
    """Set the values; a new key gets its reason as a comment, an existing one keeps the comments that it has."""
    for choice in choices:
        key = _KEYS.get(choice.setting, choice.setting)
        if key in table:
            table[key] = choice.value
            continue
        clean = "".join(char if char.isprintable() else " " for char in choice.reason)
        for line in textwrap.wrap(clean, _WIDTH, break_long_words=False, break_on_hyphens=False):
            table.add(tomlkit.comment(line))
        table.add(key, choice.value)
