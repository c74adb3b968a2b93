"""Turns the calls that body readers find in one reply into events.

Rule: `start chunk* end` per call, ids from one source, and chunks that add up to the complete arguments.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Set
from typing import Literal

from fcshim.events import CallError, CallErrorKind, Coercion, Event, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Tool
from fcshim.parse.backslashes import mixes_escapes
from fcshim.parse.defect import Defect, ReportDefect
from fcshim.parse.misplaced_arguments import find_misplaced, holds_misplaced_word
from fcshim.parse.tag_pairs import TagPairs
from fcshim.parse.tool_lookup import ToolLookup
from fcshim.schema.expect import Expectation
from fcshim.schema.limits import StepLimitError

ArgumentsMode = Literal["stream", "resumable", "validated", "checked"]
"""How arguments are sent. `stream`: as the model writes them. `validated`: whole, and a schema violation is an error.
`checked`: whole, and a schema violation is reported as a `Defect` and is no error. `resumable`: as the model writes
them, up to the first value that violates the schema; the reported `Defect` has the remainder. In `stream` and
`resumable`, calls that are sent whole because they may be quoted are sent as in `checked`."""
EXCERPT_SIZE = 200
"""The most characters of the model's text in an error."""
_QUOTE = re.compile(r'(?<!\\)(?>(?:\\\\)*)"')
"""A quotation mark of JSON that is not escaped."""


