"""Load the grammars of call bodies, which define what a custom dialect's body may look like."""

import functools
from pathlib import Path

from lark import Lark
from lark.exceptions import LarkError

from fcshim.errors import ConfigError
from fcshim.resources import resource_dir


@functools.cache
def load_grammar(name: str) -> Lark:
    """Load `grammars/<name>.lark`, once. Raises `ConfigError` with Lark's position and reason if it is invalid."""
    path: Path = resource_dir("grammars") / f"{name}.lark"
    try:
        return Lark(path.read_text(encoding="utf-8"), parser="lalr", maybe_placeholders=False)
    except (OSError, LarkError) as error:
        raise ConfigError(f"{path}: the grammar cannot be used: {error}") from error
