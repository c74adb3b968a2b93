"""Finds the folders of data files (grammars, templates): inside the package in a wheel, beside it in a checkout.

Rule: no other module builds a path to them.
"""

import functools
from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).parent


@functools.cache
def resource_dir(kind: Literal["grammars", "templates"]) -> Path:
    """Return the folder of that kind: `fcshim/<kind>` when installed, else `<kind>` beside the package."""
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind
