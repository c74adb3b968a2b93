"""Select the syntax of a call by its first characters, where the marker before it does not determine the syntax.

Rule: a bounded number of characters is examined; only a known key or the name of an offered tool begins a body. Of the
syntaxes of one dialect the first that can begin here is selected; from then on its reader does all the work.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from fcshim.parse.body import BodyReader, BodyStatus, DelegatingReader
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.limits import Limits
from fcshim.parse.literals.python_body import PythonCalls
from fcshim.parse.markers import named_tool
from fcshim.parse.scanner import WORD, Scanner, decided
from fcshim.parse.sink import CallSink
from fcshim.parse.tagged.syntax import ElementCalls, TaggedCalls, TextCalls, element_tags
from fcshim.parse.tagged.tags import Tag


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

        def choose(text: str, pos: int) -> tuple[BodyReader, int] | BodyStatus:
            body = self.select(text, pos)
            if body is None or isinstance(body, bool):
                return BodyStatus.READING if body is None else BodyStatus.NO_BODY
            return body.reader(replace(dialect, body=body), start_marker, sink, limits), pos

        return DelegatingReader(choose)


_Selected: TypeAlias = Body | Literal[False]
"""A syntax, or False for none; the functions raise `MoreNeeded` where the text does not decide."""

_NAME_PATTERN = r"(?P<name>[^\W\d][\w.:-]{0,127}+)"
_SPACE_PATTERN = r"[ \t\r\n]{0,64}+"
_NAME = re.compile(_NAME_PATTERN)
_BLANKS = re.compile(r"[ \t]{0,8}+")
_LANGUAGE = re.compile(rf"[a-z_]{{0,16}}+{_SPACE_PATTERN}")
_QUOTED = re.compile(r"[^\"'“”\n]{1,128}+")
_ATTRIBUTE = re.compile(r"\s([\w.-]{1,64})=")
_BRACES = ("{", "｛")
_QUOTES = ('"', "'", "“", "”")
_PRINT = ("print(", "print (", "print\t(")
_TAG_ENDS = (">", " >", "/>", " />")
_NAME_TAGS = ("<name>", "<tool_name>", "<function_name>", "<function>", "<tool>")
_ARGUMENT_TAGS = ("<arguments>", "<parameters>", "<args>", "<params>", "<input>", "<tool_input>", "<kwargs>")
_PARAMETER_TAGS = ("<arg_key>", "<parameter=", "<parameter ", "<parameter>", "<param ")
"""What begins a call whose arguments stand in tags, in the line after the name; no text of a custom tool."""
_JSON = JsonShape(keyed=True)
_NAMES_AS_KEYS = JsonShape(name_is_key=True)
_PYTHON_CALLS = PythonCalls()
_LINE_OF_PYTHON = PythonCalls(alone=True)
_ELEMENT_CALLS = ElementCalls()
_ATTRIBUTE_CALLS = ElementCalls(attributes=True)
_CUSTOM_TEXT = TextCalls()
_TEXT_AFTER_TAG = TextCalls(in_marker=True)
_NAME_AND_JSON = HeaderShape(rf"{_SPACE_PATTERN}{_NAME_PATTERN}(?:\[ARGS\])?{_SPACE_PATTERN}(?=[{{｛])", lines=64)
_NAME_IN_ELEMENT = HeaderShape(
    rf"{_SPACE_PATTERN}<(?P<tag>\w{{4,13}})>{_SPACE_PATTERN}{_NAME_PATTERN}{_SPACE_PATTERN}</(?P=tag)>"
    rf"{_SPACE_PATTERN}<\w{{4,10}}>{_SPACE_PATTERN}(?=[{{｛])",
    lines=64,
)
_CALLS_IN_ELEMENTS = {
    tag: TaggedCalls(replace(element_tags(""), call=Tag(tag, end=f"</{tag[1:]}"), call_close="</call>"))
    for tag in _NAME_TAGS
}
"""By its tag, the syntax of a call whose name stands in an element of its own, and each argument in one, too."""
_NAME_IN_TAG = HeaderShape(rf"{_SPACE_PATTERN}(?=[{{｛])", lines=64, name_in="marker")


def select_named_body(sink: CallSink, text: str, pos: int) -> _Selected:
    """Return the syntax of the body at `pos` that begins with an offered tool's name."""
    scan = Scanner(text, pos)
    scan.take()
    if scan.peek() == "<":
        return _select_name_element(sink, scan)
    start = scan.pos
    if scan.skip("```"):
        scan.take(_LANGUAGE)
    if scan.skip(*_PRINT) or scan.peek() == "[":
        scan.skip("[[", "[")
        scan.take()
    is_header = scan.pos == start
    name = scan.take(_NAME)
    space = name and scan.take()
    if not name or not (is_header or scan.peek() == "("):
        return False
    if scan.peek() == "(":
        return "\n" not in space and sink.tools.offers(name) and _PYTHON_CALLS
    if scan.peek() in _BRACES:
        return sink.tools.offers(name) and _NAME_AND_JSON
    return "\n" in space and sink.tools.takes_text(name) and not scan.skip(*_PARAMETER_TAGS) and _CUSTOM_TEXT


