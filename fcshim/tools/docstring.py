"""Reads a tool's description and its parameters' descriptions from a docstring.

Rule: Google, NumPy and Sphinx styles are parsed; a docstring in no such style is the description as a whole.
"""

import functools
import inspect
from collections.abc import Callable

import docstring_parser
import msgspec

from fcshim.events import JSON


class DocstringParts(msgspec.Struct, frozen=True):
    """The description of a function, and of each parameter that its docstring documents."""

    summary: str
    parameters: dict[str, str]


def parse_docstring(function: Callable[..., JSON]) -> DocstringParts:
    """Parse the function's docstring; white space in a parameter's description becomes single spaces."""
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
    """Split names: NumPy style can document several parameters at once, as in `x, y : float`."""
    return [name.strip() for name in written.split(",")]
