"""The calls of one JSON body: the members that are name and arguments, the start, the end, and the rejection of a call.

Theory of operation. The envelope says which member begins. A value that may stream goes to the sink; any other one is
collected, and judged at the end of the call's object (`defects`).

Rule: the start of a call is sent with the first character of its arguments; until then the body can become text. A
rejected call ends with an error if its name is an offered tool; otherwise it is text. Only members of the call's own
object count; `TypedArguments` handles the values inside the arguments.
"""

import json
from collections.abc import Callable

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.missing_brackets import has_unlisted_key
from fcshim.parse.arguments.scopes import ANYTHING, Members, SchemaMembers
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.typed import TypedArguments
from fcshim.parse.body import READING, BodyStatus
from fcshim.parse.call_keys import REMARK_KEYS
from fcshim.parse.json.defects import decode_object, find_defect
from fcshim.parse.limits import Limits
from fcshim.parse.readings.json_writer import JsonReading
from fcshim.parse.sink import CallSink

_CONTAINERS = frozenset('"{[')
_MAX_MEMBERS = 64
"""Keys that are compared with the parameters of the tool: more than most tools have."""


class JsonCalls:
    """Sends one call after the other, or nothing while `discarding`."""

    def __init__(self, reader: StrictJsonReader, sink: CallSink, limits: Limits) -> None:
        self.status = READING
        """What the body reports next."""
        self.refused = False
        """True if all calls of this body are text."""
        self.reading: JsonReading | None = None
        """The repaired text while that is read: the body ends with it."""
        self.end_pending = False
        """True if the end of a call must be reported after its rejection."""
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
        self.discarding = self.refused
        """True in a body that is not a call, or a call that must not run: it is read to its end without sending."""
        self._buffer.target = None
        self._reader.has_raw_break, self._reader.raw_controls = False, 0
        self.name: str | None = None
        self._follows_name = not self.has_arguments
        """True after a call that has a name and no arguments."""
        self.has_arguments = False
        self.members: dict[str, list[str]] = {}
        """Members that are neither the name nor the arguments nor known, with their values where those may be
        arguments."""
        self._started = False
        self._whole: list[str] = []
        """Arguments that cannot stream: those before the name, in a string, or no object."""
        self._on_string: Callable[[str], None] | None = None

    def arguments_of(self, name: str | None) -> Members:
        """Return what may stand in the arguments of a tool."""
        found = None if name is None else self._sink.tools.find(name)
        return ANYTHING if found is None else SchemaMembers(self._sink.tools.expectation_of(found))

    def _report(self, status: BodyStatus) -> None:
        if self.status is READING:
            self.status = status
            if self.reading is None:
                self._reader.stop = True

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
        if self.discarding:
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
        self._started = True
        self._sink.start(self.name)
        self._report(BodyStatus.STARTED)

    def sent_arguments(self) -> str:
        """Return the arguments that were read so far; before them, the values of members that may be arguments."""
        return self._read_arguments() or "".join(part for value in self.members.values() for part in value)

    def _read_arguments(self) -> str:
        whole = self._whole if self._whole[:1] == ["{"] and not self._started else ()
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
        if not self.discarding:
            if self.name is None and not self._take_named_member():
                self.check_previous(*self._buffer.closed_keys)
                self.discard()
            else:
                defect = self._take_members() or self._take_whole()
                if not self._started:
                    self._start()
                self.arguments.flush()
                if self._reader.has_backslash:
                    self._sink.escapes_doubtful = True
                defect = defect or find_defect(self._reader, self._sink, self.reading)
                if defect:
                    self._sink.fail("malformed", defect, "".join(self._whole))
                else:
                    self._sink.mark_complete()
        if self.status is BodyStatus.NOT_A_CALL:
            self.end_pending = True
        elif self.reading is None:
            self.status = BodyStatus.CALL_ENDED
            self._reader.stop = True

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
        if self._started:
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
        self._sink.finish()
        self._stop_sending()
        self._report(BodyStatus.NOT_A_CALL)

    def abandon(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """Reject the call: end it with an error if its name is an offered tool, else treat it as text.

        Raises `LimitError` if the arguments before the error are too long.
        """
        if self.discarding:
            return
        if self.name is None:
            self.check_previous(*self.members)
            self.discard()
            return
        self.arguments.flush()
        if not self._started:
            self._start()
        if self._sink.is_open:
            self._sink.fail(kind, message, raw)
        self._stop_sending()

    def _stop_sending(self) -> None:
        self.discarding = True
        self.arguments.end()
        self._buffer.target = self._on_string = None
        self._whole.clear()
