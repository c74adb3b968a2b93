"""Decides how calls and replies end for the client of any API: which calls count, and when a reply is an error.

Rule: only calls that ended without error are calls for the client. A complete reply whose calls all failed is an error,
or was cut off if they were truncated. A reply is never silently empty: without text and valid calls, a sentence for
each failed call is the text. A client never holds complete arguments of a call that must not run, since some run a
call as soon as its arguments parse (the AI SDK does): the last closing brace is buffered until the call has ended
without error, and after an error the arguments are invalidated, or voided where a client's SDK fails on invalid JSON.
"""

import json
from collections.abc import Iterable, Iterator

from fcshim.errors import UpstreamError
from fcshim.events import CallError, Error, StopReason, ToolCallEnd, Usage
from fcshim.reply import Reply


class BufferedArguments:
    """The arguments of one call; the client receives exactly what `feed` and `close` return."""

    __slots__ = ("_buffered", "_sent")

    def __init__(self) -> None:
        self._buffered: list[str] = []
        self._sent: list[str] = []

    def feed(self, fragment: str) -> str:
        """Take the next fragment; return what may be sent now."""
        if self._buffered or fragment.rstrip().endswith("}"):
            fragment = self._buffer_end(fragment)
        return self._record_sent(fragment)

    def close(self, *, valid: bool) -> str:
        """End the call; return the buffered rest, or the characters that make the sent arguments invalid JSON."""
        return self._record_sent("".join(self._buffered) if valid else invalidating_suffix("".join(self._sent)))

    def void(self) -> str | None:
        """End a truncated call; return the text that voids its arguments, None where they cannot be voided."""
        return voiding_suffix("".join(self._sent))

    def sent_text(self) -> str:
        """Return everything that was sent so far."""
        return "".join(self._sent)

    def _buffer_end(self, fragment: str) -> str:
        """Buffer a trailing brace and the white space after it; return the text before them."""
        if self._buffered and (not fragment or fragment.isspace()):
            # Collected and joined later: joining on every fragment is quadratic for endless white space.
            self._buffered.append(fragment)
            return ""
        text = "".join(self._buffered) + fragment
        end = len(text.rstrip())
        cut = end - 1 if text[end - 1 : end] == "}" else len(text)
        self._buffered = [text[cut:]] if cut < len(text) else []
        return text[:cut]

    def _record_sent(self, fragment: str) -> str:
        if fragment:
            self._sent.append(fragment)
        return fragment


TRUNCATED_KEY = "_truncated"
"""The key that voided arguments have beside the client's own, which no schema has."""
_TRUNCATED_NOTE = "The reply was cut off inside this call, so the call must not run."
_VALUE_ENDS = ("", "null", ":null", '"":null', "0", "rue", "ue", "e", "alse", "lse", "se", "ull", "ll", "l")
"""Texts that may complete the key, the value or the pair at the end of a prefix of JSON."""


def invalidating_suffix(arguments: str) -> str:
    """Return the characters that make a prefix of one JSON object invalid: neither JSON nor a prefix of JSON.

    They close a bracket that is not open. Measured: LangChain completes a truncated `{"path": "/e` to `{"path": "/e"}`
    and runs the call, whatever the finish reason says; with the suffix it is an invalid call there, as in every strict
    reader. The bracket follows a whole value: OpenAI's SDK reads a strict tool's arguments while they come, and fails
    on any other.
    """
    if not arguments.strip():
        return "{}]"
    opened, in_string, escaped = _scan_brackets(arguments)
    if opened and not in_string and arguments.rstrip()[-1] == opened[-1]:
        # Close it, then one that is not open: no key and no item is invented.
        return ("}" if opened.pop() == "{" else "]") + ("}" if opened[-1:] == ["["] else "]")
    ending = next((ending for ending, _ in _completions(arguments)), None)
    if ending is None:  # what was sent is not a prefix of JSON; the first quote may be an escaped character
        ending = ('"' if escaped else "") + '"' if in_string else ""
    return ending + ("}" if opened[-1:] == ["["] else "]")


def voiding_suffix(arguments: str) -> str | None:
    """Return the text that completes a prefix of one JSON object to an object that no tool accepts; None without one.

    Each key that was sent comes again with null, because readers of JSON keep the last value, and `TRUNCATED_KEY`
    follows. For clients that fail on invalid JSON.
    """
    start = "" if arguments.strip() else "{"
    for ending, closers in _completions(arguments + start):
        keys = json.loads(arguments + start + ending + closers + "}")
        voided = json.dumps({**dict.fromkeys(keys), TRUNCATED_KEY: _TRUNCATED_NOTE}, ensure_ascii=False)
        return start + ending + closers + ("," if keys else "") + voided[1:]
    return None


