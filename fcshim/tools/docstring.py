"""What a docstring says: the tool's description and each parameter's.

Rule: Google, NumPy and Sphinx styles are understood; a docstring in no style is all description.
Neighbours: `signature` puts the texts into the schema.
"""

import functools
import inspect
from collections.abc import Callable

import docstring_parser
import msgspec

from fcshim.events import JSON


class DocstringParts(msgspec.Struct, frozen=True):
    """A docstring, taken apart."""

    summary: str
    parameters: dict[str, str]


def parse_docstring(function: Callable[..., JSON]) -> DocstringParts:
    """Read the function's docstring; a parameter's description becomes one line."""
    described = function.func if isinstance(function, functools.partial) else function
    docstring = inspect.getdoc(described) or ""
    try:
        parsed = docstring_parser.parse(docstring)
    except docstring_parser.ParseError:
        return DocstringParts(summary=docstring, parameters={})
    parameters = {
        name: " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
        for name in _split_names(parameter.arg_name)
    }
    return DocstringParts(summary=(parsed.description or "").strip(), parameters=parameters)


def _split_names(written: str) -> list[str]:
    """NumPy style may describe several parameters at once: `x, y : float`."""
    return [name.strip() for name in written.split(",")]