def _select_name_element(sink: CallSink, scan: Scanner) -> _Selected:
    """Return the syntax of a call whose name stands in an element of its own, and the arguments in the next one."""
    tag = scan.skip(*_NAME_TAGS)
    scan.take()
    name = tag and scan.take(_NAME)
    scan.take()
    if not name or not scan.skip(f"</{tag[1:]}"):
        return False
    scan.take()
    if not scan.skip(*_ARGUMENT_TAGS):
        return False
    scan.take()
    if scan.skip(*_BRACES):
        return sink.tools.offers(name) and _NAME_IN_ELEMENT
    parameter = scan.skip("<") and scan.take(WORD)
    if not parameter or not scan.skip(*_TAG_ENDS):
        return False
    return sink.tools.offers_exactly(name) and sink.tools.has_parameter(name, parameter) and _CALLS_IN_ELEMENTS[tag]


def select_body(sink: CallSink, text: str, pos: int) -> _Selected:
    """Return the syntax of the body at `pos`, or False if no call begins there."""
    named = select_named_body(sink, text, pos)
    begins = not named and decided(_JSON.begins(text, pos))
    return _JSON if begins else named


def select_arguments(sink: CallSink, tag: str, text: str, pos: int) -> _Selected:
    """Return the syntax of the arguments at `pos`, if a tool's name is an attribute of the tag before them."""
    tool = sink.tools.find(named_tool(tag))
    # Another attribute than the tool's name and the call's id may be an argument.
    attributes = set(_ATTRIBUTE.findall(tag)) - {"name", "id", "type", "index"}
    if tool is None or not attributes.isdisjoint(sink.tools.parameter_names(tool)):
        return False
    scan = Scanner(text, pos)
    scan.take()
    if scan.peek() in _BRACES:
        return _NAME_IN_TAG
    return sink.tools.takes_text(tool) and scan.peek() != "<" and _TEXT_AFTER_TAG


def select_line(sink: CallSink, text: str, pos: int, *, quoted: bool) -> _Selected:
    """Return the syntax of the call that begins at `pos`, the start of a line or of a code span (`quoted`)."""
    scan = Scanner(text, pos)
    is_header = not scan.skip(*_PRINT) and not scan.skip("[")
    name = _take_exact_name(sink, scan)
    if not name:
        return text[pos] in "{[｛［" and bool(decided(_JSON.begins(text, pos))) and _JSON
    if is_header and scan.skip("[ARGS]"):
        scan.take()
        return scan.peek() in _BRACES and _NAME_AND_JSON
    scan.take(_BLANKS)
    if scan.peek() == "(":
        return _PYTHON_CALLS if quoted else _LINE_OF_PYTHON
    if scan.skip("\n", "\r\n"):
        scan.take(_BLANKS)
    return is_header and _takes_object(sink, name, scan) and _NAME_AND_JSON


