"""What extends fcshim: dialects made in Python, and body readers for the syntax of their calls.

Rule: `__all__` is the public API for extension, as that of `fcshim` is for use.
"""

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter
from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.dialect import Body, CallMarkers, Dialect, Markers, TurnMarkup
from fcshim.parse.dialects import DIALECTS, get_dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink
from fcshim.prompt.dialect_check import check_dialect

__all__ = [
    "DIALECTS",
    "ArgumentWriter",
    "Body",
    "BodyReader",
    "BodyStatus",
    "CallMarkers",
    "CallSink",
    "Dialect",
    "LimitError",
    "Limits",
    "Markers",
    "NotStrictError",
    "TurnMarkup",
    "check_dialect",
    "get_dialect",
]
