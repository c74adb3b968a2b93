"""Where the data files are: grammars and templates, in the wheel inside the package, in a checkout beside it.

Rule: nobody else builds a path to them.
Neighbours: the grammar loader and the template environment.
"""

import functools
from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).parent


@functools.cache
def resource_dir(kind: Literal["grammars", "templates"]) -> Path:
    """Give the folder of that kind: `fcshim/<kind>` when installed, else `<kind>` beside the package."""
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind
