"""The calls of one JSON body: the members that are name and arguments, the start, the end, and the rejection of a call.

Rule: the start of a call is sent with the first character of its arguments; until then the body can become text. A
rejected call ends with an error if its name is an offered tool; otherwise it is text. Only members of the call's own
object count; `TypedArguments` handles the values inside the arguments.
"""

import json
import re

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.missing_brackets import ends_like_closer, has_unlisted_key, may_lack_inner_bracket
from fcshim.parse.arguments.scopes import ANYTHING, Members, SchemaMembers
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.arguments.typed import TypedArguments
from fcshim.parse.backslashes import mixes_escapes
from fcshim.parse.body import READING, BodyStatus
from fcshim.parse.call_keys import OTHER_ROLES, OWN_KEYS, REMARK_KEYS
from fcshim.parse.limits import Limits
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.readings.json import read_json
from fcshim.parse.readings.steps import NoReadingError
from fcshim.parse.sink import CallSink
from fcshim.schema.expect import ANY

_CALL_IN_TEXT = re.compile(r'\s{0,8}\{\s{0,8}"(?:name"\s{0,8}:\s{0,8}")?([^\W\d][\w.-]{0,127})"')
"""A call in JSON as the text of a message."""


class JsonCalls:
    """Sends one call after the other, or nothing while `discarding`."""

    def __init__(self, reader: StrictJsonReader, sink: CallSink, limits: Limits) -> None:
        self.status = READING
        """What the body reports next."""
        self._refused = False
        """True if all calls of this body are text."""
        self.repairing = False
        """True while repaired text is read: the body ends with it."""
        self.end_pending = False
        """True if the end of a call must be reported after its rejection."""
        self.arguments = TypedArguments(reader.buffer, sink, limits)
        self._reader = reader
        self._buffer = reader.buffer
        self._sink = sink
        self._limits = limits
        self._role_parts: list[str] = []
        """The role of the message around the calls."""
        self.has_arguments = True  # no call without arguments precedes the first one
        self.lacks_brackets = False
        """True if closing brackets are missing at the end of the body."""
        self.words: frozenset[str] = frozenset()
        """Strings of the body that stood without quotes."""
        self.begin_next()

    def begin_next(self) -> None:
        """Begin the next call."""
        self.discarding = self._refused
        """True in a body that is not a call, or a call that must not run: it is read to its end without sending."""
        self._buffer.target = None
        self._reader.has_raw_break, self._reader.raw_controls = False, 0
        self.name: str | None = None
        self._follows_name = not self.has_arguments
        """True after a call that has a name and no arguments."""
        self.has_arguments = False
        self.unknown_members: dict[str, list[str]] = {}
        """Members that are neither the name nor the arguments nor known: the arguments may stand in them."""
        self._started = False
        self._name_parts: list[str] = []
        self._encoded_arguments: list[str] = []
        self._message_text: list[str] = []
        """The text of a message around the calls."""
        self._early_arguments: list[str] = []
        """Arguments before the name."""

    def arguments_of(self, name: str | None) -> Members:
        """Return what may stand in the arguments of a tool."""
        found = None if name is None else self._sink.find_tool(name)
        return ANYTHING if found is None else SchemaMembers(self._sink.expectation_of(found))

    def _report(self, status: BodyStatus) -> None:
        if self.status is READING:
            self.status = status
            if not self.repairing:
                self._reader.stop = True

    # The parts of a call.

    def add_unknown_key(self, key: str) -> None:
        """Record a member that is not part of a call."""
        if len(self.unknown_members) < _MAX_UNKNOWN_KEYS:
            self.unknown_members[key] = []

    def add_nested_key(self, key: str) -> None:
        """Record a key in the object of such a member: arguments may stand in it."""
        if self.has_arguments and self.lacks_parameter(key):
            self.add_unknown_key(key)

    def begin_unknown_member(self, key: str, first: str) -> None:
        """Keep the value of such a member, which begins with `first`: it may be an argument, or all of them."""
        if self.has_arguments or self._early_arguments:
            return
        if first in _OPENINGS:
            self._buffer.target = self.unknown_members[key]
        else:
            self.unknown_members[key].append(first)

    def end_member(self) -> None:
        """End the value of a member."""
        self._buffer.target = None

    def begin_name(self) -> None:
        """Read the name: its string begins."""
        self._buffer.target = self._name_parts = []

    def begin_message_text(self) -> None:
        """Read the text of a message: its string begins."""
        self._buffer.target = self._message_text

    def begin_role(self) -> None:
        """Read the role of a message: its string begins."""
        self.unknown_members.pop("role", None)
        self._buffer.target = self._role_parts = []

    def may_be_parameter(self, key: str) -> bool:
        """Return whether the tool, or any tool where none is known yet, has this parameter."""
        return self._sink.has_any_parameter(key) if self.name is None else key in self._sink.parameter_names(self.name)

    def _is_of_others(self) -> bool:
        """Return whether the message is one of the user, of the system or of a tool: it repeats a conversation."""
        role = "".join(self._role_parts).strip('"').lower()
        return role in OTHER_ROLES

    def end_string(self) -> None:
        """Take the name or the encoded arguments, if one of them has ended."""
        target = self._buffer.target
        if target is None:
            return
        self._buffer.target = None
        if target is self._name_parts:
            self.set_name(json.loads("".join(target)))
        elif target is self._message_text and (text := json.loads("".join(target))):
            call = _CALL_IN_TEXT.match(text)
            if call is not None and self._sink.offers_exactly(call[1]) and not self._is_of_others():
                self._sink.wrapper_tool = call[1]  # so that the rejected call is reported
            self.discard()

    def set_name(self, name: str) -> None:
        """Look up the tool; without one the call is text."""
        if self.discarding:
            return
        if self.name is not None:
            self._check_second_name(name)
            return
        self.name = self._sink.resolve(name)
        if self._is_of_others():
            self.discard()
        elif self.name is None:
            self.check_previous(name)
            self.discard()
        elif self._early_arguments:
            self._start()
            self._send_whole("".join(self._early_arguments))

    def _check_second_name(self, name: str) -> None:
        """Reject a call with the names of two tools; a word that names no tool says nothing."""
        if self._sink.find_tool(name) not in {None, self.name}:
            self.abandon("malformed", "the call has two names", name)

    def begin_arguments(self, first: str) -> None:
        """Read the arguments: their value begins with `first`."""
        self.has_arguments = first != "null"
        if first == "{":
            self._begin_object()
        elif first == '"':
            self._buffer.target = self._encoded_arguments
        elif first != "null":
            self.abandon("malformed", "the arguments are not an object", first)

    def _begin_object(self) -> None:
        if self.name is None:
            self._buffer.target = self._early_arguments
            self.arguments.begin(ANY)
        else:
            self._start()
            self._buffer.target = self.arguments.output
            self.arguments.begin(self._sink.expectation)
        self.arguments.on_value("{")

    def _start(self) -> None:
        assert self.name is not None
        self._started = True
        self._sink.start(self.name)
        self._report(BodyStatus.STARTED)

    def _send_whole(self, arguments: str) -> None:
        self.arguments.output.append(self.arguments.coerce_whole(arguments))

    def sent_arguments(self) -> str:
        """Return the arguments that were read so far; before them, the values of members that may be arguments."""
        arguments = self._read_arguments()
        return arguments or "".join(part for value in self.unknown_members.values() for part in value)

    def _read_arguments(self) -> str:
        unsent = (*self._early_arguments, *self.arguments.output, *(self.arguments.collected or ()))
        return self._sink.arguments() + "".join(unsent)

    def ends_with_string(self) -> bool:
        """Return whether the last value of the call is a string, which may be longer than it seems."""
        return bool(self._encoded_arguments) or self.sent_arguments().rstrip(" \t\r\n}]").endswith('"')

    def has_unlisted_argument(self) -> bool:
        """Return whether the call has an argument that the schema does not list."""
        try:
            arguments = json.loads(self.sent_arguments())
        except ValueError:
            return False
        return has_unlisted_key(arguments, self._sink.expectation)

    def takes_parameter(self, key: str) -> bool:
        """Return whether the tool has this parameter."""
        return self.name is not None and key in self._sink.parameter_names(self.name)

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
                self._complete()
        if self.status is BodyStatus.NOT_A_CALL:
            self.end_pending = True
        elif not self.repairing:
            self.status = BodyStatus.CALL_ENDED
            self._reader.stop = True

    def check_previous(self, *keys: str) -> None:
        """Reject the call before an object that is not a call, if that has arguments or parameters of its tool."""
        if not self._sink.is_complete:
            return
        if self._follows_name or self.has_arguments or not set(keys).isdisjoint(self._sink.current_parameters):
            self._sink.fail("malformed", "arguments stand after the end of the call")

    def reject_previous(self) -> None:
        """Reject the call before a string in a list of calls: it may be the key of a member of that call."""
        if self._sink.is_complete:
            self._sink.fail("malformed", "a string stands after the call")

    def _complete(self) -> None:
        """Send the arguments that were not sent yet, and complete the call, or reject it."""
        if self._is_of_others():
            self.abandon("malformed", "the call is a message of another role")
        elif not self._settle_members():
            self.abandon("malformed", "arguments stand under no known key")
        elif self._started or self._send_encoded_arguments():
            self.arguments.flush()
            if self._reader.has_backslash:
                self._sink.doubt_escapes()
            defect = self._defect()
            if defect:
                self._sink.fail("malformed", defect)
            else:
                self._sink.mark_complete()

    def _send_encoded_arguments(self) -> bool:
        """Start the call with arguments in a string, or with none; return whether they are an object."""
        self._start()
        encoded = "".join(self._encoded_arguments)
        arguments = self._decode_arguments(encoded) if encoded else "{}"
        if arguments is None:
            self._sink.fail("malformed", "the arguments are not an object", encoded)
            return False
        self._send_whole(arguments)
        return True

    def _defect(self) -> str:
        """Return why the arguments are not certain, or an empty string."""
        if self._reader.mixes_line_breaks(self._sink.unfinished_arguments):
            return "a string with line breaks and escapes, which may be content"
        if self.lacks_brackets and self._may_lack_inner_bracket():
            return "a bracket is missing before a parameter or at the end"
        return "a word that the schema does not admit" if self._sink.misplaces(self.words) else ""

    def reject_surplus_brace(self) -> None:
        """Reject the call that is complete if a brace too many may have ended one of its objects too early."""
        if self._sink.is_complete and self.has_unlisted_argument():
            self._sink.fail("malformed", "a bracket too many, before or after an argument that the tool does not have")

    def _take_named_member(self) -> bool:
        """Take the only member as the call if its key is the name of a tool, and its value an object."""
        if len(self.unknown_members) != 1 or len(self._buffer.closed_keys) != 1:
            return False
        ((key, value),) = self.unknown_members.items()
        if value[:1] != ["{"]:
            return False
        self.name = self._sink.find_tool(key)
        if self.name is None:
            return False
        self._send_members("".join(value))
        return True

    def _settle_members(self) -> bool:
        """Take the members beside the name as the arguments, where all of them are parameters, and only they are.

        Beside the arguments, a member may be an argument too, or the condition of the call, unless it is a remark.
        """
        assert self.name is not None
        parameters, unknown = self._sink.parameter_names(self.name), self.unknown_members
        if self.has_arguments or self._early_arguments:
            is_known = not parameters or all(key.lower() in REMARK_KEYS and key not in parameters for key in unknown)
            return is_known and not self._holds_argument()
        if not all(unknown.values()) or self._buffer.closed_keys.intersection(parameters) != unknown.keys():
            return False
        if not unknown:
            return True
        members = (f"{json.dumps(key)}: {''.join(value)}" for key, value in unknown.items())
        self._send_members(f"{{{', '.join(members)}}}")
        return True

    def _holds_argument(self) -> bool:
        """Return whether the object of a member before the arguments has an argument that the call lacks."""
        values = ("".join(value) for value in self.unknown_members.values() if value[:1] == ["{"])
        return any(self.lacks_parameter(key) for value in values for key in json.loads(value))

    def _send_members(self, arguments: str) -> None:
        self.unknown_members.clear()
        self._start()
        self._send_whole(arguments)

    def _may_lack_inner_bracket(self) -> bool:
        """Return whether the missing bracket may belong inside the arguments, or before one of the call's members."""
        arguments, expected = json.loads(self._sink.arguments()), self._sink.expectation
        own = any(key in OWN_KEYS and not expected.lists_member(key) for key in arguments)
        return own or ends_like_closer(arguments) or may_lack_inner_bracket(arguments, expected)

    def _decode_arguments(self, encoded: str) -> str | None:
        """Return the arguments that were written as a JSON string; None if they are not an object.

        The string is the text itself where the tool takes one.
        """
        assert self.name is not None
        if self._sink.takes_text(self.name):
            return self._sink.text_arguments(self.name, json.loads(encoded))
        return decode_object(encoded, self._limits)

    def refuse(self) -> None:
        """Treat this call and all later calls as text."""
        self._refused = True
        self.discard()

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
            self.check_previous(*self.unknown_members)
            self.discard()
            return
        self.arguments.flush()
        if not self._started:
            self._start()
        if self._sink.is_open:
            self._sink.fail(kind, message, raw)
        self._stop_sending()

    def abandon_at_limit(self, error: LimitError) -> None:
        """Reject the call because of a limit."""
        try:
            self.abandon("limit", str(error))
        except LimitError as earlier:
            self.abandon("limit", str(earlier))

    def _stop_sending(self) -> None:
        self.discarding = True
        self.arguments.end()
        self._buffer.target = None
        self._early_arguments.clear()


_OPENINGS = frozenset('"{[')
_MAX_UNKNOWN_KEYS = 64
"""Keys that are compared with the parameters of the tool: more than most tools have."""


def decode_object(encoded: str, limits: Limits) -> str | None:
    """Return the strict JSON of the object in the JSON string `encoded`, or None; an empty string means `{}`."""
    inner: str = json.loads(encoded).strip() or "{}"
    strict = _read_object(inner, limits)
    if strict is not None or len(inner) > limits.search:
        return strict
    try:
        reading = read_json(None, "start", inner)
    except NoReadingError:
        return None
    return _read_object(reading.text, limits) if reading.complete else None


def _read_object(text: str, limits: Limits) -> str | None:
    reader = StrictJsonReader(compile_end_markers(()), limits)
    parts = reader.buffer.target = []
    try:
        reader.read_whole(text)
    except (LimitError, NotStrictError):
        return None
    strict = "".join(parts)
    if reader.mixes_line_breaks(strict) or (reader.has_backslash and mixes_escapes(json.loads(strict))):
        return None
    return strict if text[0] == "{" else None
