"""Send one call with literal arguments after the other: its start, its arguments token by token, its end.

Rule: a call's start is sent with its first argument, because until then the body may turn out to be text.
"""

import json
import re

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.scopes import ANYTHING, Members, SchemaMembers
from fcshim.parse.arguments.tokens import DiscardingWriter, TokenWriter
from fcshim.parse.body import BodyProgress
from fcshim.parse.call_keys import ARGUMENT_KEYS
from fcshim.parse.limits import Limits
from fcshim.parse.misplaced_arguments import ends_like_closer, has_unlisted_key, may_lack_inner_bracket
from fcshim.parse.sink import CallSink

WRITING_ERRORS = (LimitError, NotStrictError)
"""What a write raises where the call cannot go on."""
WRAPPER_NAMES = frozenset({*ARGUMENT_KEYS, "properties"})
"""Names that models invent for one argument that holds all of them."""
_ALL_ARGUMENTS = re.compile(r"\s*\{\s*[\"']")


class LiteralCall:
    """Sends one call after the other; `progress` has the state of the current one."""

    def __init__(self, progress: BodyProgress, sink: CallSink, limits: Limits, *, has_keywords: bool) -> None:
        self.progress = progress
        self.writer = TokenWriter(sink, limits)
        """Writes the arguments, or discards them."""
        self.call_count = 0
        """Calls of this body that were started."""
        self.is_certain = False
        """True once this can only be a call: from here on an error ends the call, and the body is not text again."""
        self.escapes_doubtful = False
        """True where a string of the call has a backslash that is not an escape."""
        self.lacks_brackets = False
        """True where closing brackets of the current call are missing."""
        self.is_positional = False
        """True where an argument of the current call has no name."""
        self.names: set[str] = set()
        """The arguments that came."""
        self.words: set[str] = set()
        """Strings of the current call that stood without quotes, and its numbers in another spelling."""
        self._name: str | None = None
        self._has_keywords = has_keywords
        """True where the names of arguments are written in another way than keys."""
        self._sink = sink
        self._limits = limits
        self._sending = self.writer

    # The tool.

    def begin(self, name: str, *, is_certain: bool) -> None:
        """Begin a call of the tool that `name` means; discard it where that tool is not offered."""
        self.progress.begin_call()
        self.escapes_doubtful = self.lacks_brackets = self.is_positional = False
        self.names.clear()
        self.words.clear()
        self.writer = self._sending
        self._name = None if self.is_text else self._sink.resolve(name)
        self.is_certain = is_certain and self._name is not None
        if self.is_text:
            self._stop_writing()
        elif self._name is None:
            self.discard()

    @property
    def parameter_names(self) -> tuple[str, ...] | None:
        """The tool's parameters in the order of its schema; None where the call is discarded."""
        if self.progress.discarding or self._name is None:
            return None
        return self._sink.tools.parameter_names(self._name)

    @property
    def is_text(self) -> bool:
        """True where the current call is not a call, so that its text was returned as text."""
        return self.progress.discarding == "body" or (bool(self.progress.discarding) and not self.progress.started)

    def arguments_members(self) -> Members:
        """Return what may stand in the arguments."""
        return ANYTHING if self._name is None else SchemaMembers(self._sink.tools.expectation_of(self._name))

    def arguments_of(self, name: str) -> Members | None:
        """Return what may stand in the arguments of the tool that a name means; None where it is not offered."""
        found = self._sink.tools.find(name)
        return None if found is None else SchemaMembers(self._sink.tools.expectation_of(found))

    def admits_argument(self, name: str) -> bool:
        """Return whether an argument may come next."""
        return name not in self.names and (not self.parameter_names or name in self.parameter_names)

    def admits_object(self, parameter: str) -> bool:
        """Return whether the schema admits an object for this parameter."""
        assert self._name is not None
        return self._sink.tools.expectation_of(self._name).member(parameter).admits("object", {})

    # Writing.

    def write_argument_name(self, name: str) -> None:
        """Write the name of an argument, JSON-escaped; the first one starts the call."""
        self.is_certain = True
        if not self.names:
            self._start_arguments()
        self.writer.write_key(name)
        if not self.progress.discarding:
            self.names.add(name)

    def add_number(self, written: str, atom: str) -> None:
        """Note a number whose JSON is spelled in another way than it was `written`."""
        if atom != written and not atom.isalpha():
            self.words.add(atom)

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
        return self._sink.arguments() + self.writer.collected()

    # The start and the end.

    def _start_arguments(self) -> None:
        self._start()
        self.writer.open("{")

    def _start(self) -> None:
        """Send the start of the call."""
        if self.progress.started or self.progress.discarding:
            return
        assert self._name is not None
        self.call_count += 1
        self._sending.start(self._name)
        self.progress.report_start()

    def end(self) -> None:
        """Complete the call. It is accepted when the body ends or the next call starts."""
        try:
            if not self.names:
                self._start_arguments()
            self.writer.close("}")
        except WRITING_ERRORS as error:
            self.abandon_unwritable(error)
        if self.flush() and not self.progress.discarding:
            doubt = self._find_doubt()
            if doubt:
                self.abandon("malformed", doubt)
            else:
                if self.escapes_doubtful:
                    self._sink.escapes_doubtful = True
                self.writer.complete()
        self.progress.end_call()

    def has_unlisted_argument(self) -> bool:
        """Return whether the call, which is complete, has an argument that the schema does not list."""
        return has_unlisted_key(json.loads(self._sink.arguments()), self._sink.expectation)

    def _find_doubt(self) -> str:
        """Return why the complete call has a second reading; empty if it has none."""
        if self.lacks_brackets:
            arguments, expected = json.loads(self._sink.arguments()), self._sink.expectation
            lacks_inner = may_lack_inner_bracket(arguments, expected, separate_names=self._has_keywords)
            if lacks_inner or ends_like_closer(arguments):
                return "a bracket is missing at one of two places"
        if (self.is_positional or self.names & WRAPPER_NAMES) and len(self.names) == 1 and self._is_whole():
            return "one argument, or all of them in one"
        if self._sink.misplaces(self.words):
            return "words without quotes where the schema admits no string"
        return ""

    def _is_whole(self) -> bool:
        """Return whether the only argument may hold all of them: without a name, or with one that models invent."""
        names = self._sink.tools.parameter_names(self._name or "")
        [(key, value)] = json.loads(self._sink.arguments()).items()
        if isinstance(value, str):
            return _ALL_ARGUMENTS.match(value) is not None and any(f'"{name}"' in value for name in names)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        is_whole = isinstance(value, dict) and bool(value) and value.keys() <= set(names)
        return is_whole and (self.is_positional or key not in names)

    def discard(self) -> None:
        """Not a call: read to its end without sending."""
        self.progress.discard()
        self._stop_writing()

    def refuse(self) -> None:
        """Treat the current call, and all that follow it in this body, as text."""
        self.progress.discarding = "body"
        self.discard()

    def abandon(self, kind: CallErrorKind, message: str) -> None:
        """Stop the call: end it with an error if it can only be a call, else treat it as text."""
        if self.progress.discarding:
            return
        if not self.is_certain:
            self.discard()
            return
        self._start()
        if not self.flush():
            return
        self._sink.fail(kind, message)
        self.progress.discarding = "call"
        self._stop_writing()

    def abandon_unwritable(self, error: LimitError | NotStrictError) -> None:
        """Stop the call, because it cannot be written."""
        if isinstance(error, LimitError):
            self.abandon("limit", str(error))
        else:
            self.abandon("malformed", "a key comes twice")

    def _stop_writing(self) -> None:
        self.writer = DiscardingWriter(self._sink, self._limits)
