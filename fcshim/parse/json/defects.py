"""Judge arguments that were read: those in a string, and those whose closing brackets were missing."""

import json

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.missing_brackets import ends_like_closer, may_lack_inner_bracket
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.backslashes import mixes_escapes
from fcshim.parse.call_keys import OWN_KEYS
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.readings.json_writer import JsonReading
from fcshim.parse.sink import CallSink


def find_defect(reader: StrictJsonReader, sink: CallSink, reading: JsonReading | None) -> str:
    """Return why the arguments of the complete call are not certain, or an empty string."""
    if reader.mixes_line_breaks(sink.arguments()):
        return "a string with line breaks and escapes, which may be content"
    if reading is None:
        return ""
    if reading.lacks_brackets:
        # The missing bracket may belong inside the arguments, or before one of the call's members.
        arguments, expected = json.loads(sink.arguments()), sink.expectation
        own = any(key in OWN_KEYS and not expected.lists_member(key) for key in arguments)
        if own or ends_like_closer(arguments) or may_lack_inner_bracket(arguments, expected):
            return "a bracket is missing before a parameter or at the end"
    return "a word that the schema does not admit" if sink.misplaces(reading.words) else ""


def decode_object(encoded: str, limits: Limits) -> str | None:
    """Return the strict JSON of the object in the JSON string `encoded`, or None; an empty string means `{}`."""
    inner: str = json.loads(encoded).strip() or "{}"
    reader = StrictJsonReader(compile_end_markers(()), limits)
    parts = reader.buffer.target = []
    try:
        reader.read_whole(inner)
    except (LimitError, NotStrictError):
        return None
    strict = "".join(parts)
    if reader.mixes_line_breaks(strict) or (reader.has_backslash and mixes_escapes(json.loads(strict))):
        return None
    return strict if inner[0] == "{" else None