def _take_exact_name(sink: CallSink, scan: Scanner) -> str:
    """Read the name of an offered tool, in the same spelling; return an empty string if none can stand here."""
    found = _NAME.match(scan.text, scan.pos)
    if found is not None and not sink.tools.may_begin_call(found[0]):
        return ""
    name = scan.take(_NAME)
    return name if name and sink.tools.offers_exactly(name) else ""


def _takes_object(sink: CallSink, name: str, scan: Scanner) -> bool:
    """Return whether an object stands here that has no members, or begins with an argument of this tool."""
    member = _first_member(scan)
    return member is not None and (not member or sink.tools.has_parameter(name, member))


def _first_member(scan: Scanner) -> str | None:
    """Read the beginning of an object; return its first key, an empty string if it has none, None for no object."""
    if not scan.skip(*_BRACES):
        return None
    scan.take()
    if scan.skip("}", "｝"):
        return ""
    is_quoted = scan.skip(*_QUOTES)
    key = scan.take(_QUOTED if is_quoted else WORD)
    return key if key and scan.skip(*(_QUOTES if is_quoted else (":", " :", "\t:"))) else None


def select_name_as_key(sink: CallSink, text: str, pos: int) -> _Selected:
    """Return the syntax of an object whose first key is an offered tool, with the arguments as its value."""
    scan = Scanner(text, pos + 1)
    scan.take()
    name = scan.skip('"') and _take_exact_name(sink, scan)
    if not name or not scan.skip('"'):
        return False
    scan.take()
    if not scan.skip(":"):
        return False
    scan.take()
    return _takes_object(sink, name, scan) and _NAMES_AS_KEYS


def select_element(sink: CallSink, text: str, pos: int) -> tuple[Body, str, str] | Literal[False]:
    """Return the syntax and the tags of the element at `pos` that is named like an offered tool.

    In angle or square brackets, its first attribute may be an argument of the tool.
    """
    scan = Scanner(text, pos)
    bracket = scan.skip("<", "[")
    name = scan.take(WORD) if bracket == "<" else bracket and _take_exact_name(sink, scan)
    if not name:
        return False
    if bracket == "<" and (tag_end := scan.skip(*_TAG_ENDS)):
        tag = text[pos : scan.pos]
        body = sink.tools.offers(name) and (_ELEMENT_CALLS if "/" in tag_end else _select_content(sink, name, scan))
        return body if isinstance(body, bool) else (body, tag, f"</{name}>")
    if not sink.tools.offers_exactly(name) or not scan.skip(" ", "\t"):
        return False
    tag = text[pos : scan.pos]
    scan.take(_BLANKS)
    key = scan.take(WORD)
    return scan.peek() == "=" and sink.tools.has_parameter(name, key) and (_ATTRIBUTE_CALLS, tag, f"</{name}>")


def _select_content(sink: CallSink, name: str, scan: Scanner) -> _Selected:
    """Return the syntax of what follows in a tool's element: its end, a parameter in it, or JSON."""
    scan.take()
    if scan.skip(*_BRACES):
        scan.take()
        return scan.peek() in _QUOTES and _NAME_IN_TAG
    bracket = scan.skip("</", "<")
    child = bracket and scan.take(WORD)
    is_content = child == name if bracket == "</" else sink.tools.has_parameter(name, child)
    return bool(child) and scan.peek() in " />" and is_content and _ELEMENT_CALLS


def begins_with_argument(sink: CallSink, name: str, text: str, pos: int) -> bool:
    """Return whether JSON at `pos` begins with an argument of this tool, whatever the keys of a call are."""
    scan = Scanner(text, pos)
    scan.take()
    key = _first_member(scan)
    return bool(key) and sink.tools.has_parameter(name, key or "")


def holds_elements(body: Body) -> bool:
    """Return whether a body is an element named like a tool."""
    return isinstance(body, ElementCalls)


def has_syntax(own: Body, body: Body) -> bool:
    """Return whether the syntax of `body` is one of those of a dialect's `own` body."""
    return any(isinstance(body, type(syntax)) for syntax in (own.bodies if isinstance(own, UnionBody) else (own,)))
