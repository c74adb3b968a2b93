"""Select the syntax of a call by its first characters, where the marker before it does not determine the syntax.

Rule: a bounded number of characters is examined; only a known key or the name of an offered tool begins a body. Of the
syntaxes of one dialect the first that can begin here is selected; from then on its reader does all the work.
"""

import functools
import re
from dataclasses import dataclass, replace

from fcshim.parse.body import BodyReader, BodyStatus, DelegatingReader
from fcshim.parse.custom_text import NAME_LINE, CustomText
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.limits import Limits
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.markers import named_tool
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.syntax import ElementCalls, TaggedCalls
from fcshim.parse.tagged.tags import Tag, Tags


@dataclass(frozen=True, slots=True)
class UnionBody:
    """Several syntaxes; the prompt requests the first."""

    bodies: tuple[Body, ...]

    @property
    def grammar(self) -> str:
        """Name of the first syntax's grammar."""
        return self.bodies[0].grammar

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether one of the syntaxes can begin at `pos`; None if more text is needed to decide."""
        selected = self.select(text, pos)
        return None if selected is None else bool(selected)

    def select(self, text: str, pos: int) -> Body | bool | None:
        """Return the syntax that begins at `pos`, False for none, None if more text is needed to decide."""
        for body in self.bodies:
            begins = body.begins(text, pos)
            if begins is not False:
                return body if begins else None
        return False

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return UnionBodyReader(self, dialect, start_marker, sink, limits)


class UnionBodyReader(DelegatingReader):
    """Buffers nothing: consumes no text until the syntax is known, then delegates to that syntax's reader."""

    def __init__(self, union: UnionBody, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__()
        self._union = union
        self._dialect = dialect
        self._start_marker = start_marker
        self._sink = sink
        self._limits = limits

    def _choose(self, text: str, pos: int) -> tuple[BodyReader, int] | BodyStatus:
        body = self._union.select(text, pos)
        if body is None or isinstance(body, bool):
            return BodyStatus.READING if body is None else BodyStatus.NO_BODY
        dialect = replace(self._dialect, body=body)
        return body.reader(dialect, self._start_marker, self._sink, self._limits), pos


_SPACE = r"[ \t\r\n]{0,64}+"
_NAME = r"(?P<name>[^\W\d][\w.:-]{0,127}+)"
_FENCE_LINE = rf"```[a-z_]{{0,16}}+[ \t]{{0,8}}+\r?\n{_SPACE}"
_BEFORE_NAME = rf"{_SPACE}(?:{_FENCE_LINE})?"
_PYTHON = re.compile(rf"{_BEFORE_NAME}(?>(?:print[ \t]?\()?)\[{{0,2}}+{_SPACE}{_NAME}[ \t]{{0,4}}+\(")
_PARTIAL_FENCE = re.compile(rf"{_SPACE}`{{1,3}}(?:(?<=```)[a-z_]{{0,16}}+[ \t]{{0,8}}+\r?)?\Z")
_PARTIAL_PYTHON = re.compile(rf"{_BEFORE_NAME}(?>(?:print[ \t]?\()?)\[{{0,2}}+{_SPACE}(?:{_NAME}[ \t]{{0,4}}+)?\Z")
_HEADER_PATTERN = rf"{_SPACE}{_NAME}[ \t]{{0,4}}+(?:\r?\n{_SPACE})?(?=[{{｛])"
_HEADER = re.compile(_HEADER_PATTERN)
_PARTIAL_HEADER = re.compile(rf"{_SPACE}{_NAME}[ \t]{{0,4}}+(?:\r?\n{_SPACE}|\r)?\Z")
_NAME_TAG = "<(?P<tag>name|tool_name|function_name|function|tool)>"
_NAME_AND_ARGUMENTS = (
    rf"{_SPACE}{_NAME_TAG}{_SPACE}{_NAME}{_SPACE}</(?P=tag)>{_SPACE}"
    rf"<(?:arguments|parameters|args|params|input|tool_input|kwargs)>{_SPACE}"
)
_NAME_ELEMENT_PATTERN = rf"{_NAME_AND_ARGUMENTS}(?=[{{｛])"
_NAME_ELEMENT = re.compile(_NAME_ELEMENT_PATTERN)
_NAME_ELEMENT_AND_CHILD = re.compile(rf"{_NAME_AND_ARGUMENTS}<(?P<parameter>[^\W\d][\w.-]{{0,127}}+) ?/?>")
_PARTIAL_NAME_ELEMENT_AND_CHILD = re.compile(rf"{_NAME_AND_ARGUMENTS}<[\w.-]{{0,128}} ?/?\Z")
_PARTIAL_NAME_ELEMENT = re.compile(
    rf"{_SPACE}<(?:[a-z_]{{0,13}}|{_NAME_TAG[1:]}{_SPACE}(?:{_NAME}{_SPACE}"
    rf"(?:</?[a-z_]{{0,13}}(?:>{_SPACE}(?:<[a-z_]{{0,10}}(?:>{_SPACE})?)?)?)?)?)\Z"
)
_SPACES = re.compile(_SPACE)
_JSON = JsonShape(keyed=True)
_PYTHON_CALLS = PythonCalls()
_LINE_OF_PYTHON = PythonCalls(alone=True)
_NO_NAME = frozenset(("", "{", "｛"))
"""What follows where no name begins a body; nothing if more text is needed."""
_ELEMENT = re.compile(r"<(?P<name>[^\W\d][\w.-]{0,127}+) ?/?>")
_PARTIAL_ELEMENT = re.compile(r"<(?:[^\W\d][\w.-]{0,127}+ ?/?)?\Z")
_ATTRIBUTES = re.compile(r"(?P<tag>[<\[](?P<name>[^\W\d][\w.-]{0,127}+)[ \t])[ \t]{0,8}(?P<key>[^\W\d][\w.-]{0,127}+)=")
_PARTIAL_ATTRIBUTES = re.compile(
    r"[<\[](?:(?P<name>[^\W\d][\w.-]{0,127}+)(?:[ \t]{1,9}(?:[^\W\d][\w.-]{0,127}+)?)?)?\Z"
)
_ATTRIBUTE_CALLS = ElementCalls(attributes=True)
_CHILD = re.compile(rf"{_SPACE}<(?P<name>/?[^\W\d][\w.-]{{0,127}}+)[ />]")
_PARTIAL_CHILD = re.compile(rf"{_SPACE}(?:<(?:/?(?:[^\W\d][\w.-]{{0,127}}+)?)?)?\Z")
_ELEMENT_CALLS = ElementCalls()
_JSON_MEMBER = re.compile(rf"{_SPACE}[{{｛]{_SPACE}[\"'“”]")
_PARTIAL_JSON_MEMBER = re.compile(rf"{_SPACE}[{{｛]{_SPACE}\Z")
_PRINT = r"(?>(?:print[ \t]?\()?)"
_CALL = re.compile(rf"{_PRINT}\[?+{_NAME}[ \t]{{0,4}}+\(")
_PARTIAL_CALL = re.compile(rf"(?:p(?:r(?:i(?:n(?:t[ \t]?)?)?)?)?|{_PRINT}\[?+(?:{_NAME}[ \t]{{0,4}}+)?)\Z")
_HEADER_LINE_PATTERN = rf"{_NAME}\[ARGS\]{_SPACE}(?=[{{｛])"
_HEADER_LINE = re.compile(_HEADER_LINE_PATTERN)
_PARTIAL_HEADER_LINE = re.compile(rf"{_NAME}\[(?:A(?:R(?:G(?:S(?:\]{_SPACE})?)?)?)?)?\Z")
_NAME_LINE_PATTERN = rf"{_NAME}[ \t]{{0,4}}+(?:\r?\n[ \t]{{0,8}}+)?"
_MEMBER = (
    r"[{｛][ \t\r\n]{0,32}+(?:(?P<quote>[\"'“”])?(?P<parameter>(?(quote)[^\"'“”\n]{1,128}|[^\W\d]\w{0,63}+))"
    r"(?(quote)[\"'“”]|[ \t]?:)|[}｝])"
)
_NAME_LINE = re.compile(_NAME_LINE_PATTERN + _MEMBER)
_NAME_AS_KEY = re.compile(rf"[{{｛]{_SPACE}\"{_NAME}\"{_SPACE}:{_SPACE}{_MEMBER}")
_PARTIAL_NAME_AS_KEY = re.compile(
    rf"[{{｛]{_SPACE}(?:\"(?:{_NAME}(?:\"{_SPACE}(?::{_SPACE}(?:[{{｛]{_SPACE}(?:[\"'“”][^\"'“”\n]{{0,128}}|\w{{0,64}})?)?)?)?)?)?\Z"
)
_NAMES_AS_KEYS = JsonShape(name_is_key=True)
_FIRST_MEMBER = re.compile(_SPACE + _MEMBER)
_PARTIAL_NAME_LINE = re.compile(
    rf"{_NAME_LINE_PATTERN}(?:\r|[{{｛][ \t\r\n]{{0,32}}+(?:[\"'“”][^\"'“”\n]{{0,128}}|[^\W\d]\w{{0,63}}+[ \t]?)?)?\Z"
)
_NAME_LINE_AND_JSON = HeaderShape(rf"{_NAME_LINE_PATTERN}(?=[{{｛])", lines=64)
_NAME_AND_ARGS = HeaderShape(_HEADER_LINE_PATTERN, lines=64)
_NAME_AND_JSON = HeaderShape(_HEADER_PATTERN, lines=64)
_NAME_IN_ELEMENT = HeaderShape(_NAME_ELEMENT_PATTERN, lines=64)
_ATTRIBUTE = re.compile(r"\s([\w.-]{1,64})=")
_NAME_IN_TAG = HeaderShape(rf"{_SPACE}(?=[{{｛])", lines=64, name_in="marker")
_NAMED_BODIES = ((_PYTHON, _PYTHON_CALLS), (_HEADER, _NAME_AND_JSON), (_NAME_ELEMENT, _NAME_IN_ELEMENT))
_PARTIAL = (
    *(_PARTIAL_FENCE, _PARTIAL_PYTHON, _PARTIAL_HEADER),
    *(_PARTIAL_NAME_ELEMENT, _PARTIAL_NAME_ELEMENT_AND_CHILD),
)
_PARTIAL_LINE = (_PARTIAL_CALL, _PARTIAL_HEADER_LINE, _PARTIAL_NAME_LINE)
_SPACE_AND_BRACE = re.compile(rf"{_SPACE}(?:\Z|[{{｛])")
_CUSTOM_TEXT = CustomText()
_CUSTOM_LINE = re.compile(rf"{NAME_LINE.pattern}{_SPACE}[^ \t\r\n{{｛]")


def select_named_body(sink: CallSink, text: str, pos: int) -> Body | bool | None:
    """Return the syntax of the body at `pos` that begins with an offered tool's name; None if more text is needed."""
    return _select_named_body(sink, text, pos, _char_after_space(text, pos))


def _select_named_body(sink: CallSink, text: str, pos: int, char: str) -> Body | bool | None:
    """Return the same, where `char` is the first character that is not white space."""
    if char in _NO_NAME:
        return False if char else None
    bodies, partial = (_NAMED_BODIES[-1:], _PARTIAL[-2:]) if char == "<" else (_NAMED_BODIES, _PARTIAL)
    for pattern, body in bodies:
        found = pattern.match(text, pos)
        if found is not None:
            return sink.offers(found["name"]) and body
    found = _NAME_ELEMENT_AND_CHILD.match(text, pos) if char == "<" else None
    if found is not None:
        return _takes(sink, found["name"], found["parameter"]) and _calls_in_elements(found["tag"])
    found = _CUSTOM_LINE.match(text, pos)
    if found is not None and sink.takes_text_by(found["name"]):
        return _CUSTOM_TEXT
    return None if any(pattern.match(text, pos) for pattern in partial) else False


@functools.cache
def _calls_in_elements(tag: str) -> Body:
    """Return the syntax of a call whose name stands in an element of its own, and each argument in one, too."""
    return TaggedCalls(
        Tags(
            call=Tag(f"<{tag}>", end=f"</{tag}>"),
            call_close="</call>",
            parameter=Tag("<parameter", attribute="name"),
            parameter_close="</parameter>",
            lines=True,
        )
    )


def _char_after_space(text: str, pos: int) -> str:
    """Return the first character that is not white space, or an empty string; white space if there is too much."""
    found = _SPACES.match(text, pos)
    assert found is not None
    return text[found.end() : found.end() + 1]


def select_body(sink: CallSink, text: str, pos: int) -> Body | bool | None:
    """Return the syntax of the body at `pos`, False if no call begins there, None if more text is needed to decide."""
    char = _char_after_space(text, pos)
    named = _select_named_body(sink, text, pos, char)
    if named or char == "<":
        return named
    begins = _JSON.begins(text, pos)
    if begins:
        return _JSON
    return None if named is None or begins is None else False


def select_arguments(sink: CallSink, tag: str, text: str, pos: int) -> Body | bool | None:
    """Return the syntax of the arguments at `pos`, if a tool's name is an attribute of the tag before them."""
    name = named_tool(tag)
    found = _SPACE_AND_BRACE.match(text, pos) if name and sink.offers(name) else None
    if found is None or _holds_argument(sink, name, tag):
        return False
    return _NAME_IN_TAG if found[0].endswith(("{", "｛")) else None


def _holds_argument(sink: CallSink, name: str, tag: str) -> bool:
    """Return whether an attribute of the tag, other than the tool's name and the call's id, is one of its arguments."""
    tool = sink.find_tool(name)
    attributes = set(_ATTRIBUTE.findall(tag)) - {"name", "id", "type", "index"}
    return tool is not None and not attributes.isdisjoint(sink.parameter_names(tool))


def select_line(sink: CallSink, text: str, pos: int, *, quoted: bool) -> Body | bool | None:
    """Return the syntax of the call that begins at `pos`, the start of a line or of a code span (`quoted`)."""
    found = _CALL.match(text, pos)
    if found is not None:
        return sink.offers_exactly(found["name"]) and (_PYTHON_CALLS if quoted else _LINE_OF_PYTHON)
    found = _HEADER_LINE.match(text, pos)
    if found is not None:
        return sink.offers_exactly(found["name"]) and _NAME_AND_ARGS
    found = _NAME_LINE.match(text, pos)
    if found is not None:
        return _takes(sink, found["name"], found["parameter"]) and _NAME_LINE_AND_JSON
    partial = next((found for pattern in _PARTIAL_LINE if (found := pattern.match(text, pos))), None)
    if partial is not None and sink.may_begin_call(partial["name"] or ""):
        return None
    begins = text[pos : pos + 1] in {"{", "[", "｛", "［"} and _JSON.begins(text, pos)
    return begins and _JSON


def select_name_as_key(sink: CallSink, text: str, pos: int) -> Body | bool | None:
    """Return the syntax of an object whose first key is an offered tool, with the arguments as its value."""
    found = _NAME_AS_KEY.match(text, pos)
    if found is not None:
        return _takes(sink, found["name"], found["parameter"]) and _NAMES_AS_KEYS
    partial = _PARTIAL_NAME_AS_KEY.match(text, pos)
    return None if partial is not None and sink.may_begin_call(partial["name"] or "") else False


def _takes(sink: CallSink, name: str, parameter: str | None) -> bool:
    """Return whether an offered tool has exactly this name, and this parameter, if there is one."""
    return sink.offers_exactly(name) and (parameter is None or sink.has_parameter(name, parameter))


def select_element(sink: CallSink, text: str, pos: int) -> tuple[Body, str, str] | bool | None:
    """Return the syntax and the tags of the element at `pos` that is named like an offered tool."""
    found = _ELEMENT.match(text, pos)
    if found is None:
        return None if _PARTIAL_ELEMENT.match(text, pos) else _select_attributes(sink, text, pos)
    name = found["name"]
    if not sink.offers(name):
        return False
    if found[0].endswith("/>"):
        return _ELEMENT_CALLS, found[0], f"</{name}>"
    body = _select_content(sink, name, text, found.end())
    return body if body is None or isinstance(body, bool) else (body, found[0], f"</{name}>")


def _select_attributes(sink: CallSink, text: str, pos: int) -> tuple[Body, str, str] | bool | None:
    """Return the same for a tag, in angle or square brackets, with an argument of the tool as its first attribute."""
    found = _ATTRIBUTES.match(text, pos)
    if found is None:
        partial = _PARTIAL_ATTRIBUTES.match(text, pos)
        return None if partial is not None and sink.may_begin_call(partial["name"] or "") else False
    is_call = sink.offers_exactly(found["name"]) and sink.has_parameter(found["name"], found["key"])
    return is_call and (_ATTRIBUTE_CALLS, found["tag"], f"</{found['name']}>")


def _select_content(sink: CallSink, name: str, text: str, pos: int) -> Body | bool | None:
    """Return the syntax of what follows at `pos` in a tool's element: its end, a parameter in it, or JSON."""
    found = _CHILD.match(text, pos)
    if found is None and _JSON_MEMBER.match(text, pos):
        return _NAME_IN_TAG
    if found is None:
        return None if _PARTIAL_CHILD.match(text, pos) or _PARTIAL_JSON_MEMBER.match(text, pos) else False
    return (found["name"] == f"/{name}" or sink.has_parameter(name, found["name"])) and _ELEMENT_CALLS


def begins_with_argument(sink: CallSink, name: str, text: str, pos: int) -> bool:
    """Return whether JSON at `pos` begins with an argument of this tool, whatever the keys of a call are."""
    found = _FIRST_MEMBER.match(text, pos)
    return found is not None and found["parameter"] is not None and sink.has_parameter(name, found["parameter"])


def holds_elements(body: Body) -> bool:
    """Return whether a body is an element named like a tool."""
    return isinstance(body, ElementCalls)


def has_syntax(own: Body, body: Body) -> bool:
    """Return whether the syntax of `body` is one of those of a dialect's `own` body."""
    return any(isinstance(body, type(syntax)) for syntax in (own.bodies if isinstance(own, UnionBody) else (own,)))
