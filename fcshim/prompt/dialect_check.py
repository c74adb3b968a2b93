"""Checks a custom dialect: its parser must read the calls that its templates write.

Rule: a call is written as a prompt repeats it, with escaped markers, and read whole and character by character. Only an
equal call, with nothing but white space around it, passes.
"""

import json
from collections.abc import Iterator, Sequence

from jinja2 import TemplateNotFound

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.stream import StreamParser
from fcshim.prompt.escape import escaper_for, own_markers
from fcshim.prompt.event_unescape import EventUnescaper
from fcshim.prompt.render import render_calls
from fcshim.reply import fold

SampleCall = tuple[str, dict[str, JSON]]
"""A tool's name and its arguments."""

_NESTED: dict[str, JSON] = {
    "text": 'two\nlines, "quotes", \\ and ünïcode',
    "count": -3,
    "ratio": 0.5,
    "flag": True,
    "list": [1, {"deep": ["x", None]}],
    "object": {"empty": [], "key": "d"},
}
_SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "object": {"type": "object", "properties": {"empty": {"type": "array"}, "key": {"type": "string"}}},
    },
}
_TOOLS = (Tool("get_weather", "", _SCHEMA), Tool("send_mail", "", _SCHEMA))
_EXCERPT = 600
"""Characters of what was written and of what was read in the message."""


def check_dialect(dialect: Dialect) -> None:
    """Raise `ConfigError` if a template is missing, or, with the difference, if the parser misreads what they write."""
    for calls in _samples(dialect):
        escape = escaper_for(dialect).escape
        encoded = [(name, escape(json.dumps(arguments, ensure_ascii=False))) for name, arguments in calls]
        written = _render(dialect, encoded)
        for way, pieces in (("in one piece", [written]), ("character by character", list(written))):
            found = _read(dialect, pieces)
            if found != _shown(calls):
                raise ConfigError(
                    f"{dialect.templates or dialect.name}: the parser does not read what the templates write\n"
                    f"  call:    {_shown(calls):.{_EXCERPT}}\n"
                    f"  written: {written!r:.{_EXCERPT}}\n"
                    f"  read {way}: {found:.{_EXCERPT}}"
                )


def _render(dialect: Dialect, calls: Sequence[tuple[str, str]]) -> str:
    """Write calls by the dialect's templates. Raises `ConfigError` with their folder if one is missing."""
    try:
        return render_calls(dialect, calls)
    except TemplateNotFound as error:
        raise ConfigError(f"{dialect.templates or dialect.name}: the template {error.name!r} is missing") from error


def _samples(dialect: Dialect) -> Iterator[list[SampleCall]]:
    """Yield the calls of one turn each, the simplest first, so that an error shows the smallest difference."""
    first, second = (tool.name for tool in _TOOLS)
    yield [(first, {})]
    yield [(first, {"text": "x"})]
    yield [(first, _NESTED)]
    yield [(first, {"text": " x \n"})]
    yield [(first, {"text": "x", "count": 1}), (second, {"list": ["y"]})]
    yield [(first, {}), (second, {})]
    markers = list(own_markers(dialect))
    for text in (*(f"a {marker} b" for marker in markers), " ".join(markers), "".join(markers)):
        yield [(first, {"text": text, "count": 1}), (second, {"object": {"key": text}})]


def _read(dialect: Dialect, pieces: Sequence[str]) -> str:
    """Return what is read of a text, in the form of `_shown`."""
    parser = StreamParser(dialect, _TOOLS)
    try:
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"the parser raised {error!r}"
    reply = fold(EventUnescaper(escaper_for(dialect)).apply(events))
    found: list[str] = []
    for end in reply.tool_calls:
        if end.error is not None:
            found.append(f"{end.tool_call_name} with an error ({end.error.message})")
        else:
            call = _shown([(end.tool_call_name, json.loads(end.tool_call_arguments_complete))])
            found.append(f"{call} with other types" if end.coerced else call)
    if reply.text.strip():
        found.append(f"the text {reply.text!r}")
    return ", ".join(found) or "nothing"


def _shown(calls: Sequence[SampleCall]) -> str:
    return ", ".join(f"{name}({json.dumps(arguments, ensure_ascii=False)})" for name, arguments in calls)
