"""The recommended settings as a TOML file for `fcshim serve --config`, with the reasons as comments.

Rule: the file parses to the same values. It never contains an API key; text of the server appears only in comments.
"""

import json
import os
import textwrap
from collections.abc import Iterable
from pathlib import Path

from fcshim.errors import ConfigError
from fcshim.evaluate.recommendations import Recommendation

_WIDTH = 110


def render_settings(choices: Iterable[Recommendation], table: str, about: str) -> str:
    """Return the text of the file. `table` is the model's name or pattern, `about` the comment at the top."""
    choices = list(choices)
    blocks = ["\n".join(_comment_lines(about))]
    blocks += [_render_setting(choice) for choice in choices if not choice.of_model]
    own = [_render_setting(choice) for choice in choices if choice.of_model]
    if own:
        blocks.append(f"[models.{_toml_string(table)}]\n" + "\n\n".join(own))
    return "\n\n".join(blocks) + "\n"


def check_writable(file: Path, *, replace: bool = False) -> None:
    """Check that the file can be written, before the race, which takes minutes. Raises `ConfigError`."""
    if file.is_dir():
        raise ConfigError(f"cannot write {file}: it is a folder")
    if file.exists() and not replace:
        raise _already_exists(file)
    if not file.parent.is_dir():
        raise ConfigError(f"cannot write {file}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(f"cannot write {file}: no permission")


def save_settings(text: str, file: Path, *, replace: bool = False) -> None:
    """Write the file; an existing one only if `replace` is set. Raises `ConfigError`."""
    try:
        with file.open("w" if replace else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise _already_exists(file) from error
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def _already_exists(file: Path) -> ConfigError:
    return ConfigError(f"{file} already exists; --force replaces it")


def _render_setting(choice: Recommendation) -> str:
    value = _toml_string(choice.value) if isinstance(choice.value, str) else json.dumps(choice.value)
    return "\n".join([*_comment_lines(choice.reason), f"{choice.setting} = {value}"])


def _comment_lines(text: str) -> list[str]:
    """Wrap a text into comment lines without breaking words, so that a URL stays in one piece."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    return [f"# {line}" for line in textwrap.wrap(clean, _WIDTH, break_long_words=False, break_on_hyphens=False)]


def _toml_string(text: str) -> str:
    """Return a TOML basic string. JSON escapes are valid TOML, but JSON does not escape DEL, as TOML requires."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
