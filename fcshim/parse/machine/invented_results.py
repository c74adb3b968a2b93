"""Lines after a call with which the model invents the call's result: `Observation: ...`, `<result>`, `{"days": 21}`.

Rule: further calls would rest on the invented result, so they are text. The client runs the call before it, and answers
with the real result.
"""

import re

from fcshim.parse.scanner import MoreNeeded

_NAME = (
    r"(?:(?:tool|function|api|call|server)[ _]?)?(?:(?:call|tool|execution)[ _]?)?"
    r"(?:results?|responses?|outputs?|observations?|returns?|returned)"
)
_OF_TOOL = r"(?:[ \t](?:of|from|for)[ \t][\w`.]{1,64}(?:\(\))?)?"
_LINES = (
    rf"[*_>\[(]{{0,3}}[ \t]?{_NAME}{_OF_TOOL}[*_]{{0,3}}[ \t]?[:：]",
    rf"<{_NAME}>",
    rf"(?:#{{1,6}}[ \t]|[*_]{{2,3}}){_NAME}[*_]{{0,3}}[ \t\r]*$",
    r"(?:tool|ipython|observation)[ \t\r]*$",
    r"[`*]{0,3}\w{1,64}[`*]{0,3}(?:\(\))?[ \t]returned\b",
)
_LABEL = re.compile(rf"^[ \t\r]*(?:{'|'.join(_LINES)})", re.IGNORECASE | re.MULTILINE)
_MAX_LABEL = 96
_WORDS = re.compile(r"[\w\s`.()*_>\[<#]*")
"""The characters of a label, before its colon."""


def begins_result_line(text: str, pos: int) -> bool:
    """Return whether an invented result begins at `pos`, after pending calls. Raises `MoreNeeded`."""
    line, newline, _ = text[pos : pos + _MAX_LABEL].partition("\n")
    found = _LABEL.match(line)
    if found is not None and (newline or found[0][-1] in ":：>"):
        return True
    if not newline and len(line) < _MAX_LABEL and _WORDS.fullmatch(line):
        raise MoreNeeded
    return False


def begins_result(lines: str, *, follow_call: bool) -> bool:
    """Return whether a line begins an invented result; an object does so only directly after a call."""
    return _LABEL.search(lines) is not None or (follow_call and lines.lstrip().startswith("{"))
