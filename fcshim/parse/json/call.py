"""The calls of one JSON body: the members that are name and arguments, the start, the end, and the rejection of a call.

Theory of operation. The envelope says which member begins. A value that may stream goes to the sink; any other one is
collected, and judged at the end of the call's object.

Rule: the start of a call is sent with the first character of its arguments; until then the body can become text. A
rejected call ends with an error if its name is an offered tool; otherwise it is text. Only members of the call's own
object count; `TypedArguments` handles the values inside the arguments.
"""

import json
from collections.abc import Callable

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.scopes import ANYTHING, Members, SchemaMembers
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.typed import TypedArguments
from fcshim.parse.backslashes import mixes_escapes
from fcshim.parse.body import BodyProgress, BodyStatus
from fcshim.parse.call_keys import OWN_KEYS, REMARK_KEYS
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.misplaced_arguments import ends_like_closer, has_unlisted_key, may_lack_inner_bracket
from fcshim.parse.readings.json_writer import JsonReading
from fcshim.parse.sink import CallSink

_CONTAINERS = frozenset('"{[')
_MAX_MEMBERS = 64
"""Keys that are compared with the parameters of the tool: more than most tools have."""


class JsonCalls:
    """Sends one call after the other, or nothing while `progress` says that it is discarded."""

    def __init__(self, reader: StrictJsonReader, sink: CallSink, limits: Limits) -> None:
        self.progress = BodyProgress(sink)
        self.reading: JsonReading | None = None
        """The repaired text while that is read: the body ends with it."""
        self.arguments = TypedArguments(reader.buffer, sink, limits)
        self.other_role = ""
        """The role of the message around the calls, where that repeats a conversation."""
        self._reader = reader
        self._buffer = reader.buffer
        self._sink = sink
        self._limits = limits
        self.has_arguments = True  # no call without arguments precedes the first one
        self.begin_next()

    def begin_next(self) -> None:
        """Begin the next call."""
        self.progress.begin_call()
        self._buffer.target = None
        self._reader.raw_controls.clear()
        self.name: str | None = None
        self._follows_name = not self.has_arguments
        """True after a call that has a name and no arguments."""
        self.has_arguments = False
        self.members: dict[str, list[str]] = {}
        """Members that are neither the name nor the arguments nor known, with their values where those may be
        arguments."""
        self._whole: list[str] = []
        """Arguments that cannot stream: those before the name, in a string, or no object."""
        self._on_string: Callable[[str], None] | None = None

    def arguments_of(self, name: str | None) -> Members:
        """Return what may stand in the arguments of a tool."""
        found = None if name is None else self._sink.tools.find(name)
        return ANYTHING if found is None else SchemaMembers(self._sink.tools.expectation_of(found))

    # The parts of a call.

    def begin_string(self, on_end: Callable[[str], None]) -> None:
        """Pass the string that begins to `on_end`, when it ends."""
        self._buffer.target, self._on_string = [], on_end

    def begin_member(self, key: str, first: str, *, is_kept: bool) -> None:
        """Begin a member that is not part of a call; `first` is the first character of its value, or a whole atom."""
        if len(self.members) < _MAX_MEMBERS:
            value = self.members[key] = list[str]()
            if is_kept and first in _CONTAINERS:
                self._buffer.target = value
            elif is_kept:
                value.append(first)

    def end_member(self) -> None:
        """End the value of a member."""
        target, self._buffer.target = self._buffer.target, None
        on_string, self._on_string = self._on_string, None
        if on_string is not None and target is not None:
            on_string(json.loads("".join(target)))

    def set_name(self, name: str) -> None:
        """Look up the tool; without one the call is text. A second name must not be that of another tool."""
        if self.progress.discarding:
            return
        if self.name is not None:
            if self._sink.tools.find(name) not in {None, self.name}:
                self.abandon("malformed", "the call has two names", name)
            return
        self.name = self._sink.resolve(name)
        if self.other_role:
            self.discard()
        elif self.name is None:
            self.check_previous(name)
            self.discard()
        elif self._whole[:1] == ["{"]:
            self._take_whole()

    def begin_arguments(self, first: str) -> None:
        """Read the arguments: their value begins with `first`."""
        self.has_arguments = first != "null"
        if first == "{" and self.name is not None:
            self._start()
            self._buffer.target = self.arguments.output
            self.arguments.begin(self._sink.expectation)
            self.arguments.on_value("{")
        elif first in _CONTAINERS:
            self._buffer.target = self._whole

    def _start(self) -> None:
        assert self.name is not None
        self._sink.start(self.name)
        self.progress.report_start()

    def sent_arguments(self) -> str:
        """Return the arguments that were read so far; before them, the values of members that may be arguments."""
        return self._read_arguments() or "".join(part for value in self.members.values() for part in value)

    def _read_arguments(self) -> str:
        whole = self._whole if self._whole[:1] == ["{"] and not self.progress.started else ()
        unsent = (*whole, *self.arguments.output, *(self.arguments.collected or ()))
        return self._sink.arguments() + "".join(unsent)

    def ends_with_string(self) -> bool:
        """Return whether the last value of the call is a string, which may be longer than it seems."""
        return self._whole[:1] == ['"'] or self.sent_arguments().rstrip(" \t\r\n}]").endswith('"')

    def has_unlisted_argument(self) -> bool:
        """Return whether the call has an argument that the schema does not list."""
        try:
            arguments = json.loads(self.sent_arguments())
        except ValueError:
            return False
        return has_unlisted_key(arguments, self._sink.expectation)

    def takes_parameter(self, key: str) -> bool:
        """Return whether the tool has this parameter."""
        return self.name is not None and key in self._sink.tools.parameter_names(self.name)

    def lacks_parameter(self, key: str) -> bool:
        """Return whether the tool has this parameter, and the call no such argument."""
        return self.takes_parameter(key) and key not in json.loads(self._read_arguments() or "{}")

    # The end of a call.

    def end(self) -> None:
        """End the object of a call. The call itself ends with the body."""
        if not self.progress.discarding:
            if self.name is None and not self._take_named_member():
                self.check_previous(*self._buffer.closed_keys)
                self.discard()
            else:
                defect = self._take_members() or self._take_whole()
                if not self.progress.started:
                    self._start()
                self.arguments.flush()
                if self._reader.has_backslash:
                    self._sink.escapes_doubtful = True
                defect = defect or self._find_defect()
                if defect:
                    self._sink.fail("malformed", defect, "".join(self._whole))
                else:
                    self._sink.mark_complete()
        if self.reading is None or self.progress.status is BodyStatus.NOT_A_CALL:
            self.progress.end_call()

    def _find_defect(self) -> str:
        """Return why the complete arguments are not certain, or an empty string."""
        sink, reading = self._sink, self.reading
        if self._reader.mixes_line_breaks(sink.arguments()):
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

    def check_previous(self, *keys: str) -> None:
        """Reject the call before an object that is not a call, if that may have arguments of it."""
        sink = self._sink
        if not sink.is_complete:
            return
        if self.has_arguments or self._follows_name or not set(keys).isdisjoint(sink.tools.parameter_names(sink.name)):
            self.reject_previous("arguments stand after the end of the call")

    def reject_previous(self, reason: str) -> None:
        """Reject the call that is complete: what follows may be a part of it."""
        if self._sink.is_complete:
            self._sink.fail("malformed", reason)

    def _take_named_member(self) -> bool:
        """Take the only member as the call if its key is the name of a tool, and its value an object."""
        if len(self.members) != 1 or len(self._buffer.closed_keys) != 1:
            return False
        ((key, self._whole),) = self.members.items()
        self.name = self._sink.tools.find(key) if self._whole[:1] == ["{"] else None
        self.has_arguments = self.name is not None
        if self.has_arguments:
            self.members.clear()
        return self.has_arguments

    def _take_members(self) -> str:
        """Take the members beside the name as the arguments, where all of them are parameters, and only they are.

        Beside the arguments, a member may be an argument too, or the condition of the call, unless it is a remark.
        Return why the call cannot run, or an empty string.
        """
        assert self.name is not None
        parameters, members = self._sink.tools.parameter_names(self.name), self.members
        if self.other_role:
            return f"the call is a message of the role {self.other_role}"
        if self.has_arguments and not members:
            return ""
        if self.has_arguments:
            is_known = not parameters or all(key.lower() in REMARK_KEYS and key not in parameters for key in members)
            values = ("".join(value) for value in members.values() if value[:1] == ["{"])
            is_taken = is_known and not any(self.lacks_parameter(key) for value in values for key in json.loads(value))
        else:
            is_taken = all(members.values()) and self._buffer.closed_keys.intersection(parameters) == members.keys()
            if is_taken:
                written = (f"{json.dumps(key)}: {''.join(value)}" for key, value in members.items())
                self._whole = ["{", ", ".join(written), "}"]
        return "" if is_taken else "arguments stand under no known key"

    def _take_whole(self) -> str:
        """Start the call with the arguments that did not stream; return why they are none, or an empty string."""
        if self.progress.started:
            return ""
        assert self.name is not None
        arguments: str | None = "".join(self._whole)
        if arguments and arguments[0] == '"':
            if self._sink.tools.takes_text(self.name):
                arguments = self._sink.tools.text_arguments(self.name, json.loads(arguments))
            else:
                arguments = decode_object(arguments, self._limits)
        if not arguments or arguments[0] != "{":
            return "the arguments are not an object"
        self._start()
        self.arguments.output.append(self.arguments.coerce_whole(arguments))
        return ""

    def discard(self) -> None:
        """Not a call: read to its end without sending."""
        self.progress.discard()
        self._stop_sending()

    def abandon(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """Reject the call: end it with an error if its name is an offered tool, else treat it as text.

        Raises `LimitError` if the arguments before the error are too long.
        """
        if self.progress.discarding:
            return
        if self.name is None:
            self.check_previous(*self.members)
            self.discard()
            return
        self.arguments.flush()
        if not self.progress.started:
            self._start()
        if self._sink.is_open:
            self._sink.fail(kind, message, raw)
        self.progress.discarding = "call"
        self._stop_sending()

    def _stop_sending(self) -> None:
        self.arguments.end()
        self._buffer.target = self._on_string = None
        self._whole.clear()


def decode_object(encoded: str, limits: Limits) -> str | None:
    """Return the strict JSON of the object in the JSON string `encoded`, or None; an empty string means `{}`."""
    inner: str = json.loads(encoded).strip() or "{}"
    if inner[0] != "{":
        return None
    reader = StrictJsonReader(compile_end_markers(()), limits)
    parts = reader.buffer.target = []
    try:
        reader.read_whole(inner)
    except (LimitError, NotStrictError):
        return None
    strict = "".join(parts)
    is_doubtful = reader.mixes_line_breaks(strict) or (reader.has_backslash and mixes_escapes(json.loads(strict)))
    return None if is_doubtful else strict