class CallSink:
    """Builds the events of one call after the other; `events` is the list they are appended to (it may be replaced).

    Without `on_defect`, `checked` and `resumable` accept a schema violation.
    """

    # Without slots, CPython gives an object of 30 attributes a table of names of its own: 1.3 KB for each live stream.
    __slots__ = (
        "_accepted",
        "_escapes_names",
        "_expected_tool",
        "_id",
        "_max_arguments",
        "_mode",
        "_new_id",
        "_on_defect",
        "_parts",
        "_rejection",
        "_repeats_from",
        "_restarted_tool",
        "_sending",
        "_sent_parts",
        "_size",
        "_state",
        "accepted_count",
        "buffered",
        "call_count",
        "coerced",
        "escapes_doubtful",
        "events",
        "name",
        "restarts",
        "schema_enforced",
        "tag_pairs",
        "tools",
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
        self.tools = ToolLookup(tools)
        self.call_count = 0
        """Calls that were started; also the index of the next call."""
        self.accepted_count = 0
        """Calls that ended without error."""
        self._accepted: set[int] = set()
        """The hashes of these calls."""
        self.restarts = 0
        """Calls that were broken off and begun again."""
        self._repeats_from = sys.maxsize
        """The index from which on calls may repeat accepted ones, because the model began a list of calls again."""
        self.tag_pairs: dict[tuple[str, ...], TagPairs] = {}
        """The tags in text that is held because of a restart: the bodies after that one may hold the same text."""
        self._mode = arguments
        self.schema_enforced = False
        """True if a grammar lets the model write only what the schema admits: calls of strict tools stream then, and
        are validated at their end, since some servers ignore a grammar."""
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
        self.name = ""
        """The tool of the open call, or of the last one."""
        self._parts: list[str] = []
        self._size = 0
        self.coerced: list[Coercion] = []
        """What the schema coercion changed in the open call."""
        self._rejection = self._expected_tool = self._restarted_tool = ""
        """Why the open call must not run although it is complete; and the tool of the call before it that was broken
        off in a string: what is begun there is a call of that tool, or content."""
        self.escapes_doubtful = self._escapes_names = False
        r"""True if a backslash of the open call is not an escape, so that others may be content, too; and after a name
        with `\_`: the model escapes underscores for Markdown, in strings too."""
        self._sending: Literal["streamed", "withheld", "whole"] = "streamed"
        """Whether the open call is sent as it comes, no further because its arguments violate the schema, or whole at
        its end."""
        self._sent_parts = 0
        """The number of parts that were sent before the remainder was withheld."""
        self._state: Literal["closed", "open", "complete"] = "closed"

    @property
    def is_open(self) -> bool:
        """True between the start and the end of a call."""
        return self._state != "closed"

    @property
    def is_complete(self) -> bool:
        """True if the open call is complete; the next `finish` or `start` ends it without an error."""
        return self._state == "complete"

    def resolve(self, name: str) -> str | None:
        """Return the offered tool that this name means (`ToolLookup`), or None."""
        found = self.tools.find(name)
        self.unoffered_name = "" if found is not None else name.strip()
        self._escapes_names = self._escapes_names or "\\_" in name
        return found

    @property
    def expectation(self) -> Expectation:
        """What the schema expects of the arguments of the open call."""
        return self.tools.expectation_of(self.name)

    # The open call.

    def start(self, name: str) -> None:
        """Begin a call; the previous one ends first if it is complete."""
        self.finish()
        self._id, self.name, self._parts, self._size, self._state = self._new_id(), name, [], 0, "open"
        self.coerced, self._rejection, self.escapes_doubtful = [], "", False
        self._expected_tool, self._restarted_tool = self._restarted_tool, ""
        is_whole = (
            self._mode in {"validated", "checked"}
            or (self.tools.is_strict(name) and not self.schema_enforced)
            or self.buffered
            or self.call_count >= self._repeats_from
            or self.tools.takes_text(name)
        )
        self._sending, self._sent_parts = "whole" if is_whole else "streamed", 0
        if not is_whole:
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
        if text and self._sending == "streamed":
            self.events.append(ToolCallChunk(self._id, text, self.call_count - 1))
        return True

    def arguments(self) -> str:
        """Return the arguments of the open call so far."""
        return "".join(self._parts) if self.is_open else ""

    def misplaces(self, words: Set[str]) -> bool:
        """Return whether one of the open call's `words` without quotes stands where the schema admits no string."""
        return bool(words) and holds_misplaced_word(self.arguments(), words, self.coerced, self.expectation)

    def reject(self, reason: str) -> None:
        """Let the open call end with the error `invalid`: one of its values cannot be read with certainty."""
        self._rejection = self._rejection or reason

    @property
    def can_withhold(self) -> bool:
        """True if a schema violation should stop the sending of the open call's arguments."""
        return self._mode == "resumable" and self._sending == "streamed"

    def withhold_rest(self) -> None:
        """Stop sending the open call's arguments: a retry can then complete those that were sent in a valid way."""
        self._sending, self._sent_parts = "withheld", len(self._parts)

    # Its end.

    def mark_complete(self) -> None:
        """Record that the open call is complete; the text after it decides whether it may be executed."""
        self._state = "complete" if self.is_open else "closed"

    def finish(self) -> None:
        """End the open call without an error if it is complete: it may be executed."""
        if self._state == "complete":
            self._end()

    def fail(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """End the call with an error: it must not be executed. The error quotes `raw`, or the end of the arguments."""
        if self._sending == "withheld":
            del self._parts[self._sent_parts :]
        self._send_rest()
        self._send_end(CallError(kind, message, raw[:EXCERPT_SIZE] or self.arguments()[-EXCERPT_SIZE:]))

    def fail_truncated(self, message: str) -> None:
        """End the open call, complete or not, with the error `truncated`."""
        if self.is_open:
            self._send_rest()
            self.fail("truncated", message)

    def reset(self, call_count: int, accepted_count: int) -> None:
        """Drop the calls started since these counts: they are quoted text, or come a second time."""
        self.call_count, self.accepted_count = call_count, accepted_count
        self._state = "closed"

    def begin_again(self) -> None:
        """Count a call that is begun again, after which accepted calls may come twice.

        In a string of it, another tool's call may be content.
        """
        self.restarts += 1
        self._repeats_from = self.call_count
        is_in_string = self.is_open and len(_QUOTE.findall(self.arguments())) % 2
        self._restarted_tool = self.name if is_in_string else ""

    def _end(self) -> None:
        if self.tools.takes_text(self.name):
            self._rename_text()
        arguments = self.arguments()
        error = self._find_error(arguments)
        if error is not None:
            self.fail(*error)
            return
        call = hash((self.name, arguments))
        if self.call_count > self._repeats_from:
            if call in self._accepted:
                self.reset(self.call_count - 1, self.accepted_count)
                return
            self._repeats_from = sys.maxsize
        self._accepted.add(call)
        if self._check_schema(arguments):
            self._send_end()
            self.accepted_count += 1

    def _find_error(self, arguments: str) -> tuple[CallErrorKind, str, str] | None:
        """Return why the complete call must not run: the kind of the error, its message and what it quotes."""
        escapes_markdown = self._escapes_names and r"\\_" in arguments
        if self._rejection:
            return "invalid", self._rejection, ""
        if escapes_markdown or (self.escapes_doubtful and mixes_escapes(json.loads(arguments))):
            return "malformed", "a backslash may be content or a part of an escape, of JSON or Markdown", ""
        if self._expected_tool not in {"", self.name}:
            return "malformed", "a call that a value quotes, or one of another tool after a broken one", arguments
        if not self.tools.are_known:
            return None
        if self.wrapper_tool not in {"", self.name}:
            return "malformed", "the tag around the call names another tool", arguments
        misplaced = find_misplaced(arguments, self.tools.parameter_names(self.name), self.expectation)
        return ("malformed", misplaced, arguments) if misplaced else None

    def _check_schema(self, arguments: str) -> bool:
        """Validate the complete call where the mode says so: send what was withheld, or report the violation.

        Return False if the call has ended with an error.
        """
        is_strict = self.tools.is_strict(self.name)
        # While a call streams, only `resumable` looks for violations; a call that is sent whole is checked at its end.
        sent_whole = self._sending == "whole" and self._on_defect is not None and self._mode != "validated"
        reports = not is_strict and (self._mode == "checked" or sent_whole or self._sending == "withheld")
        fault = None
        try:
            if is_strict or reports or self._mode == "validated":
                fault = self.tools.find_violation(self.name, arguments)
        except StepLimitError:
            # Unchecked arguments pass only where a violation would be no error.
            if not reports and (self._mode in {"validated", "checked"} or not self.schema_enforced):
                self.fail("limit", f"arguments and schema of {self.name} are too large to be checked", arguments)
                return False
        if fault is not None and not reports:
            self.fail("invalid", fault, arguments)
            return False
        if fault is not None and self._on_defect is not None:
            is_withheld = self._sending == "withheld"
            unsent = "".join(self._parts[self._sent_parts :]) if is_withheld else ""
            self._on_defect(Defect("invalid", self.name, self._id, fault, unsent))
            self._sending = "streamed" if is_withheld else self._sending
        # The incremental check rejects some values that the whole schema admits; the validator decides.
        self._send_rest()
        return True

    def _send_rest(self) -> None:
        """Send what of the open call was not sent yet."""
        if self._sending == "whole":
            self.events.append(ToolCallStart(self._id, self.name, self.call_count - 1))
        unsent = "" if self._sending == "streamed" else "".join(self._parts[self._sent_parts :])
        if unsent:
            self.events.append(ToolCallChunk(self._id, unsent, self.call_count - 1))
        self._sending = "streamed"

    def _send_end(self, error: CallError | None = None) -> None:
        arguments, index = self.arguments(), self.call_count - 1
        self.events.append(ToolCallEnd(self._id, self.name, arguments, index, self.coerced, error))
        self._state = "closed"

    def _rename_text(self) -> None:
        """Give the only argument of a custom tool its name; reject the call if it is not one text."""
        value = json.loads(self.arguments())
        parameter = self.tools.parameter_names(self.name)[0]
        match list(value.items()):
            case [(str(name), str(text))]:
                if name != parameter:
                    self._parts = [json.dumps({parameter: text}, ensure_ascii=False)]
                    self.coerced.append(Coercion("", value, {parameter: text}))
            case _:
                self.reject(f"{self.name} takes one text, the string {parameter!r}")
