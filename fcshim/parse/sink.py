"""Turns the calls that body readers find in one reply into events.

Rule: `start chunk* end` per call, ids from one source, and chunks that add up to the complete arguments.
"""

import json
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal

from fcshim.events import CallError, CallErrorKind, Coercion, Event, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Tool
from fcshim.parse.backslashes import mixes_escapes
from fcshim.parse.defect import Defect, ReportDefect
from fcshim.parse.misplaced_arguments import find_misplaced, holds_misplaced_word
from fcshim.parse.offered_names import OfferedNames
from fcshim.parse.tag_pairs import TagPairs
from fcshim.schema.expect import ANY, Expectation, compile_schema
from fcshim.schema.limits import StepLimit, StepLimitError
from fcshim.schema.validate import MAX_VALIDATION_STEPS, first_violation

ArgumentsMode = Literal["stream", "resumable", "validated", "checked"]
"""How arguments are sent. `stream`: as the model writes them. `validated`: whole, and a schema violation is an error.
`checked`: whole, and a schema violation is reported as a `Defect` and is no error. `resumable`: as the model writes
them, up to the first value that violates the schema; the reported `Defect` has the remainder. In `stream` and
`resumable`, calls that are sent whole because they may be quoted are sent as in `checked`."""
NAMESPACES = ("", "functions.", "tools.", "default_api.")
"""What models write before the name of a tool."""
_COERCION_STEPS = 30_000
"""Steps of all work on schemas in one reply but validation, at most 50 ms: hundreds of coerced values take a tenth.
Beyond it arguments stay as the model wrote them."""
_VALIDATION_STEPS = 2 * MAX_VALIDATION_STEPS
"""Steps of the validation of all calls in one reply."""
EXCERPT_SIZE = 200
"""The most characters of the model's text in an error."""
_QUOTE = re.compile(r'(?<!\\)(?>(?:\\\\)*)"')
"""A quotation mark of JSON that is not escaped."""


class _Repeats:
    """Finds calls that come twice because the model began a list again, with the calls before the broken one."""

    __slots__ = ("_accepted", "first_index")

    def __init__(self) -> None:
        self._accepted: set[int] = set()
        """The hashes of the calls that ended without error."""
        self.first_index = sys.maxsize
        """The index from which on calls may repeat accepted ones, up to the first call that does not."""

    def accept(self, index: int, name: str, arguments: str) -> bool:
        """Remember a call; return False for one that repeats an accepted one."""
        call = hash((name, arguments))
        if index >= self.first_index and call in self._accepted:
            return False
        if index >= self.first_index:
            self.first_index = sys.maxsize
        self._accepted.add(call)
        return True


