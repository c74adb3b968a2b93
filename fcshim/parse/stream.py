"""The streaming parser: model text in, events out.

Theory of operation. A tag machine: one state, one method; each takes the position in the current text and gives the
next one; `_stall` says that what is left (a few characters) must wait for more text.

    state              is in                                            left by
    _lead              the start of the reply, or after reasoning       any character; a reasoning tag
    _reasoning         a reasoning block                                its closing tag
    _text              the answer                                       a marker, a fence line
    _call              a call's body (the body reader is in charge)     the end of the body
    _fence             a code fence: text to its end                    its closing line
    _fence_calls       a fence that so far holds only calls (held)      anything else; its closing line
    _only_space        behind held calls that count only at the end     anything else
    _span_end          behind a call in an open span or quote (held)    the closing backticks or quote; a blank line
    _echo              a tool result that the model repeats             its closing tag
    _rest              whatever follows a role marker                   nothing

What must wait until it is known whether it is quoted is held (`output`).

Rule: nothing is searched twice; only a tail that really begins a marker waits.
Neighbours: `surroundings` tells quotation, `json_body` reads calls, `sink` makes their events.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from fcshim.events import JSON, Event, Stop, StopReason, Text
from fcshim.ids import id_source
from fcshim.messages import Tool, as_tools
from fcshim.parse.dialect import DIALECTS, Dialect, get_dialect
from fcshim.parse.halves import HalfJoiner
from fcshim.parse.json_body import JsonBody, Status
from fcshim.parse.limits import DEFAULT_LIMITS, Limits
from fcshim.parse.markers import MarkerSet
from fcshim.parse.output import Hold, Output
from fcshim.parse.sink import Arguments, CallSink
from fcshim.parse.surroundings import QUOTES, REASONING_TAGS, ROLE_MARKERS, Line

ReasoningPolicy = Literal["ignore", "recover", "promote"]

_NATURAL: frozenset[StopReason] = frozenset({"complete", "stop_sequence", "tool_use"})
_SPACE = re.compile(r"\s*+")
_PLAIN = re.compile(r"[^`~<\n\[]*+")
_BACKTICKS_OR_BLANK = re.compile(r"`+|\n[ \t\r]*(?:\n|\Z)")


class StreamParser:
    """Finds the calls in one reply while it streams.

    `dialect` is a name or a `Dialect`; `tools` are the offered ones (`Tool` objects or OpenAI dicts), None admits any
    name. With `rescue`, calls to offered tools in every other dialect of the table are read too. `reasoning` says what
    becomes of a call inside reasoning, `arguments` whether they are sent as they come or whole and validated. `new_id`
    makes the ids of calls. Raises `ConfigError` for an unknown dialect, `RequestError` for unusable tools, and nothing
    whatever the text is.
    """

    def __init__(
        self,
        dialect: str | Dialect = "function_call",
        tools: Sequence[Tool | dict[str, JSON]] | None = None,
        *,
        rescue: bool = False,
        reasoning: ReasoningPolicy = "ignore",
        arguments: Arguments = "stream",
        new_id: Callable[[], str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        asked = get_dialect(dialect)
        offered = None if tools is None else {tool.name: tool for tool in as_tools(tools)}
        self._fenced_calls = offered is not None
        self._policy = reasoning
        self._limits = limits
        self._sink = CallSink(offered, arguments, new_id or id_source(), limits.arguments)
        rows: tuple[Dialect, ...] = (asked, *(DIALECTS.values() if rescue and offered is not None else ()))
        # The asked dialect stands last, so that its markers are its own where another row shares them.
        self._openers = {row.open: row for row in reversed(rows)}
        self._results = {row.result_open: row.result_close for row in reversed(rows)}
        self._longest_opener = max(map(len, self._openers))
        markers = (*self._openers, *self._results, *ROLE_MARKERS)
        self._markers = MarkerSet(markers, also="`+|~+")
        self._state: Callable[[int], int] = self._lead
        self._home: Callable[[int], int] = self._text
        self._buffer = ""
        self._carry = ""
        self._stall = False
        self._output = Output(self._sink)
        self._long_run = ""
        self._halves = HalfJoiner()
        self._reasoning_close = ""
        self._reasoning_markers = self._markers
        self._body: JsonBody | None = None
        self._raw: list[str] = []
        self._raw_size = 0
        self._fate: Literal["keep", "drop", "say"] = "keep"
        self._echo_close = ""
        self._direct = False
        """True inside a call that was started: its next piece may go to the body reader at once."""
        self._fence_char = ""
        self._fence_run = 0
        self.finished = False
        """True when the model began to invent a tool's result: the rest is dropped, upstream may be cancelled."""

    def feed(self, text: str) -> list[Event]:
        """Read the next piece of text; give the events it completes."""
        if self.finished:
            return []
        if not text.isascii() or self._halves.half:
            text = self._halves.feed(text)
        if self._direct and self._body is not None:
            return self._feed_body(self._body, text)
        if self._state == self._text and not self._carry and not self._output.line.runs:
            plain = _PLAIN.match(text)
            if plain is not None and plain.end() == len(text) > 0 and not self._long_run:
                self._output.line.add(text)
                return [Text(text)]
        self._output.begin()
        self._read(text)
        self._direct = self._is_direct()
        return self._output.finish()

    def _feed_body(self, body: JsonBody, text: str) -> list[Event]:
        """Inside a call that was started: what its reader consumes needs no account."""
        out = self._output.begin()
        if self._carry:
            text, self._carry = self._carry + text, ""
        elif body.string_piece(text):
            return out
        pos = body.feed(text, 0)
        if body.status is Status.READING:
            self._carry = text[pos:]
            return out
        self._buffer = text
        self._loop(self._act(body, pos))
        self._direct = self._is_direct()
        return self._output.finish()

    def _is_direct(self) -> bool:
        return self._body is not None and self._fate == "drop" and self._output.hold is None

    def close(self, stop_reason: StopReason = "complete") -> list[Event]:
        """End the reply; give what was held, then one `Stop`: `tool_use` where it ended by itself with calls."""
        self._output.begin()
        half = self._halves.close()
        if half and not self.finished:
            self._read(half)
        while self._close_state(stop_reason):
            pass
        events = self._output.finish()
        natural = stop_reason in _NATURAL
        if natural:
            stop_reason = "tool_use" if self._sink.good else "complete" if stop_reason == "tool_use" else stop_reason
        events.append(Stop(stop_reason))
        self.finished = True
        # Without its states the parser holds no reference to itself: its memory is free at once.
        self._state = self._home = _over
        return events

    # The loop.

    def _read(self, text: str) -> None:
        self._buffer = self._carry + text if self._carry else text
        self._carry = ""
        self._loop(0)

    def _loop(self, pos: int) -> None:
        self._stall = False
        while pos < len(self._buffer):
            pos = self._state(pos)
            if self._stall:
                self._carry = self._buffer[pos:]
                break
        self._buffer = ""

    # Reasoning.

    def _lead(self, pos: int) -> int:
        found = _SPACE.match(self._buffer, pos)
        assert found is not None
        self._output.say(found[0])
        pos = found.end()
        rest = self._buffer[pos : pos + 32]
        for opener, closer in REASONING_TAGS:
            if rest.startswith(opener):
                self._enter_reasoning(closer)
                return pos + len(opener)
        if rest and any(opener.startswith(rest) for opener, _ in REASONING_TAGS):
            self._stall = True
        elif rest:
            self._state = self._text
        return pos

    def _enter_reasoning(self, closer: str) -> None:
        self._output.flush()
        self._output.reasons = True
        self._reasoning_close = closer
        seen = () if self._policy == "ignore" else tuple(self._openers)
        self._reasoning_markers = MarkerSet((closer, *seen))
        self._state = self._reasoning

    def _reasoning(self, pos: int) -> int:
        found = self._reasoning_markers.search(self._buffer, pos)
        if found is None:
            return self._say_up_to(self._reasoning_markers.tail(self._buffer, pos), pos)
        self._output.say(self._buffer[pos : found.start()])
        if found[0] != self._reasoning_close:
            if self._policy == "recover":
                self._output.begin_hold("reasoning")
            self._open_call(found[0], self._reasoning)
            return found.end()
        self._output.flush()
        self._output.reasons = False
        self._output.line = Line()
        self._state = self._lead
        return found.end()

    def _say_up_to(self, end: int, pos: int) -> int:
        self._output.say(self._buffer[pos:end])
        self._stall = end < len(self._buffer)
        return end

    # Text.

    def _text(self, pos: int) -> int:
        buffer = self._buffer
        if self._long_run:
            pos = self._skip_run(pos)
        found = self._markers.search(buffer, pos)
        if found is None:
            return self._say_up_to(self._markers.tail(buffer, pos), pos)
        start, end, marker = found.start(), found.end(), found[0]
        self._output.say(buffer[pos:start])
        if marker[0] in "`~":
            return self._run(start, end)
        if marker in self._openers:
            return self._marker(marker, end)
        if marker in self._results:
            return self._result(marker, end)
        self._output.say(marker)
        self._state = self._rest
        return end

    def _marker(self, marker: str, end: int) -> int:
        """A call begins, or is quoted."""
        if self._output.line.quoted():
            self._output.say(marker)
            return end
        closing_quote = QUOTES.get(self._output.line.last, "")
        if closing_quote or self._output.line.runs:
            self._output.begin_hold("span").closing_quote = closing_quote
        self._open_call(marker, self._text)
        return end

    def _result(self, marker: str, end: int) -> int:
        """The model writes a tool's result: after a call it invents one, else it repeats one."""
        if self._sink.good:
            self.finished = True
            return len(self._buffer)
        self._output.say(marker)
        self._echo_close = self._results[marker]
        self._state = self._echo
        return end

    def _echo(self, pos: int) -> int:
        closer = self._echo_close
        at = self._buffer.find(closer, pos)
        if at < 0:
            return self._say_up_to(MarkerSet((closer,)).tail(self._buffer, pos), pos)
        self._output.say(self._buffer[pos : at + len(closer)])
        self._state = self._text
        return at + len(closer)

    def _rest(self, pos: int) -> int:
        self._output.say(self._buffer[pos:])
        return len(self._buffer)

    # Code spans and fences.

    def _run(self, start: int, end: int) -> int:
        """A run of backticks or tildes: part of the text, or the beginning of a fence line."""
        buffer, length = self._buffer, end - start
        if length > self._limits.line:
            self._long_run = buffer[start]
            self._output.say(buffer[start:end])
            return end
        fence = self._output.line.at_start()
        if end == len(buffer) and (fence or buffer[start] == "`"):
            self._stall = True
            return start
        if fence and length >= 3:
            line_end = self._fence_line_end(start, end)
            if self._stall:
                return start
            if line_end:
                self._open_fence(buffer[start], length, buffer[start:line_end])
                return line_end
        self._output.say(buffer[start:end])
        if buffer[start] == "`":
            self._output.line.run(length)
        return end

    def _skip_run(self, pos: int) -> int:
        """Pass over the rest of a run that is too long to mean anything."""
        end = pos
        while end < len(self._buffer) and self._buffer[end] == self._long_run:
            end += 1
        self._output.say(self._buffer[pos:end])
        if end < len(self._buffer):
            self._long_run = ""
        return end

    def _fence_line_end(self, start: int, end: int) -> int:
        """Give the end of the fence line that begins here, or 0 if it is none; stalls where that is not known yet."""
        newline = self._buffer.find("\n", end, start + self._limits.line)
        info = self._buffer[end : newline if newline >= 0 else start + self._limits.line]
        if self._buffer[start] == "`" and "`" in info:
            return 0
        self._stall = newline < 0 and len(self._buffer) - start < self._limits.line
        return newline + 1

    def _open_fence(self, char: str, length: int, line: str) -> None:
        self._fence_char, self._fence_run = char, length
        self._output.line.runs.clear()
        if self._fenced_calls:
            self._output.begin_hold("fence").add(line)
            self._state = self._fence_calls
        else:
            self._output.say(line)
            self._state = self._fence

    def _fence(self, pos: int) -> int:
        """Text in a fence: only its closing line is looked for."""
        buffer, char = self._buffer, self._fence_char
        if self._long_run:
            pos = self._skip_run(pos)
        start = buffer.find(char, pos)
        if start < 0:
            self._output.say(buffer[pos:])
            return len(buffer)
        self._output.say(buffer[pos:start])
        end = start
        while end < len(buffer) and buffer[end] == char:
            end += 1
        if end - start > self._limits.line:
            self._long_run = char
        elif self._output.line.at_start():
            if end == len(buffer):
                self._stall = True
                return start
            if end - start >= self._fence_run:
                return self._fence_end(start, end)
        self._output.say(buffer[start:end])
        return end

    def _fence_end(self, start: int, end: int) -> int:
        line_end = self._closing_line(start, end)
        if self._stall:
            return start
        self._output.say(self._buffer[start : line_end or end])
        if line_end:
            self._state = self._text
        return line_end or end

    def _closing_line(self, start: int, end: int) -> int:
        """Give the end of the closing fence line, or 0 if it is none; stalls where that is not known yet."""
        line_end = self._fence_line_end(start, end)
        if self._buffer[end : line_end or start + self._limits.line].strip():
            self._stall = False
            return 0
        return line_end

    def _fence_calls(self, pos: int) -> int:
        """In a fence that so far holds nothing but calls."""
        hold = self._output.held()
        pos = self._hold_space(pos)
        if hold.size <= self._limits.hold:
            opener = self._opener(pos)
            if opener:
                self._open_call(opener, self._fence)
                return pos + len(opener)
            if self._stall or pos == len(self._buffer):
                return pos
            if hold.calls and self._buffer[pos] == self._fence_char:
                return self._fence_calls_end(hold, pos)
        self._output.release()
        self._state = self._fence
        return pos

    def _fence_calls_end(self, hold: Hold, pos: int) -> int:
        end = pos
        while end < len(self._buffer) and self._buffer[end] == self._fence_char and end - pos <= self._limits.line:
            end += 1
        line_end = self._closing_line(pos, end) if self._fence_run <= end - pos else 0
        if end == len(self._buffer) and end - pos <= self._limits.line:
            self._stall = True
        if self._stall:
            return pos
        if not line_end:
            self._output.release()
            self._state = self._fence
            return pos
        hold.add(self._buffer[pos:line_end])
        self._home = self._text
        self._state = self._only_space
        return line_end

    def _opener(self, pos: int) -> str:
        """Give the opening marker that stands here; stalls where one may only have begun."""
        rest = self._buffer[pos : pos + self._longest_opener]
        for opener in self._openers:
            if rest.startswith(opener):
                return opener
        self._stall = any(opener.startswith(rest) for opener in self._openers) if rest else False
        return ""

    def _hold_space(self, pos: int) -> int:
        found = _SPACE.match(self._buffer, pos)
        assert found is not None
        self._output.held().add(found[0])
        return found.end()

    def _only_space(self, pos: int) -> int:
        """Behind calls that count only if nothing but white space (or, in reasoning, further calls) follows them."""
        pos = self._hold_space(pos)
        if pos == len(self._buffer):
            return pos
        if self._output.reasons and self._output.held().size <= self._limits.hold:
            opener = self._opener(pos)
            if opener:
                self._open_call(opener, self._reasoning)
                return pos + len(opener)
            if self._stall:
                return pos
        self._output.release()
        self._state = self._home
        return pos

    def _span_end(self, pos: int) -> int:
        """Behind a call in an open span or quotation: is it closed?"""
        hold, buffer = self._output.held(), self._buffer
        if hold.closing_quote and buffer[pos] == hold.closing_quote:
            return self._quoted(pos)
        if not self._output.line.runs:
            return self._not_quoted(pos)
        at = pos + hold.looked
        for found in _BACKTICKS_OR_BLANK.finditer(buffer, at):
            if found.end() == len(buffer) and found[0][-1:] != "\n":
                at = found.start()
                break
            if found[0][0] == "\n":
                if found.end() == len(buffer) and found[0].count("\n") < 2:
                    at = found.start()
                    break
                return self._not_quoted(pos)
            if found.end() - found.start() in self._output.line.runs:
                return self._quoted(pos)
        else:
            at = len(buffer)
        if len(buffer) - pos > self._limits.look_ahead:
            return self._not_quoted(pos)
        hold.looked = at - pos
        self._stall = True
        return pos

    def _quoted(self, pos: int) -> int:
        self._output.release()
        self._state = self._text
        return pos

    def _not_quoted(self, pos: int) -> int:
        self._output.accept()
        self._output.line.after_call()
        self._state = self._text
        return pos

    # Calls.

    def _open_call(self, marker: str, home: Callable[[int], int]) -> None:
        """Begin to read a body; `home` is the state that follows it."""
        if self._output.hold is None:
            self._output.flush()
        else:
            self._output.hold.add(marker)
        self._body = JsonBody(self._openers[marker], self._sink, self._limits)
        self._raw = [marker]
        self._raw_size = 0
        self._fate = "keep"
        self._home = home
        self._state = self._call

    def _call(self, pos: int) -> int:
        body = self._body
        assert body is not None
        new = body.feed(self._buffer, pos)
        self._account(self._buffer[pos:new])
        return self._act(body, new)

    def _act(self, body: JsonBody, new: int) -> int:
        """Do what the body reader's status says; `new` is where it stands."""
        match body.status:
            case Status.READING:
                self._stall = new < len(self._buffer)
            case Status.STARTED:
                self._fate = "drop"
                self._forget()
            case Status.UNKNOWN:
                self._unknown()
            case Status.NEXT:
                self._fate = "keep"
                self._forget()
            case Status.ENDED:
                return self._body_ended(body, new)
            case Status.REJECTED:
                self._not_a_call("")
                self._body = None
                self._state = self._home
                return new
        if (self._output.hold.size if self._output.hold is not None else self._raw_size) > self._limits.hold:
            body.refuse()
            self._unknown()
        return new

    def _account(self, piece: str) -> None:
        """Put what the body reader consumed where it may be needed."""
        if self._output.hold is not None:
            self._output.hold.add(piece)
        elif self._fate == "keep":
            self._raw.append(piece)
            self._raw_size += len(piece)
        elif self._fate == "say":
            self._output.say(piece)

    def _forget(self) -> None:
        self._raw.clear()
        self._raw_size = 0

    def _unknown(self) -> None:
        self._not_a_call("")
        self._fate = "say"

    def _not_a_call(self, rest: str) -> None:
        """What was read is text after all, all but `rest`."""
        if self._output.hold is not None:
            self._cut(self._output.hold.raw, rest)
            self._output.release()
        else:
            self._cut(self._raw, rest)
            self._output.say("".join(self._raw))
        self._forget()

    @staticmethod
    def _cut(raw: list[str], rest: str) -> None:
        if rest:
            raw[:] = ["".join(raw)[: -len(rest)]]

    def _body_ended(self, body: JsonBody, pos: int) -> int:
        rest = body.rest
        body.dispose()
        self._body = None
        self._state = self._home
        if self._fate == "keep" and not body.calls:
            self._not_a_call(rest)
        elif self._output.hold is not None:
            self._cut(self._output.hold.raw, rest)
            self._held_call_ended(self._output.hold)
        elif self._fate != "say":
            self._output.line.after_call()
        if rest:
            self._buffer = rest + self._buffer[pos:]
            return 0
        return pos

    def _held_call_ended(self, hold: Hold) -> None:
        if self._sink.good == hold.good + hold.calls or hold.size > self._limits.hold:
            # The call was no call, or one with an error: nothing in this place counts.
            self._output.release()
            return
        hold.calls = self._sink.good - hold.good
        hold.looked = 0
        self._state = {"fence": self._fence_calls, "span": self._span_end, "reasoning": self._only_space}[hold.kind]

    # The end.

    def _close_state(self, stop_reason: StopReason) -> bool:
        """End the state the reply ended in; True if that left text to be read, in yet another state."""
        tail, self._carry = self._carry, ""
        if self.finished:
            return False
        if self._body is not None:
            return self._close_body(self._body, tail, stop_reason)
        if self._output.hold is not None:
            return self._close_hold(self._output.hold, tail, natural=stop_reason in _NATURAL)
        self._output.say(tail)
        return False

    def _close_body(self, body: JsonBody, tail: str, stop_reason: StopReason) -> bool:
        body.close(tail, stop_reason)
        self._account(tail)
        if body.status is Status.UNKNOWN:
            self._not_a_call("")
            self._body = None
            return False
        self._body_ended(body, 0)
        self._buffer = ""
        self._read(body.rest)
        return self._output.hold is not None or self._body is not None or bool(self._carry)

    def _close_hold(self, hold: Hold, tail: str, *, natural: bool) -> bool:
        if hold.kind == "span":
            self._not_quoted(0)
            self._read(tail)
            return True
        closes = len(tail) >= self._fence_run and not tail.strip().strip(self._fence_char)
        if natural and hold.calls and (not tail or (hold.kind == "fence" and closes)):
            self._output.accept()
            return False
        self._output.release()
        self._output.say(tail)
        return False


def parse(
    text: str,
    dialect: str | Dialect = "function_call",
    tools: Sequence[Tool | dict[str, JSON]] | None = None,
    *,
    stop_reason: StopReason = "complete",
    rescue: bool = False,
    reasoning: ReasoningPolicy = "ignore",
    arguments: Arguments = "stream",
    new_id: Callable[[], str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Event]:
    """Read a whole reply: `feed` and `close` of a `StreamParser`, which see."""
    parser = StreamParser(
        dialect, tools, rescue=rescue, reasoning=reasoning, arguments=arguments, new_id=new_id, limits=limits
    )
    return parser.feed(text) + parser.close(stop_reason)


def _over(_pos: int) -> int:
    raise AssertionError
