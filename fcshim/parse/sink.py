"""Where a body reader puts what it read: the calls of one reply, as events.

Rule: `start chunk* end` per call, ids from one source, chunks that add up to the complete arguments.
Neighbours: body readers write into it, `stream` collects its events.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from fcshim.events import CallError, CallErrorKind, Coercion, Event, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Tool
from fcshim.schema.expect import ANY, Expectation, compile_schema
from fcshim.schema.validate import first_violation

ArgumentsMode = Literal["stream", "resumable", "validated", "checked"]
"""`checked`: whole, too, and where the schema does not admit them, the end says so (`DoubtfulEnd`) but is no error.
`resumable`: as they come, up to the first place that the schema does not admit; the end has the rest."""
_EXCERPT_SIZE = 200


class InvalidCallEnd(ToolCallEnd, frozen=True, gc=False, kw_only=True):
    """The end of a call whose arguments the schema does not admit, as `fault` says.

    `unsent` is the end of the arguments, from a place on at which they can still become right.
    """

    fault: str
    unsent: str = ""

    @property
    def as_accepted(self) -> ToolCallEnd:
        """The same, where the doubt does not matter."""
        return self._to_call_end(self.tool_call_arguments_complete, None)

    @property
    def as_failed(self) -> ToolCallEnd:
        """The end where the sending stopped, with the doubt for an error."""
        sent = self.tool_call_arguments_complete.removesuffix(self.unsent)
        return self._to_call_end(sent, CallError("invalid", self.fault, self.unsent[:_EXCERPT_SIZE]))

    def _to_call_end(self, arguments: str, error: CallError | None) -> ToolCallEnd:
        return ToolCallEnd(self.tool_call_id, self.tool_call_name, arguments, self.index, self.coerced, error)


class CallSink:
    """Turns one reader's findings into events; `out` is the list that they are added to (it may be exchanged)."""

    def __init__(
        self, tools: Mapping[str, Tool] | None, arguments: ArgumentsMode, new_id: Callable[[], str], max_arguments: int
    ) -> None:
        self.events: list[Event] = []
        self.call_count = 0
        """Calls that were started, which is the index of the next one."""
        self.accepted_count = 0
        """Calls that ended without error."""
        self._tools = tools
        self._validates_all = arguments in {"validated", "checked"}
        self._resumable = arguments == "resumable"
        self._checked = arguments == "checked"
        self.schema_enforced = False
        """True where the model can only write what the schema admits: a strict tool's call need not be looked at."""
        self._validates_call = False
        self.buffered = False
        """True while events are held back anyway: a call is then put out at its end, its arguments in one chunk."""
        self._new_id = new_id
        self._max_arguments = max_arguments
        self.unoffered_name = ""
        """The name that meant no tool, where that was the last one."""
        self._id = ""
        self._name = ""
        self._parts: list[str] = []
        self._coerced: list[Coercion] = []
        self._expectations: dict[str, Expectation] = {}
        self._size = 0
        self._deferred = False
        self._withheld = False
        """True while nothing of the open call is sent: it is late, or its schema does not admit what comes."""
        self._sent_parts = 0
        """Parts that were sent, where there was a doubt."""
        self.is_open = False
        """True between the start and the end of a call."""
        self.is_complete = False
        """True when the open call is complete; it ends well with the next `finish` or `start`."""

    def resolve(self, name: str) -> str | None:
        """Give the tool that a call means by this name, or None if it means none that was offered."""
        found = self._find_tool(name)
        self.unoffered_name = "" if found is not None else name.strip()
        return found

    def _find_tool(self, name: str) -> str | None:
        if self._tools is None:
            return name.strip() or None
        if name in self._tools:
            return name
        bare = name.strip().removeprefix("functions.")
        if bare in self._tools:
            return bare
        alike = [known for known in self._tools if known.casefold() == bare.casefold()]
        return alike[0] if len(alike) == 1 else None

    @property
    def expectation(self) -> Expectation:
        """What the arguments of the open call are expected to be."""
        return self.expectation_of(self._name)

    def expectation_of(self, name: str) -> Expectation:
        """Give what the arguments of this tool are expected to be."""
        if self._tools is None:
            return ANY
        found = self._expectations.get(name)
        if found is None:
            found = self._expectations[name] = compile_schema(self._tools[name].parameters)
        return found

    def parameter_names(self, name: str) -> tuple[str, ...]:
        """Give the parameters of this tool in the order of its schema; none where any name is admitted."""
        schema = None if self._tools is None else self._tools[name].parameters
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return tuple(properties) if isinstance(properties, dict) else ()

    def add_coercions(self, coercions: Sequence[Coercion]) -> None:
        """Note what the schema coercion changed in the open call."""
        self._coerced.extend(coercions)

    def start(self, name: str) -> None:
        """Begin a call; one that is complete ends first."""
        self.finish()
        self._id, self._name, self._parts, self._size, self.is_open = self._new_id(), name, [], 0, True
        self._coerced = []
        self._validates_call = not self.schema_enforced and self._is_strict(name)
        self._deferred = self._withheld = self._validates_all or self._validates_call or self.buffered
        if not self._deferred:
            self.events.append(ToolCallStart(self._id, name, self.call_count))
        self.call_count += 1

    def fits(self, size: int) -> bool:
        """Say whether that many further characters of arguments are admitted."""
        return self._size + size <= self._max_arguments

    def add_chunk(self, text: str) -> bool:
        """Add a fragment of the arguments; False when they have become too long (what is beyond the limit is lost)."""
        size = self._size + len(text)
        fits = size <= self._max_arguments
        if not fits:
            text, size = text[: self._max_arguments - self._size], self._max_arguments
        self._size = size
        self._parts.append(text)
        if text and not self._withheld:
            self.events.append(ToolCallChunk(self._id, text, self.call_count - 1))
        return fits

    @property
    def can_withhold(self) -> bool:
        """Whether it matters now where the schema does not admit the arguments any more."""
        return self._resumable and not self._withheld

    def withhold_rest(self) -> None:
        """The schema does not admit what comes now: send nothing more of this call, so that it can become right."""
        self._withheld = True
        self._sent_parts = len(self._parts)

    @property
    def _rest_withheld(self) -> bool:
        """Whether the open call is silent for a doubt."""
        return self._withheld and not self._deferred

    def mark_complete(self) -> None:
        """Note that the open call is whole; whether it may be executed is known when its surroundings are."""
        self.is_complete = self.is_open

    def finish(self) -> None:
        """End the open call if it is complete: it may be executed."""
        if self.is_complete:
            self._end()

    def fail_truncated(self, message: str) -> None:
        """End the open call, complete or not, as one that was cut off."""
        if self.is_open:
            self._send_withheld()
            self.fail("truncated", message)

    def reset(self, call_count: int, accepted_count: int) -> None:
        """Forget the calls since then: they turned out to be none."""
        self.call_count, self.accepted_count = call_count, accepted_count
        self.is_open = self.is_complete = False

    def _end(self) -> None:
        arguments = "".join(self._parts)
        doubtful = self._rest_withheld
        fault = self._find_violation(arguments) if self._validates_all or self._validates_call or doubtful else None
        if doubtful and fault is None:
            self._send_withheld()
        if fault is not None and not (doubtful or (self._checked and not self._validates_call)):
            self.fail("invalid", fault, arguments)
            return
        self._send_deferred(arguments)
        told = (self._id, self._name, arguments, self.call_count - 1, self._coerced)
        unsent = "".join(self._parts[self._sent_parts :]) if doubtful else ""
        self.events.append(ToolCallEnd(*told) if fault is None else InvalidCallEnd(*told, fault=fault, unsent=unsent))
        self.is_open = self.is_complete = False
        self.accepted_count += 1

    def fail(self, kind: CallErrorKind, message: str, raw: str = "") -> None:
        """End the call with an error: it must not be executed. Without `raw` the end of its arguments is shown."""
        if self._rest_withheld:
            del self._parts[self._sent_parts :]
        arguments = "".join(self._parts)
        self._send_deferred(arguments)
        error = CallError(kind, message, raw[:_EXCERPT_SIZE] or arguments[-_EXCERPT_SIZE:])
        self.events.append(ToolCallEnd(self._id, self._name, arguments, self.call_count - 1, self._coerced, error))
        self.is_open = self.is_complete = False

    def _send_withheld(self) -> None:
        """Send what was not sent for a doubt that does not matter any more."""
        if self._rest_withheld:
            self._withheld = False
            unsent = "".join(self._parts[self._sent_parts :])
            if unsent:
                self.events.append(ToolCallChunk(self._id, unsent, self.call_count - 1))

    def _send_deferred(self, arguments: str) -> None:
        """Send what was held until the call's end."""
        if self._deferred:
            self.events.append(ToolCallStart(self._id, self._name, self.call_count - 1))
            if arguments:
                self.events.append(ToolCallChunk(self._id, arguments, self.call_count - 1))

    def _is_strict(self, name: str) -> bool:
        return self._tools is not None and name in self._tools and self._tools[name].strict

    def _find_violation(self, arguments: str) -> str | None:
        tool = self._tools.get(self._name) if self._tools is not None else None
        return first_violation(tool.parameters, json.loads(arguments)) if tool is not None else None