class CallSink:
    """Builds the events of one call after the other; `events` is the list they are appended to (it may be replaced).

    Without `on_defect`, `checked` and `resumable` accept a schema violation.
    """

    # Without slots, CPython gives an object of 30 attributes a table of names of its own: 1.3 KB for each live stream.
    __slots__ = (
        "_arguments",
        "_beginnings",
        "_coerced",
        "_coercion_steps",
        "_deferred",
        "_escapes_doubtful",
        "_escapes_names",
        "_expectations",
        "_expected_tool",
        "_id",
        "_max_arguments",
        "_name",
        "_names",
        "_new_id",
        "_on_defect",
        "_parts",
        "_rejection",
        "_repeats",
        "_restarted_tool",
        "_sent_parts",
        "_size",
        "_tools",
        "_validates_call",
        "_validation_steps",
        "_withheld",
        "accepted_count",
        "buffered",
        "call_count",
        "events",
        "is_complete",
        "is_open",
        "restarts",
        "schema_enforced",
        "tag_pairs",
        "unoffered_name",
        "wrapper_tool",
    )

    def __init__(
        self,
        tools: Mapping[str, Tool] | None,
        arguments: ArgumentsMode,
        new_id: Callable[[], str],
        max_arguments: int,
        on_defect: ReportDefect | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.call_count = 0
        """Calls that were started; also the index of the next call."""
        self.accepted_count = 0
        """Calls that ended without error."""
        self.restarts = 0
        """Calls that were broken off and begun again."""
        self.tag_pairs: dict[tuple[str, ...], TagPairs] = {}
        """The tags in text that is held because of a restart: the bodies after that one may hold the same text."""
        self._tools = tools
        self._names: OfferedNames | None = None
        """Compiled at the first name that is not exactly that of a tool."""
        self._beginnings: list[str] | None = None
        """What a call in Python's syntax may begin with, sorted, once it is needed."""
        self._arguments = arguments
        self.schema_enforced = False
        """True if a grammar lets the model write only what the schema admits: calls of strict tools stream then, and
        are validated at their end, since some servers ignore a grammar."""
        self._validates_call = False
        self.buffered = False
        """True while the caller keeps events back: a call is then sent at its end, its arguments in one chunk."""
        self._new_id = new_id
        self._max_arguments = max_arguments
        self._on_defect = on_defect
        self.unoffered_name = ""
        """The last name that `resolve` was given, if it is not an offered tool."""
        self.wrapper_tool = ""
        """The tool that the tag around the next calls names."""
        self._id = ""
        self._name = ""
        self._parts: list[str] = []
        self._coerced: list[Coercion] = []
        self._rejection = self._expected_tool = self._restarted_tool = ""
        """Why the open call must not run although it is complete; and the tool of the call before it that was broken
        off in a string: what is begun there is a call of that tool, or content."""
        self._escapes_doubtful = self._escapes_names = False
        r"""True if a backslash of the open call is not an escape, so that others may be content, too; and after a name
        with `\_`: the model escapes underscores for Markdown, in strings too."""
        self._repeats = _Repeats()
        self._expectations: dict[str, Expectation] = {}
        self._coercion_steps = StepLimit(_COERCION_STEPS)
        self._validation_steps = StepLimit(_VALIDATION_STEPS)
        self._size = 0
        self._deferred = False
        """True if the whole call is sent at its end."""
        self._withheld = False
        """True while nothing of the open call is sent: it is deferred, or its arguments violate the schema."""
        self._sent_parts = 0
        """The number of parts that were sent before the remainder was withheld."""
        self.is_open = False
        """True between the start and the end of a call."""
        self.is_complete = False
        """True if the open call is complete; the next `finish` or `start` ends it without an error."""

    def resolve(self, name: str) -> str | None:
        """Return the offered tool that this name means (`OfferedNames`), or None."""
        found = self.find_tool(name)
        self.unoffered_name = "" if found is not None else name.strip()
        self._escapes_names = self._escapes_names or "\\_" in name
        return found

    def offers(self, name: str) -> bool:
        """Return whether this name means an offered tool."""
        return self.find_tool(name) is not None

    def has_parameter(self, name: str, parameter: str) -> bool:
        """Return whether the offered tool that `name` means has this parameter; True if the tools are not known."""
        tool = self.find_tool(name)
        return self._tools is None or (tool is not None and parameter in self.parameter_names(tool))

    def may_begin_call(self, prefix: str) -> bool:
        """Return whether `print` or the name of an offered tool, in the same spelling, begins like this."""
        if self._tools is None:
            return True
        if self._beginnings is None:
            self._beginnings = sorted(("print", *(f"{before}{name}" for before in NAMESPACES for name in self._tools)))
        at = bisect_left(self._beginnings, prefix)
        return at < len(self._beginnings) and self._beginnings[at].startswith(prefix)

    def offers_exactly(self, name: str) -> bool:
        """Return whether this is the name of an offered tool, in the same spelling."""
        return self._tools is None or any(name.removeprefix(namespace) in self._tools for namespace in NAMESPACES)

    def find_tool(self, name: str) -> str | None:
        """Return the offered tool that this name means, or None."""
        if self._tools is None:
            return name.strip() or None
        if name in self._tools:
            return name
        if self._names is None:
            self._names = OfferedNames(self._tools)
        return self._names.find(name)

    def begins_with_name(self, text: str) -> bool | None:
        """Return whether the first line of `text` is the name of an offered tool; None if more text is needed."""
        lines = [f"{name}\n" for name in self._tools or ()]
        if any(map(text.startswith, lines)):
            return True
        return None if any(line.startswith(text) for line in lines) else False

    @property
    def expectation(self) -> Expectation:
        """What the schema expects of the arguments of the open call."""
        return self.expectation_of(self._name)

    def expectation_of(self, name: str) -> Expectation:
        """Return what the schema expects of the arguments of this tool."""
        if self._tools is None:
            return ANY
        found = self._expectations.get(name)
        if found is None:
            found = self._expectations[name] = compile_schema(self._tools[name].parameters, self._coercion_steps)
        return found

    def parameter_names(self, name: str) -> tuple[str, ...]:
        """Return this tool's parameters in the order of its schema; an empty tuple if the tools are not known."""
        schema = None if self._tools is None else self._tools[name].parameters
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return tuple(properties) if isinstance(properties, dict) else ()

    @property
    def current_parameters(self) -> tuple[str, ...]:
        """The parameters of the tool of the open call, or of the last one."""
        return self.parameter_names(self._name)

    def add_coercions(self, coercions: Sequence[Coercion]) -> None:
        """Record what the schema coercion changed in the open call."""
        self._coerced.extend(coercions)

    def misplaces(self, words: Set[str]) -> bool:
        """Return whether one of the open call's `words` without quotes stands where the schema admits no string."""
        return bool(words) and holds_misplaced_word(self.arguments(), words, self._coerced, self.expectation)

    def begin_again(self) -> None:
        """Count a call that is begun again, after which accepted calls may come twice.

        In a string of it, another tool's call may be content.
        """
        self.restarts += 1
        self._repeats.first_index = self.call_count
        is_in_string = self.is_open and len(_QUOTE.findall(self.unfinished_arguments)) % 2
        self._restarted_tool = self._name if is_in_string else ""

    def reject(self, reason: str) -> None:
        """Let the open call end with the error `invalid`: one of its values cannot be read with certainty."""
        self._rejection = self._rejection or reason

    def doubt_escapes(self) -> None:
        """Let the open call end with the error `malformed` if an escape in it may be two characters."""
        self._escapes_doubtful = True

    def start(self, name: str) -> None:
        """Begin a call; the previous one ends first if it is complete."""
        self.finish()
        self._id, self._name, self._parts, self._size, self.is_open = self._new_id(), name, [], 0, True
        self._coerced, self._rejection, self._escapes_doubtful = [], "", False
        self._expected_tool, self._restarted_tool = self._restarted_tool, ""
        self._validates_call = self._is_strict(name)
        self._deferred = self._withheld = (
            self._validates_all
            or (self._validates_call and not self.schema_enforced)
            or self.buffered
            or self.call_count >= self._repeats.first_index
            or self.takes_text(name)
        )
        if not self._deferred:
            self.events.append(ToolCallStart(self._id, name, self.call_count))
        self.call_count += 1

    def fits(self, size: int) -> bool:
        """Return whether that many further characters of arguments are within the limit."""
        return self._size + size <= self._max_arguments

    def add_chunk(self, text: str) -> bool:
        """Add a fragment of the arguments; return False if they exceed the limit, after dropping what is beyond it."""
        size = self._size + len(text)
        if size > self._max_arguments:
            self.add_chunk(text[: self._max_arguments - self._size])
            return False
        self._size = size
        self._parts.append(text)
        if text and not self._withheld:
            self.events.append(ToolCallChunk(self._id, text, self.call_count - 1))
        return True

    def arguments(self) -> str:
        """Return the arguments of the open call so far."""
        return "".join(self._parts) if self.is_open else ""

    @property
    def unfinished_arguments(self) -> str:
        """The arguments of the open call, as far as they were written."""
        return "".join(self._parts)

    @property
    def _validates_all(self) -> bool:
        return self._arguments in {"validated", "checked"}

    @property
    def can_withhold(self) -> bool:
        """True if a schema violation should stop the sending of the open call's arguments."""
        return self._arguments == "resumable" and not self._withheld

    def withhold_rest(self) -> None:
        """Stop sending the open call's arguments: a retry can then complete those that were sent in a valid way."""
        self._withheld = True
        self._sent_parts = len(self._parts)

    @property
    def _rest_withheld(self) -> bool:
        """True if a schema violation stopped the sending of the open call's arguments."""
        return self._withheld and not self._deferred

    @property
    def _reports_violation(self) -> bool:
        """True if a schema violation of the open call is a `Defect` and no error.

        While a call streams, only `resumable` looks for violations; a call that is sent whole is checked at its end.
        """
        if self._rest_withheld:
            return not self._validates_call
        sent_whole = self._deferred and self._on_defect is not None and self._arguments != "validated"
        return (self._arguments == "checked" or sent_whole) and not self._validates_call

    def mark_complete(self) -> None:
        """Record that the open call is complete; the text after it decides whether it may be executed."""
        self.is_complete = self.is_open

    def finish(self) -> None:
        """End the open call without an error if it is complete: it may be executed."""
        if self.is_complete:
            self._end()

    def fail_truncated(self, message: str) -> None:
        """End the open call, complete or not, with the error `truncated`."""
        if self.is_open:
            self._send_withheld()
            self.fail("truncated", message)

    def reset(self, call_count: int, accepted_count: int) -> None:
        """Drop the calls started since these counts: they are quoted text, or come a second time."""
        self.call_count, self.accepted_count = call_count, accepted_count
        self.is_open = self.is_complete = False

    def _end(self) -> None:
        if self.takes_text(self._name):
            self._rename_text()
        arguments = "".join(self._parts)
        error = self._find_error(arguments)
        if error is not None:
            self.fail(*error)
            return
        if not self._repeats.accept(self.call_count - 1, self._name, arguments):
            self.reset(self.call_count - 1, self.accepted_count)
            return
        reports = self._reports_violation
        try:
            is_validated = self._validates_all or self._validates_call or reports
            fault = self._find_violation(arguments) if is_validated else None
        except StepLimitError:
            # Unchecked arguments pass only where a violation would be no error.
            if not reports and (self._validates_all or not self.schema_enforced):
                self.fail("limit", f"arguments and schema of {self._name} are too large to be checked", arguments)
                return
            fault = None
        if fault is not None and not reports:
            self.fail("invalid", fault, arguments)
            return
        if fault is None or self._on_defect is None:
            # The incremental check rejects some values that the whole schema admits; the validator decides.
            self._send_withheld()
        else:
            unsent = "".join(self._parts[self._sent_parts :]) if self._rest_withheld else ""
            self._on_defect(Defect("invalid", self._name, self._id, fault, unsent))
        self._send_deferred(arguments)
        self.events.append(ToolCallEnd(self._id, self._name, arguments, self.call_count - 1, self._coerced))
        self.is_open = self.is_complete = False
        self.accepted_count += 1

    def _find_error(self, arguments: str) -> tuple[CallErrorKind, str, str] | None:
        """Return why the complete call must not run: the kind of the error, its message and what it quotes."""
        if self._rejection:
            return "invalid", self._rejection, ""
        if self._has_doubtful_escape(arguments):
            return "malformed", "a backslash may be content or a part of an escape, of JSON or Markdown", ""
        if self._expected_tool not in {"", self._name}:
            return "malformed", "a call that a value quotes, or one of another tool after a broken one", arguments
        misplaced = self._find_misplaced(arguments)
        return ("malformed", misplaced, arguments) if misplaced else None

    def _has_doubtful_escape(self, arguments: str) -> bool:
        """Return whether a backslash in the strings has two readings."""
        if self._escapes_names and r"\\_" in arguments:
            return True
        return self._escapes_doubtful and mixes_escapes(json.loads(arguments))

    def fail(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """End the call with an error: it must not be executed. The error quotes `raw`, or the end of the arguments."""
        if self._rest_withheld:
            del self._parts[self._sent_parts :]
        arguments = "".join(self._parts)
        self._send_deferred(arguments)
        error = CallError(kind, message, raw[:EXCERPT_SIZE] or arguments[-EXCERPT_SIZE:])
        self.events.append(ToolCallEnd(self._id, self._name, arguments, self.call_count - 1, self._coerced, error))
        self.is_open = self.is_complete = False

    def _send_withheld(self) -> None:
        """Send the withheld arguments, because the violation no longer matters."""
        if self._rest_withheld:
            self._withheld = False
            unsent = "".join(self._parts[self._sent_parts :])
            if unsent:
                self.events.append(ToolCallChunk(self._id, unsent, self.call_count - 1))

    def _send_deferred(self, arguments: str) -> None:
        """Send the start and the arguments of a deferred call."""
        if self._deferred:
            self.events.append(ToolCallStart(self._id, self._name, self.call_count - 1))
            if arguments:
                self.events.append(ToolCallChunk(self._id, arguments, self.call_count - 1))

    def takes_text(self, name: str) -> bool:
        """Return whether this tool is a custom one, which takes one text."""
        return self._tools is not None and name in self._tools and self._tools[name].custom

    def takes_text_by(self, name: str) -> bool:
        """Return whether the offered tool that `name` means is a custom one."""
        tool = self.find_tool(name)
        return tool is not None and self.takes_text(tool)

    def text_arguments(self, name: str, text: str) -> str:
        """Return the arguments of a custom tool for the text that was written in their place.

        A text that is the JSON of these arguments stands for them.
        """
        parameter = self.parameter_names(name)[0]
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        wrapped = isinstance(value, dict) and value.keys() == {parameter} and isinstance(value[parameter], str)
        return text if wrapped else json.dumps({parameter: text}, ensure_ascii=False)

    def _rename_text(self) -> None:
        """Give the only argument of a custom tool its name; reject the call if it is not one text."""
        value = json.loads("".join(self._parts))
        parameter = self.parameter_names(self._name)[0]
        match list(value.items()):
            case [(str(name), str(text))]:
                if name != parameter:
                    self._parts = [json.dumps({parameter: text}, ensure_ascii=False)]
                    self._coerced.append(Coercion("", value, {parameter: text}))
            case _:
                self.reject(f"{self._name} takes one text, the string {parameter!r}")

    def _find_misplaced(self, arguments: str) -> str:
        """Return why these are not the arguments of the open call; empty if nothing shows that."""
        if self._tools is None:
            return ""
        if self.wrapper_tool not in {"", self._name}:
            return "the tag around the call names another tool"
        return find_misplaced(arguments, self.parameter_names(self._name), self.expectation)

    def _is_strict(self, name: str) -> bool:
        return self._tools is not None and name in self._tools and self._tools[name].strict

    def _find_violation(self, arguments: str) -> str | None:
        tool = self._tools.get(self._name) if self._tools is not None else None
        if tool is None:
            return None
        return first_violation(
            tool.parameters, json.loads(arguments), self._validation_steps.part(MAX_VALIDATION_STEPS)
        )