def _completions(prefix: str) -> Iterator[tuple[str, str]]:
    """Yield texts that end the last value of a prefix of one JSON object and close its inner brackets."""
    opened, in_string, escaped = _scan_brackets(prefix)
    closers = "".join("]" if bracket == "[" else "}" for bracket in reversed(opened[1:]))
    # A string may end inside an escape: after the backslash, or up to four digits later.
    quotes = (('"' if escaped else "") + '"', *("0" * digits + '"' for digits in range(1, 5))) if in_string else ("",)
    for ending in (quote + end for quote in quotes for end in _VALUE_ENDS):
        if _is_json(prefix + ending + closers + "}"):
            yield ending, closers


def _is_json(text: str) -> bool:
    """Return whether a text is JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _scan_brackets(text: str) -> tuple[list[str], bool, bool]:
    """Return the brackets open at the end, whether the end is inside a string, and whether a backslash precedes it."""
    opened: list[str] = []
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped = character == "\\"
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            opened.append(character)
        elif character in "}]" and opened:
            opened.pop()
    return opened, in_string, escaped


UNFINISHED = Error("upstream_error", "the reply broke off before it was finished")
FAILED = Error("upstream_error", "the upstream ended the reply with an error")

COMPLETE_REASONS = frozenset[StopReason | None](["complete", "stop_sequence"])
WHOLE_REASONS = frozenset[StopReason | None]([*COMPLETE_REASONS, "tool_use"])
"""Stop reasons after which only the calls of a reply can have failed."""


class CallOutcomes:
    """The outcomes of the calls of one choice."""

    __slots__ = ("call_error", "valid_calls")

    def __init__(self) -> None:
        self.valid_calls = 0
        self.call_error: CallError | None = None

    def record(self, call: ToolCallEnd) -> None:
        """Record a call that has ended."""
        self.valid_calls += call.error is None
        self.call_error = call.error or self.call_error

    @property
    def truncated(self) -> bool:
        """Whether the last failed call was cut off, and no call is valid."""
        return self.call_error is not None and self.call_error.kind == "truncated" and not self.valid_calls

    def end_error(self, reason: StopReason) -> Error | None:
        """Return the error with which the choice must end, or None if it can end normally."""
        if reason == "error":
            return FAILED
        error = self.call_error
        if error is None or self.valid_calls or error.kind == "truncated" or reason not in WHOLE_REASONS:
            return None
        return Error("model_output_error", f"the model wrote a tool call that cannot be used: {error.message}")


def call_failure(reply: Reply) -> Error | None:
    """Return the error of a whole reply that ended by itself and whose calls all failed, None for any other."""
    outcomes = CallOutcomes()
    for call in reply.tool_calls:
        outcomes.record(call)
    reason = reply.stop_reason
    return outcomes.end_error(reason) if reason is not None and reason in WHOLE_REASONS else None


def raise_error(reply: Reply) -> None:
    """Raise `UpstreamError` if a whole reply has an error."""
    if reply.error is not None:
        raise UpstreamError(reply.error.message, kind=reply.error.kind)


def valid_calls(reply: Reply) -> list[ToolCallEnd]:
    """Return the calls of a whole reply that ended without error."""
    return [call for call in reply.tool_calls if call.error is None]


def is_truncated(reply: Reply) -> bool:
    """Return whether a call of a whole reply was cut off, and no call is valid."""
    return not valid_calls(reply) and any(call.error and call.error.kind == "truncated" for call in reply.tool_calls)


def visible_text(reply: Reply) -> str:
    """Return the text of a whole reply; if it has nothing else, a sentence for each of its failed calls."""
    if reply.text or valid_calls(reply):
        return reply.text
    sentences: list[str] = []  # for a person who reads the reply, so without the markup that the model wrote
    for call in reply.tool_calls:
        if call.error and call.error.kind == "truncated":
            sentences.append(f"[The reply was cut off inside a call of {call.tool_call_name}, which was not made.]")
        elif call.error:
            sentences.append(
                f"[The model wrote a call of {call.tool_call_name} that cannot be used: {call.error.message}.]"
            )
    return "\n".join(dict.fromkeys(sentences))


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Sum the usage of the choices; the prompt is shared, so its tokens count once."""
    listed = list(usages)
    return Usage(
        input_tokens=max(usage.input_tokens for usage in listed),
        output_tokens=sum(usage.output_tokens for usage in listed),
        cached_tokens=max(usage.cached_tokens for usage in listed),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in listed),
    )
