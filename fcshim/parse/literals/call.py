"""Send one call with literal arguments after the other: its start, its arguments token by token, its end.

Rule: a call's start is sent with its first argument, because until then the body may turn out to be text. Possible
keys, and items of brackets that may still be a set, a dict, a tuple or plain parentheses, are buffered; everything else
is written at once.
"""

import json
import re
from collections.abc import Callable

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.missing_brackets import ends_like_closer, has_unlisted_key, may_lack_inner_bracket
from fcshim.parse.arguments.scopes import ANYTHING, Members, SchemaMembers
from fcshim.parse.arguments.tokens import OpenContainer, Token, TokenWriter
from fcshim.parse.body import BodyProgress
from fcshim.parse.call_keys import ARGUMENT_KEYS
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink

OPEN, CLOSE = TokenWriter.open, TokenWriter.close
KEY, ATOM = TokenWriter.write_key, TokenWriter.write_atom
BEGIN, CONTENT, END = TokenWriter.begin_string, TokenWriter.write_content, TokenWriter.end_string
"""The methods that write a token."""
WRITING_ERRORS = (LimitError, NotStrictError)
"""What a write raises where the call cannot go on."""
WRAPPER_NAMES = frozenset({*ARGUMENT_KEYS, "properties"})
"""Names that models invent for one argument that holds all of them."""
_ALL_ARGUMENTS = re.compile(r"\s*\{\s*[\"']")
_KEY_TOKENS = frozenset({ATOM, CONTENT})


class ContainerBuffer:
    """Buffers tokens whose container is not decided yet: a stack of lists, `push` opens one, `pop` closes it."""

    def __init__(self, limits: Limits) -> None:
        self._max_size = limits.search
        self.levels: list[list[Token]] = []
        """One list of tokens for each `push` without its `pop`."""
        self._size = 0

    def clear(self) -> None:
        """Drop all tokens."""
        self.levels.clear()
        self._size = 0

    def add(self, write: Callable[[TokenWriter, str], None], text: str) -> None:
        """Buffer a token. Raises `LimitError` where the buffer is full."""
        self.levels[-1].append((write, text))
        self._size += len(text)
        if self._size > self._max_size:
            raise LimitError(f"more than {self._max_size} characters in a container of unknown kind")

    def push(self) -> None:
        """Begin a list of tokens, which ends with `pop`."""
        self.levels.append([])

    def pop(self) -> list[Token]:
        """Return and remove the tokens since the last `push`."""
        tokens = self.levels.pop()
        self._size -= sum(len(text) for _, text in tokens)
        return tokens


