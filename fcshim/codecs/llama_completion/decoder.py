"""The upstream's reply: pieces of text, and a last event that says why it ended.

Rule: all of it is text; what it means is for the parser.
Neighbours: `single` drives it, the shared choice reader ends the choice.
"""

import msgspec

from fcshim.codecs.openai_chat.choice_reader import ChoiceReader
from fcshim.codecs.single_choice import read_document, upstream_failure
from fcshim.codecs.upstream_errors import find_error_message
from fcshim.events import JSON, Event, Text, Usage


class Timings(msgspec.Struct, gc=False):
    """What the server says of its work."""

    cache_n: int = 0
    """Tokens of the prompt that it had from earlier requests."""


class CompletionEvent(msgspec.Struct, gc=False):
    """One event: `content` is what it adds to the text, the rest counts where it is the last (`stop`)."""

    content: str = ""
    stop: bool = False
    stop_type: str = ""
    """`eos`, `word`, `limit` or `none`; only a `limit` means that the text goes on."""
    stopping_word: str = ""
    tokens_evaluated: int = 0
    """Tokens of the prompt, those from the cache among them."""
    tokens_predicted: int = 0
    timings: Timings | None = None
    error: JSON = None


_read = msgspec.json.Decoder(CompletionEvent).decode


class CompletionDecoder:
    """Reads the events of one reply."""

    def __init__(self) -> None:
        self.choice = ChoiceReader(str, 0)  # there are no calls that could want ids or room
        self.done = False

    def read(self, document: bytes, out: list[Event], *, whole: bool) -> None:
        """Read one event, or a whole reply, which is one. Raises `UpstreamError`."""
        piece = read_document(document, _read)
        if piece.error is not None:
            raise upstream_failure(find_error_message({"error": piece.error}) or "no reason given")
        self.choice.emit_text(Text(piece.content), out)
        if piece.stop or whole:
            self.done = True
            self._end(piece, out)

    def _end(self, piece: CompletionEvent, out: list[Event]) -> None:
        ended: list[Event] = []
        self.choice.finish("length" if piece.stop_type == "limit" else "stop", piece.stopping_word or None, ended)
        cached = 0 if piece.timings is None else piece.timings.cache_n
        out += [
            Usage(
                input_tokens=max(piece.tokens_evaluated, 0),
                output_tokens=max(piece.tokens_predicted, 0),
                cached_tokens=max(cached, 0),
            ),
            *ended,
        ]
