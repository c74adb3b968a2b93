"""Find the parts of each call in the JSON of one body: its members, its wrappers, and lists of calls."""

import re

from fcshim.parse.arguments.buffering import CommitBuffer, ValueHandler
from fcshim.parse.arguments.scopes import ANYTHING, Members
from fcshim.parse.call_keys import OTHER_ROLES, JsonKeys
from fcshim.parse.json.call import JsonCalls
from fcshim.parse.readings.steps import Frame
from fcshim.parse.sink import CallSink

_CALL_IN_TEXT = re.compile(r'\s{0,8}\{\s{0,8}"(?:name"\s{0,8}:\s{0,8}")?([^\W\d][\w.-]{0,127})"')
"""A call in JSON as the text of a message."""


class CallMembers(Members):
    """What may stand in the envelope of a call, and the schema of its arguments once the tool is known."""

    holds_calls = True

    def __init__(self, keys: JsonKeys, calls: JsonCalls, name: str | None, *, has_arguments: bool) -> None:
        self._keys = keys
        self._calls = calls
        self._name = name
        self._has_arguments = has_arguments

    def lists_member(self, key: str) -> bool | None:
        """Return whether a key is one of the envelope's or of the tool's, whose members may stand beside the name."""
        if self._keys.name_is_key:
            return None
        return key in self._keys.known_keys or (
            self._name is not None
            and not self._has_arguments
            and self._calls.arguments_of(self._name).lists_member(key) is True
        )

    def member(self, key: str) -> Members:
        """Return what may stand in a member."""
        if self._keys.name_is_key:
            return self._calls.arguments_of(key)
        if key in self._keys.argument_keys:
            return self._calls.arguments_of(self._name)
        if key in self._keys.known_keys:
            return self if key in self._keys.wrapper_keys else ANYTHING
        if self._name is None:
            return self._calls.arguments_of(key)
        return self._calls.arguments_of(self._name).member(key)

    def after(self, key: str, text: str) -> Members:
        """Return what may stand after a member, which may be the name of the tool or its arguments."""
        name = text if key in self._keys.name_keys else self._name
        has_arguments = self._has_arguments or key in self._keys.argument_keys
        return CallMembers(self._keys, self._calls, name, has_arguments=has_arguments)


