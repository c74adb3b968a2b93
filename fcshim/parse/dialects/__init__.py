"""The dialect table: one row per text format in which models write calls.

Rule: rows are grouped by the syntax of their bodies, one file per syntax; this module only collects them.
"""

import difflib
import functools

from fcshim.errors import ConfigError
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects.headers import HEADERS
from fcshim.parse.dialects.json_bare import JSON_BARE
from fcshim.parse.dialects.json_tags import FUNCTION_CALL, HERMES, JSON_TAGS
from fcshim.parse.dialects.literals import LITERALS
from fcshim.parse.dialects.tagged import TAGGED, TAGGED_AMONG_OTHERS

__all__ = ["AUTO", "DIALECTS", "FUNCTION_CALL", "HERMES", "OTHER_DIALECTS", "Dialect", "get_dialect"]

AUTO = "auto"
"""For the parser: all dialects at once. As a setting: the dialect that fits the model."""

DIALECTS: dict[str, Dialect] = {row.name: row for row in (*JSON_TAGS, *HEADERS, *TAGGED, *LITERALS, *JSON_BARE)}
OTHER_DIALECTS = DIALECTS | {row.name: row for row in TAGGED_AMONG_OTHERS}
"""The dialects as they are read where another one was selected."""


@functools.lru_cache(maxsize=256)
def get_dialect(dialect: str | Dialect) -> Dialect:
    """Return the dialect with this name, or a given `Dialect` itself. Raises `ConfigError` with the nearest name."""
    if isinstance(dialect, Dialect):
        return dialect
    if dialect in DIALECTS:
        return DIALECTS[dialect]
    near = difflib.get_close_matches(dialect, DIALECTS, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    raise ConfigError(f"unknown dialect {dialect!r}{hint} `fcshim dialects` lists all {len(DIALECTS)}.")
