"""The envelope of a call in JSON: which of its members is the name, and which one the arguments.

Rule: only members of the call's own object count; `TypedArguments` handles the values inside the arguments.
"""

from dataclasses import dataclass, field

from fcshim.parse.arguments.buffering import CommitBuffer, ValueHandler
from fcshim.parse.arguments.quote_escaping import ANYTHING, Members, Scope
from fcshim.parse.json.call import JsonCalls

NAME_KEYS = (
    *("name", "tool", "tool_name", "function_name", "function", "toolName", "functionName", "action"),
    *("nom", "nombre", "nome", "名称", "名稱", "函数", "名前", "имя"),  # models translate keys with the conversation
)
ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "input", "params", "inputs", "kwargs", "action_input", "tool_input"),
    *("paramètres", "argumentos", "parámetros", "parametros", "parâmetros", "argomenti", "parametri"),
    *("Argumente", "Parameter", "参数", "參數", "引数", "аргументы", "параметры"),
)


@dataclass(frozen=True, slots=True)
class JsonKeys:
    """The keys of a call's JSON; the first key of each table is the one that the prompt requests."""

    name_keys: tuple[str, ...] = NAME_KEYS
    argument_keys: tuple[str, ...] = ARGUMENT_KEYS
    wrapper_keys: tuple[str, ...] = ("function", "tool_call", "function_call")
    """Keys whose object contains the name and the arguments."""
    list_keys: tuple[str, ...] = ("tool_calls", "function_calls")
    """Keys whose array contains the calls."""
    other_keys: tuple[str, ...] = ("type", "id", "index", "tool_call_id", "call_id")
    """Further keys of a call, which are ignored. In a body without markers, a key in none of these tables shows that
    the body is not a call."""
    name_is_key: bool = False
    """True if the tool's name is the key, and the arguments are its value: `{"f": {...}}`."""

    known_keys: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    """Every key that a call may have."""

    def __post_init__(self) -> None:
        """Collect the known keys once: each line that begins with a bracket is compared with them."""
        keys = (*self.name_keys, *self.argument_keys, *self.wrapper_keys, *self.list_keys, *self.other_keys)
        object.__setattr__(self, "known_keys", frozenset(keys))


class CallMembers(Members):
    """What may stand in the envelope of a call, and the schema of its arguments once the tool is known."""

    holds_calls = True

    def __init__(self, keys: JsonKeys, calls: JsonCalls) -> None:
        self._keys = keys
        self._calls = calls
        self._name = calls.name

    def lists_member(self, key: str) -> bool | None:
        """Say whether a key is one of the envelope's; None where any key may come."""
        return None if self._keys.name_is_key else key in self._keys.known_keys

    def member(self, key: str) -> Members:
        """Return what may stand in a member."""
        if self._keys.name_is_key:
            return self._calls.arguments_of(key)
        if key in self._keys.argument_keys:
            return self._calls.arguments_of(self._name)
        return self if key in self._keys.wrapper_keys else ANYTHING

    def take_string(self, key: str, text: str) -> None:
        """Take the name of the tool."""
        if key in self._keys.name_keys:
            self._name = text


class JsonEnvelope(ValueHandler):
    """Finds the parts of each call in the JSON of one body, and passes them to `calls`."""

    def __init__(self, keys: JsonKeys, calls: JsonCalls, buffer: CommitBuffer, *, known_keys_only: bool) -> None:
        self.outer_depth = 0
        """The number of containers around a call: 1 in an array of calls."""
        self.has_header = False
        """True if the name was read before the JSON, which is the arguments."""
        self._keys = keys
        self._calls = calls
        self._buffer = buffer
        self._containers = buffer.containers
        self._known_keys_only = known_keys_only
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
        return self._calls.arguments_of(self._calls.name) if self.has_header else CallMembers(self._keys, self._calls)

    def scopes(self) -> list[Scope]:
        """Return the open containers, with what may stand in them."""
        keys = iter(self._buffer.keys)
        root, depth = self.root(), self._calls.arguments.depth
        return [
            Scope(
                "}" if container == "{" else "]",
                self._calls.arguments.members_at(at - depth) if 0 <= depth <= at else root,
                keyed=container == "{",
                keys=set(next(keys)) if container == "{" else set(),
            )
            for at, container in enumerate(self._containers)
        ]

    # The handler of the buffer.

    def on_key(self, key: str) -> None:
        """Remember the key of a member."""
        if len(self._containers) == self._depth:
            self._member_key = key
            self._calls.has_unknown_key |= not self._keys.name_is_key and key not in self._keys.known_keys
            if self._known_keys_only and self._calls.name is None and key not in self._keys.known_keys:
                self._calls.discard()

    def on_duplicate_key(self, key: str) -> None:
        """Reject the call."""
        self._calls.abandon("malformed", f"the key {key[:40]!r} comes twice")

    def on_atom(self, atom: str) -> str:
        """React to a number or literal."""
        self.on_value(atom)
        return atom

    def on_value(self, first: str) -> None:
        """React to the start of a value; `first` is its first character, or a whole number or literal."""
        if self._calls.discarding:
            return
        depth = len(self._containers)
        if depth == self.outer_depth:
            self._on_call_start(first)
        elif depth == self._depth:
            self._on_member(first)

    def _on_call_start(self, first: str) -> None:
        if self.has_header:
            self._calls.begin_arguments(first)
        elif first != "{":
            self._calls.abandon("malformed", "expected an object with name and arguments", first)

    def _on_member(self, first: str) -> None:
        keys, calls, key = self._keys, self._calls, self._member_key
        if keys.name_is_key:
            self._on_named_arguments(first)
        elif key in keys.name_keys and calls.name is None and first == '"':
            calls.begin_name()
        elif key in keys.argument_keys and not calls.has_arguments:
            calls.begin_arguments(first)
        elif key in keys.wrapper_keys and calls.name is None and first == "{":
            self._depth += 1
        elif key in keys.list_keys and self._depth == 1 and calls.name is None and first == "[":
            self.outer_depth, self._depth = 2, 3

    def _on_named_arguments(self, first: str) -> None:
        """Handle a member whose key is the tool's name and whose value are the arguments."""
        if self._calls.name is not None:
            self._calls.abandon("malformed", "expected one name", self._member_key)
            return
        self._calls.set_name(self._member_key)
        if not self._calls.discarding:
            self._calls.begin_arguments(first)

    def on_string_end(self) -> None:
        """Take the name, if it has ended."""
        self._calls.end_string()

    def on_container_end(self) -> None:
        """Leave a wrapper, or end the call."""
        depth = len(self._containers)
        if depth == self.outer_depth:
            self._calls.end()
            if self.outer_depth:
                self.begin_next_call()
        elif self.outer_depth < depth < self._depth:
            self._depth = depth