class JsonEnvelope(ValueHandler):
    """Finds the parts of each call in the JSON of one body, and passes them to `calls`."""

    def __init__(
        self, keys: JsonKeys, calls: JsonCalls, buffer: CommitBuffer, sink: CallSink, *, known_keys_only: bool
    ) -> None:
        self.outer_depth = 0
        """The number of containers around a call: 1 in an array of calls."""
        self.has_header = False
        """True if the name was read before the JSON, which is the arguments."""
        self._keys = keys
        self._calls = calls
        self._buffer = buffer
        self._containers = buffer.containers
        self._sink = sink
        self._known_keys_only = known_keys_only
        self._is_message = False
        """True after a key of a message, which may hold calls in a list only."""
        self._member_key = ""
        self._depth = 1
        """The number of open containers between two members of the call."""

    def begin_array(self) -> None:
        """Expect an array of calls instead of one call."""
        self.outer_depth = 1
        self._depth = 2

    def begin_next_call(self) -> None:
        """Expect another call."""
        self._depth = self.outer_depth + 1
        self._calls.begin_next()

    def root(self) -> Members:
        """Return what may stand in the body."""
        calls = self._calls
        if self.has_header:
            return calls.arguments_of(calls.name)
        return CallMembers(self._keys, calls, calls.name, has_arguments=calls.has_arguments and calls.name is not None)

    def frame(self) -> Frame | None:
        """Return the innermost open container, with what may stand in it and in those around it."""
        keys = iter(self._buffer.keys)
        arguments, root = self._calls.arguments, self.root()
        frame: Frame | None = None
        for at, container in enumerate(self._containers):
            depth = at - arguments.depth if 0 <= arguments.depth <= at else -1
            if depth >= 0:
                members = arguments.members_at(depth)
            elif at < self._depth or self.has_header:  # around the arguments
                members = root
            else:  # in a member beside them
                members = root.member(self._member_key) if at == self._depth else ANYTHING
            frame = Frame("}" if container == "{" else "]", members, frame, keyed=container == "{")
            if container == "{":
                frame.keys = frozenset(next(keys))
                frame.slot = "" if depth < 0 else arguments.key_at(depth)
        return frame

    # The handler of the buffer.

    def on_key(self, key: str) -> None:
        """Remember the key of a member; discard a body with a key that neither a call nor its message has."""
        if len(self._containers) != self._depth:
            return
        self._member_key = key
        keys, calls = self._keys, self._calls
        if not self._known_keys_only or calls.name is not None or keys.name_is_key or key in keys.thought_keys:
            return
        if key in keys.message_keys and not self.outer_depth:
            self._is_message = True
        elif key not in keys.known_keys or (self._is_message and key not in keys.list_keys):
            calls.check_previous(key)
            calls.discard()

    def on_duplicate_key(self, key: str) -> None:
        """Reject the call."""
        self._calls.abandon("malformed", f"the key {key[:40]!r} comes twice")

    def on_atom(self, atom: str) -> str:
        """React to a number or literal."""
        self.on_value(atom)
        return atom

    def on_value(self, first: str) -> None:
        """React to the start of a value; `first` is its first character, or a whole number or literal."""
        if self._calls.progress.discarding:
            return
        depth = len(self._containers)
        if depth == self._depth:
            self._on_member(first)
        elif depth == self.outer_depth and self.has_header:
            self._calls.begin_arguments(first)
        elif depth == self.outer_depth and first != "{":
            if first == '"' and self._calls.reading is None:
                self._calls.reject_previous("a string stands after the call")  # it may be the key of a member
            self._calls.abandon("malformed", "expected an object with name and arguments", first)

    def _on_member(self, first: str) -> None:
        keys, calls, key = self._keys, self._calls, self._member_key
        if keys.name_is_key:
            self._on_named_arguments(first)
        elif key in keys.name_keys and first == '"':
            calls.begin_string(calls.set_name)
        elif key in keys.argument_keys and not calls.has_arguments:
            calls.begin_arguments(first)
        elif key in keys.wrapper_keys and calls.name is None and first == "{":
            self._depth += 1
        elif key in keys.list_keys and self._depth == 1 and calls.name is None and first == "[":
            self.outer_depth, self._depth = 2, 3
            self._is_message = False
            calls.members.clear()
        elif key in keys.part_keys and first != "null":
            self._reject_second_part(first)
        else:
            self._on_other_member(key, first)

    def _on_named_arguments(self, first: str) -> None:
        """Handle a member whose key is the tool's name and whose value are the arguments."""
        if self._calls.name is not None:
            self._reject_second_part(first)
            return
        self._calls.set_name(self._member_key)
        if not self._calls.progress.discarding:
            self._calls.begin_arguments(first)

    def _reject_second_part(self, first: str) -> None:
        self._calls.abandon("malformed", f"the call has a second part {self._member_key[:40]!r}", first)

    def _on_other_member(self, key: str, first: str) -> None:
        """Handle a member that is not a part of a call; it may be one of a message, or be an argument, or hold one."""
        calls = self._calls
        if self._is_message and key == "content":
            if first == '"':
                calls.begin_string(self._on_message_text)
            elif first != "null":  # a message that has any content is not a call
                calls.discard()
        elif key == "role" and first == '"' and (self._is_message or not calls.takes_parameter(key)):
            calls.begin_string(self._on_role)
        elif key not in self._keys.known_keys or (calls.has_arguments and calls.lacks_parameter(key)):
            is_kept = first == "{" if calls.has_arguments else not self._known_keys_only
            calls.begin_member(key, first, is_kept=is_kept)
        elif first in "{[":
            calls.begin_member(key, first, is_kept=False)

    def _on_role(self, role: str) -> None:
        """Take the role of a message: one of the user, of the system or of a tool repeats a conversation."""
        self._calls.other_role = role if role.lower() in OTHER_ROLES else ""

    def _on_message_text(self, text: str) -> None:
        call = _CALL_IN_TEXT.match(text)
        if call is not None and self._sink.tools.offers_exactly(call[1]) and not self._calls.other_role:
            self._sink.wrapper_tool = call[1]  # so that the rejected call is reported
        if text:
            self._calls.discard()

    def on_string_end(self) -> None:
        """End a member whose value is a string."""
        if len(self._containers) == self._depth:
            self._calls.end_member()

    def on_container_end(self) -> None:
        """Leave a wrapper, or end the call."""
        depth = len(self._containers)
        if depth == self.outer_depth:
            self._calls.end()
            if self.outer_depth:
                self.begin_next_call()
        elif self.outer_depth < depth < self._depth:
            self._depth = depth
        elif depth == self._depth:
            self._calls.end_member()
