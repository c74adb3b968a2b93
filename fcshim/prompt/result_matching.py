"""Matches tool results to calls, whatever ids, order and gaps a client's history has.

Rule: every call gets a result within its step, if only a note that there is none. Later messages change nothing, so
that the text of one request is a prefix of the next one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from fcshim.messages import Content, MediaPart, TextPart, ToolCall, ToolMessage, text_of

NO_RESULT = "No result: the call was not carried out, or its result was lost."
NO_CALL = "(The call that this result answers is not part of the conversation.)"
LATE_RESULT = "(This result answers an earlier call.)"


@dataclass(frozen=True, slots=True)
class MatchedResult:
    """A result of the tool `name`; `note` is a text for the model, for a late result or one without a call."""

    name: str
    content: Content
    is_error: bool = False
    note: str = ""


class ResultMatcher:
    """Matches the results of one step after the other."""

    def __init__(self) -> None:
        self._names_by_id: dict[str, str] = {}  # of earlier steps; a reused id means the last call

    def match(self, calls: Sequence[ToolCall], results: Sequence[ToolMessage]) -> list[MatchedResult]:
        """Return the results of `calls`, in their order, then those that belong to none of them."""
        slots = _CallSlots(calls)
        others = [result for result in results if not slots.assign(result)]
        self._names_by_id |= {call.id: call.name for call in calls}
        return [*slots.matched(), *map(self._unmatched, others)]

    def _unmatched(self, result: ToolMessage) -> MatchedResult:
        known = self._names_by_id.get(result.tool_call_id)
        name = result.name or known or "unknown"
        return MatchedResult(name, result.content, result.is_error, NO_CALL if known is None else LATE_RESULT)


class _CallSlots:
    """The calls of one step, each with its results."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._results: list[list[ToolMessage]] = [[] for _ in calls]
        self._by_id: dict[str, deque[int]] = {}  # an engine may give two calls the same id
        for at, call in enumerate(calls):
            self._by_id.setdefault(call.id, deque()).append(at)
        self._seen: set[tuple[int, str, bool]] = set()

    def assign(self, result: ToolMessage) -> bool:
        """Assign the result to its call; return whether there is one."""
        indices = self._by_id.get(result.tool_call_id)
        if indices is None:
            return False
        at = indices.popleft() if len(indices) > 1 else indices[0]
        key = (at, text_of(result.content), result.is_error)
        if key not in self._seen or any(isinstance(part, MediaPart) for part in result.content):
            self._results[at].append(result)
            self._seen.add(key)  # some clients send a result twice
        return True

    def matched(self) -> list[MatchedResult]:
        return [answer for at, call in enumerate(self._calls) for answer in self._matched_call(call, self._results[at])]

    def _matched_call(self, call: ToolCall, results: Sequence[ToolMessage]) -> list[MatchedResult]:
        if not results:
            return [MatchedResult(call.name, (TextPart(NO_RESULT),), is_error=True)]
        return [MatchedResult(result.name or call.name, result.content, result.is_error) for result in results]