class LiteralCall:
    """Sends one call after the other; `progress` has the state of the current one."""

    def __init__(self, progress: BodyProgress, sink: CallSink, limits: Limits) -> None:
        self.progress = progress
        self.call_count = 0
        """Calls of this body that were started."""
        self.is_certain = False
        """True once this can only be a call: from here on an error ends the call, and the body is not text again."""
        self.is_text = False
        """True where the current call is not a call, so that its text was returned as text."""
        self.in_content = False
        """True while content of the open string may go directly to the sink."""
        self.escapes_doubtful = False
        """True where a string of the call has a backslash that is not an escape."""
        self.is_direct = False
        """True where plain values may be written to `buffer` directly, neither kept nor discarded."""
        self.lacks_brackets = False
        """True where closing brackets of the current call are missing."""
        self.has_keywords = False
        """True where the names of arguments are written in another way than keys."""
        self.is_positional = False
        """True where an argument of the current call has no name."""
        self.has_wrapper = False
        """True where an argument has a name that models invent for all arguments."""
        self.words: set[str] = set()
        """Strings of the current call that stood without quotes, and its numbers in another spelling."""
        self._name: str | None = None
        self._sink = sink
        self.writer = TokenWriter(sink, limits)
        self.buffer, self.arguments = self.writer.buffer, self.writer.arguments
        self._undecided = ContainerBuffer(limits)

    # The tool.

    def begin(self, name: str, *, is_certain: bool) -> None:
        """Begin a call of the tool that `name` means; discard it where that tool is not offered."""
        self.progress.begin_call()
        self.is_certain, self.is_text = False, self.progress.refused
        self.escapes_doubtful = self.lacks_brackets = self.is_positional = self.has_wrapper = False
        self.words.clear()
        self.is_direct = False
        if self.progress.refused:
            return
        self._name = self._sink.resolve(name)
        if self._name is None:
            self.discard()
        else:
            self.is_certain, self.is_direct = is_certain, True

    @property
    def parameter_names(self) -> tuple[str, ...] | None:
        """The tool's parameters in the order of its schema; None where the call is discarded."""
        if self.progress.discarding or self._name is None:
            return None
        return self._sink.parameter_names(self._name)

    def arguments_members(self) -> Members:
        """Return what may stand in the arguments."""
        return ANYTHING if self._name is None else SchemaMembers(self._sink.expectation_of(self._name))

    def open_containers(self) -> list[OpenContainer]:
        """Return the open containers that were written, the arguments first."""
        return [] if self.progress.discarding else self.writer.open_containers()

    def has_written(self, depth: int) -> bool:
        """Return whether that many open containers, and no others, were written."""
        return not self.progress.discarding and self.writer.depth == depth

    def admits_key(self, depth: int, key: str) -> bool:
        """Return whether this key may come next in the open object at this depth."""
        return self.writer.admits_key(depth, key)

    def admits_object_with(self, depth: int, key: str) -> bool:
        """Return whether an object with this key may come next in the open array at this depth."""
        return self.writer.members_at(depth).item(0).lists_member(key) is not False

    def arguments_of(self, name: str) -> Members | None:
        """Return what may stand in the arguments of the tool that a name means; None where it is not offered."""
        found = self._sink.find_tool(name)
        return None if found is None else SchemaMembers(self._sink.expectation_of(found))

    def admits_object(self, parameter: str) -> bool:
        """Return whether the schema admits an object for this parameter."""
        assert self._name is not None
        return self._sink.expectation_of(self._name).member(parameter).admits("object", {})

    # Writing.

    def put(self, write: Callable[[TokenWriter, str], None], text: str) -> None:
        """Write a token of the arguments."""
        if self.progress.discarding:
            return
        try:
            if self._undecided.levels:
                self._undecided.add(write, text)
            else:
                write(self.writer, text)
        except WRITING_ERRORS as error:
            self.abandon_unwritable(error)

    def add_number(self, written: str, atom: str) -> None:
        """Note a number whose JSON is spelled in another way than it was `written`."""
        if atom != written and not atom.isalpha():
            self.words.add(atom)

    def put_all(self, tokens: list[Token]) -> None:
        """Write tokens that were buffered."""
        for write, text in tokens:
            self.put(write, text)

    def put_string(self, content: str) -> None:
        """Write a complete string; `content` is JSON-escaped."""
        self.put(BEGIN, '"')
        self.put(CONTENT, content)
        self.put(END, '"')

    def push_buffer(self) -> None:
        """Buffer the tokens from here on, until `pop_buffer`."""
        if not self.progress.discarding:
            self._undecided.push()
            self.is_direct = False

    def pop_buffer(self) -> list[Token]:
        """Return and remove the tokens since the last `push_buffer`."""
        if self.progress.discarding:
            return []
        tokens = self._undecided.pop()
        self.is_direct = not self._undecided.levels
        return tokens

    @property
    def streams_string(self) -> bool:
        """True inside a string whose content may go directly to the sink."""
        return self.is_direct and self.arguments.streams

    def flush(self) -> bool:
        """Send what was written; return False where a limit ended the call with an error."""
        try:
            self.writer.flush()
        except LimitError as error:
            self.abandon("limit", str(error))
            return False
        return True

    def sent_arguments(self) -> str:
        """Send what was written, and return the arguments so far, with what is not sent yet."""
        self.flush()
        buffered = (text for tokens in self._undecided.levels for _, text in tokens)
        return "".join((self._sink.arguments(), self.writer.collected(), *buffered))

    # The start and the end.

    def start(self) -> None:
        """Send the start of the call."""
        if self.progress.started or self.progress.discarding:
            return
        assert self._name is not None
        self.call_count += 1
        self.writer.start(self._name)
        self.progress.report_start()

    def end(self) -> None:
        """Complete the call. It is accepted when the body ends or the next call starts."""
        if not self.progress.discarding:
            assert not self._undecided.levels
            if not self.progress.started:
                self.start()
                self.put(OPEN, "{")
            self.put(CLOSE, "}")
            self.flush()
            self._check_brackets()
            self._check_whole()
            if not self.progress.discarding and self._sink.misplaces(self.words):
                self.abandon("malformed", "words without quotes where the schema admits no string")
        if not self.progress.discarding:
            if self.escapes_doubtful:
                self._sink.doubt_escapes()
            self.writer.complete()
        self.progress.end_call()

    def has_unlisted_argument(self) -> bool:
        """Return whether the call, which is complete, has an argument that the schema does not list."""
        return has_unlisted_key(json.loads(self._sink.arguments()), self._sink.expectation)

    def _check_brackets(self) -> None:
        """Abandon a call without a closing bracket where that bracket may stand at two places."""
        if not self.lacks_brackets or self.progress.discarding:
            return
        arguments, expected = json.loads(self._sink.arguments()), self._sink.expectation
        if ends_like_closer(arguments) or may_lack_inner_bracket(arguments, expected, separate_names=self.has_keywords):
            self.abandon("malformed", "a bracket is missing at one of two places")

    def _check_whole(self) -> None:
        """Abandon a call whose only argument may hold all arguments: a string without a name, or an unknown keyword."""
        if self.progress.discarding or not (self.is_positional or self.has_wrapper):
            return
        names = self._sink.parameter_names(self._name or "")
        items = list(json.loads(self._sink.arguments()).items())
        key, value = items[0] if len(items) == 1 else ("", None)
        is_text = isinstance(value, str) and _ALL_ARGUMENTS.match(value) and any(f'"{name}"' in value for name in names)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        is_whole = isinstance(value, dict) and bool(value) and value.keys() <= set(names)
        if is_text or (is_whole and (self.is_positional or key not in names)):
            self.abandon("malformed", "one argument, or all of them in one")

    def discard(self) -> None:
        """Not a call: read to its end without sending."""
        self.progress.discard()
        self.is_text = True
        self._stop_writing()

    def refuse(self) -> None:
        """Treat the current call, and all that follow it in this body, as text."""
        self.progress.refused = True
        self.discard()

    def abandon(self, kind: CallErrorKind, message: str) -> None:
        """Stop the call: end it with an error if it can only be a call, else treat it as text."""
        if self.progress.discarding:
            return
        if not self.is_certain:
            self.discard()
            return
        self.start()
        if not self.flush():
            return
        self._sink.fail(kind, message)
        self.progress.discarding = True
        self._stop_writing()

    def abandon_unwritable(self, error: LimitError | NotStrictError) -> None:
        """Stop the call, because it cannot be written."""
        if isinstance(error, LimitError):
            self.abandon("limit", str(error))
        else:
            self.abandon("malformed", "a key comes twice")

    def _stop_writing(self) -> None:
        self.in_content = self.is_direct = False
        self._undecided.clear()


def tokens_to_key(tokens: list[Token]) -> str | None:
    """Return the key that these tokens write, without quotes; None where they are not a string, number or literal."""
    if tokens[0][0] is OPEN:
        return None
    return "".join(text for write, text in tokens if write in _KEY_TOKENS)
