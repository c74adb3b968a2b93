"""The shim's part of one reply: reads calls from the text of a choice, and restores the client's spelling.

Rule: no I/O. A call that the upstream has parsed, although no tools were sent to it, is read from its text, so that it
passes the same checks as one that came as text. Nothing closes arguments that the upstream left unfinished: with a
closing brace added, they would say something else.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Literal

from fcshim.events import (
    Error,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.parse.body import NATURAL_STOPS
from fcshim.parse.defect import Defect, ReportDefect
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.parse.stream import StreamParser
from fcshim.pipeline.stop_sequences import StopSearch
from fcshim.pipeline.withheld_text import BareCallSearch, WithheldText, sentence_about
from fcshim.prompt.event_unescape import EventUnescaper

WHITE_SPACE_LIMIT = 4_096
"""Characters of white space around calls that are held back, and dropped if a call follows; longer runs are text."""
MAX_EQUAL_CALLS = 8
"""Equal calls in a row at which a reply ends: a small model that finds no end writes until its context is full."""
MAX_TEXT_AFTER_CALL = 4_096
"""Characters of text after a call at which a reply ends, for the same reason (Qwen2.5-Coder-0.5B: 1 of 16 replies)."""
_START_MARKER = f"{FUNCTION_CALL.call.open}\n"
"""The text before that of `_call_text`; `StreamParser.begin_call` reads it."""
_UNFINISHED = frozenset({"truncated", "limit"})
"""Errors of a call that was not completed."""
_BRACKET_OR_STRING = re.compile(
    r'"(?>(?:[^"\\]+|\\.)*)(?:"|(?P<open_string>))|(?P<open>[{\[])|(?P<close>[}\]])', re.DOTALL
)


class ShimStream:
    """Transform the events of one choice. Exactly one `Stop` or `Error` ends them; after that only `Usage` passes.

    `finished` becomes true if the reply ends before the upstream does: at a tool result that the model invents, at a
    stop sequence, after the only call that is allowed, or where a model that has made a call finds no end. The
    upstream may then be cancelled.
    """

    __slots__ = (
        "_after_reasoning",
        "_bare_call",
        "_calls",
        "_ended",
        "_equal_calls",
        "_in_text",
        "_last_call",
        "_on_defect",
        "_on_text",
        "_parallel",
        "_parser",
        "_stop_search",
        "_text_after_call",
        "_unescape",
        "_white_space",
        "_withheld",
        "finished",
    )

    def __init__(
        self,
        parser: StreamParser,
        *,
        withheld: WithheldText,
        bare_call: BareCallSearch | None = None,
        on_defect: ReportDefect | None = None,
        unescape: EventUnescaper | None = None,
        stop_search: StopSearch | None = None,
        parallel: bool = True,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self.finished = False
        self._on_text = on_text
        self._parser = parser
        self._withheld = withheld
        self._bare_call = bare_call  # until it is known that the reply is no such call
        self._on_defect = on_defect
        self._unescape = unescape
        self._stop_search = stop_search
        self._parallel = parallel
        self._ended = False
        self._white_space = ""  # held back: dropped if a call follows or came before
        self._after_reasoning = False  # blank lines before the answer are dropped
        self._in_text = False  # text other than white space has come since the start or the last call
        self._calls: Literal["", "begun", "accepted"] = ""  # accepted: one has ended without error
        self._last_call = ("", "")  # the name and arguments of the last call that has ended
        self._equal_calls = 0  # how often that call came in a row
        self._text_after_call = 0  # characters of text since the last call

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; return the client's events."""
        if self._ended:
            return [event] if isinstance(event, Usage) else []
        if type(event) is Text:
            return self.feed_text(event.text)
        match event:
            case Stop():
                return self._end(event.stop_reason)
            case Error():
                events = self._end("error")
                return [*events[:-1], event]  # the error replaces the stop
            case ToolCallStart() | ToolCallChunk() | ToolCallEnd():
                return self._feed_call(event)
            case _:
                return self._transform([event])

    def close(self, stop_reason: StopReason = "complete") -> list[Event]:
        """Handle the end of the upstream's reply; `stop_reason` applies if no `Stop` came. Return the last events."""
        return [] if self._ended else self._end(stop_reason)

    def feed_text(self, text: str) -> list[Event]:
        """Do what `feed(Text(text))` does. Must not be called after the choice has ended."""
        if self._on_text is not None:
            self._on_text(text)
        events = self._parser.feed(text)
        if self._parser.finished:
            events = self._transform(events)
            return events if self._ended else events + self._finish("complete")
        if (
            len(events) == 1 and self._unescape is None and self._stop_search is None and not self._withheld.is_active
        ):  # nearly always, at a tenth of the cost of `_transform`
            kind = type(events[0])
            if kind is ToolCallChunk or (kind is Text and self._in_text and self._calls != "accepted"):
                return events
        return self._transform(events) if events else events

    def _feed_call(self, event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> list[Event]:
        """Take a part of a call that the upstream has parsed itself, as the text that it was.

        Some servers (mlx_lm.server, llama-server with some templates) parse everything that has the call syntax of the
        model's template, without the offered tools and their schemas. Read as text, such a call passes all checks.
        """
        begun: list[Event] = []
        if isinstance(event, ToolCallStart):
            if self._on_text is not None:
                self._on_text(_START_MARKER)
            begun = self._transform(self._parser.begin_call(_START_MARKER))
        text = _call_text(event)
        return begun + self.feed_text(text) if text and not self._ended else begun

    def _finish(self, stop_reason: StopReason) -> list[Event]:
        self.finished = True
        return self._end(stop_reason)

    def _end(self, stop_reason: StopReason) -> list[Event]:
        return self._transform(self._parser.close(stop_reason))

    def _transform(self, events: Iterable[Event]) -> list[Event]:
        if self._withheld.is_active:
            events = self._withheld.apply(events, in_text=self._in_text)
        if self._unescape is not None:
            events = self._unescape.apply(events)
        result: list[Event] = []
        for event in events:
            result += self._transform_event(event)
            if self._ended:
                break
        return result

    def _transform_event(self, event: Event) -> list[Event]:
        match event:
            case Text() if event.text:  # an empty one is the place of a defect
                return self._emit_text(event.text)
            case Reasoning():
                self._after_reasoning = True
                return [event]
            case ToolCallStart():
                return self._start_call(event)
            case ToolCallEnd():
                return self._end_call(event)
            case Stop():
                return self._end_reply(event)
            case _:
                return [event]

    def _emit_text(self, text: str) -> list[Event]:
        if self._bare_call is not None:
            text = self._bare_call.feed(text)
            if not text:
                return []
            self._bare_call = None
        if not self._in_text:
            self._white_space += text
            if text.isspace() and len(self._white_space) <= WHITE_SPACE_LIMIT:
                return []
            text, self._white_space, self._in_text = self._white_space, "", True
            if self._after_reasoning:
                # Blank lines at its start are dropped; the white space before its first line stays.
                start = len(text) - len(text.lstrip())
                text, self._after_reasoning = text[text.rfind("\n", 0, start) + 1 :], False
        return self._search_stops(text)

    def _search_stops(self, text: str) -> list[Event]:
        if self._calls == "accepted":
            self._text_after_call += len(text)
            surplus = self._text_after_call - MAX_TEXT_AFTER_CALL
            if surplus > 0:
                self.finished = self._ended = True
                return [*_text_events(text[:-surplus]), Stop("tool_use")]
        if self._stop_search is None:
            return _text_events(text)
        events = _text_events(self._stop_search.feed(text))
        if not self._stop_search.found:
            return events
        self.finished = self._ended = True
        return [*events, Stop("tool_use" if self._calls == "accepted" else "stop_sequence")]

    def _start_call(self, event: ToolCallStart) -> list[Event]:
        text = self._release_text()
        self._calls, self._white_space = self._calls or "begun", ""
        return [*text, *self._flush_stop_search(), event]

    def _end_call(self, event: ToolCallEnd) -> list[Event]:
        self._in_text = False
        if event.error is None:
            self._calls = "accepted"
        self._text_after_call = 0
        call = (event.tool_call_name, event.tool_call_arguments_complete)
        self._equal_calls = self._equal_calls + 1 if call == self._last_call and event.error is None else 1
        self._last_call = call
        if (self._parallel or self._calls != "accepted") and self._equal_calls < MAX_EQUAL_CALLS:
            return [event]
        self.finished = self._ended = True
        return [event, Stop("tool_use")]

    def _release_text(self) -> list[Event]:
        """Return the text that was held back because it might be a bare call."""
        search, self._bare_call = self._bare_call, None
        text = "" if search is None else search.flush()
        return self._emit_text(text) if text else []

    def _end_bare_call(self, event: Stop) -> list[Event]:
        """Return the sentence that stands for a reply that is a bare call of a tool that is not offered."""
        search = self._bare_call
        name = "" if search is None or event.stop_reason not in NATURAL_STOPS else search.tool_name()
        if not name:
            return self._release_text()
        defect, self._bare_call = Defect("unoffered", name), None
        if self._on_defect is None:
            return [Text(sentence_about(defect))]
        self._on_defect(defect)
        return [Text(""), Text(sentence_about(defect))]

    def _end_reply(self, event: Stop) -> list[Event]:
        if self._bare_call is not None and (held := self._end_bare_call(event)):
            return held if self._ended else [*held, *self._end_reply(event)]
        white_space = [] if self._calls or self._after_reasoning else self._search_stops(self._white_space)
        if self._ended:  # at a stop sequence of white space
            return white_space
        self._ended = True
        return [*white_space, *self._flush_stop_search(), event]

    def _flush_stop_search(self) -> list[Event]:
        return [] if self._stop_search is None else _text_events(self._stop_search.flush())


def _text_events(text: str) -> list[Event]:
    return [Text(text)] if text else []


def _call_text(event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> str:
    """Return the part of a call's text, after `_START_MARKER`, that this event stands for."""
    match event:
        case ToolCallStart():
            return f'{{"name": {json.dumps(event.tool_call_name, ensure_ascii=False)}, "arguments": '
        case ToolCallChunk():
            return event.tool_call_arguments_chunk
        case _:
            unfinished = event.error is not None and event.error.kind in _UNFINISHED
            return (
                "" if unfinished or _is_open(event.tool_call_arguments_complete) else f"}}\n{FUNCTION_CALL.call.close}"
            )


def _is_open(arguments: str) -> bool:
    """Return whether a bracket or a string of the arguments is not closed."""
    depth = 0
    for found in _BRACKET_OR_STRING.finditer(arguments):
        if found["open_string"]:
            return True
        depth += 1 if found["open"] else -1 if found["close"] and depth else 0
    return depth > 0
