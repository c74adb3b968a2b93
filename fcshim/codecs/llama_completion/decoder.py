"""Decoding the reply: fragments of text, and a last event with the stop reason and the token counts.

Rule: all content is text; the parser finds reasoning and calls in it.
"""

import msgspec

from fcshim.codecs.choice_reader import ChoiceReader
from fcshim.codecs.json_text import json_reader
from fcshim.codecs.prompt_progress import read_progress
from fcshim.codecs.single_choice import read_document, upstream_failure
from fcshim.codecs.upstream_errors import find_error_message
from fcshim.events import JSON, Event, StopReason, Text, Usage


class Timings(msgspec.Struct, gc=False):
    """The server's statistics of a request."""

    cache_n: int = 0
    """Tokens of the prompt that were in the server's prefix cache."""


class CompletionEvent(msgspec.Struct, gc=False):
    """One event: `content` is the next fragment of text; the other fields count in the last event (`stop`)."""

    content: str = ""
    stop: bool = False
    stop_type: str = ""
    """`eos`, `word`, `limit` or `none`; only `limit` means that the reply was cut off."""
    stopping_word: str = ""
    tokens_evaluated: int = 0
    """Tokens of the prompt, including those from the cache."""
    tokens_predicted: int = 0
    timings: Timings | None = None
    error: JSON = None
    prompt_progress: JSON = None


_read = json_reader(CompletionEvent)


class CompletionDecoder:
    """Decodes the events of one reply."""

    def __init__(self) -> None:
        self.choice = ChoiceReader(str, 0)  # ids and limit are unused: there are no native calls
        self.done = False

    def read(self, document: bytes, out: list[Event], *, whole: bool) -> None:
        """Read one event, or a `whole` reply, which has the same form. Raises `UpstreamError`."""
        event = read_document(document, _read)
        if event.error is not None:
            raise upstream_failure(find_error_message({"error": event.error}) or "no reason given")
        if event.prompt_progress is not None:
            self.choice.progress = read_progress(event.prompt_progress)
        self.choice.emit_text(Text(event.content), out)
        if event.stop or whole:
            self.done = True
            self._end(event, out)

    def _end(self, event: CompletionEvent, out: list[Event]) -> None:
        cached = 0 if event.timings is None else event.timings.cache_n
        usage = Usage(
            input_tokens=max(event.tokens_evaluated, 0),
            output_tokens=max(event.tokens_predicted, 0),
            cached_tokens=max(cached, 0),
        )
        complete: StopReason = "stop_sequence" if event.stopping_word else "complete"
        self.choice.finish("max_tokens" if event.stop_type == "limit" else complete, out, usage)
