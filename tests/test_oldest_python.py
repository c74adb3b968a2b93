"""Bugs of the oldest supported Python that newer versions do not show."""

import re
from pathlib import Path

import fcshim

PACKAGE = Path(fcshim.__file__).parent
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Before 3.11.5 such a group matches wrongly: https://github.com/python/cpython/issues/106052."""
    users = [path.name for path in PACKAGE.rglob("*.py") if POSSESSIVE_GROUP.search(path.read_text(encoding="utf-8"))]

    assert [] == users
