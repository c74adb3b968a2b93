"""Decoding replies of APIs that return one choice: JSON documents become events.

Rule: the reply ends with one `Stop` if the upstream ended it properly, else with one `Error`. Later bytes are ignored.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from fcshim.codecs.choice_reader import ChoiceReader
from fcshim.codecs.framing import Framing
from fcshim.codecs.json_text import DecoderLimits, is_json, json_reader
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.codecs.upstream_errors import error_kind, excerpt, find_error_message
from fcshim.errors import UpstreamError
from fcshim.events import Error, Event

T = TypeVar("T")

_read_any = json_reader(object)


class DocumentDecoder(Protocol):
    """Decodes the documents of one API's reply; it finishes `choice` when the reply has ended."""

    choice: ChoiceReader
    done: bool
    """Whether the reply has ended; later documents are not read."""

    def read(self, document: bytes, out: list[Event], *, whole: bool) -> None:
        """Read one document of a stream, or the `whole` reply. Raises `UpstreamError` where it reports a failure."""
        ...


class SingleChoiceDecoder:
    """Decodes one upstream reply; its bytes may be split anywhere."""

    def __init__(self, document_decoder: DocumentDecoder, limits: DecoderLimits) -> None:
        self._document_decoder = document_decoder
        self._framing = Framing(line_bytes=limits.line_bytes)
        self._done = False

    @property
    def ended(self) -> bool:
        """Whether the choice has ended; all that its end reports comes with it."""
        return self._done or self._document_decoder.choice.finished

    @property
    def progress(self) -> PromptProgress | None:
        """How far the server has read the prompt, if it says so."""
        return self._document_decoder.choice.progress

    def feed(self, data: bytes) -> list[tuple[int, Event]]:
        """Take the next bytes of the body; return the events that they complete."""
        out: list[Event] = []
        if not self._done:
            try:
                self._read_documents(self._framing.feed(data), out)
            except UpstreamError as error:
                self._fail(error, out)
        return [(0, event) for event in out]

    def close(self) -> list[tuple[int, Event]]:
        """Handle the end of the body; return the remaining events, an `Error` for a reply that is incomplete."""
        out: list[Event] = []
        if not self._done:
            try:
                self._read_documents(self._framing.close(), out, closing=True)
                self._end()
            except UpstreamError as error:
                self._fail(error, out)
        return [(0, event) for event in out]

    def _read_documents(self, documents: list[bytes], out: list[Event], *, closing: bool = False) -> None:
        for document in documents:
            if closing and not self._framing.whole and not is_json(document):
                return  # an event cut in half by a lost connection
            self._document_decoder.read(document, out, whole=self._framing.whole)
            if self._document_decoder.done:
                self._end()
                return

    def _end(self) -> None:
        self._done = True
        if self._document_decoder.choice.finished:
            return
        if self._document_decoder.choice.started:
            raise UpstreamError("the upstream's reply broke off: it ended without saying why")
        head = self._framing.excerpt()
        raise UpstreamError(
            f"the upstream's reply holds no answer: {head}" if head else "the upstream's reply is empty"
        )

    def _fail(self, error: UpstreamError, out: list[Event]) -> None:
        self._done = True
        if not self._document_decoder.choice.finished:
            self._document_decoder.choice.fail(Error(error.kind, error.message), out)


def read_document(document: bytes, read: Callable[[bytes], T | None]) -> T:
    """Decode a document of a reply with one of its `json_reader`s.

    Raises `UpstreamError` where it is not JSON or has another shape, which often is an error report in another API's
    form.
    """
    decoded = read(document)
    if decoded is not None:
        return decoded
    problem = find_error_message(_read_any(document))
    if problem:
        raise upstream_failure(problem)
    raise UpstreamError(f"the upstream sent malformed JSON: {excerpt(document)}")


def upstream_failure(message: str) -> UpstreamError:
    """Create the error for a failure that the upstream reported in its reply."""
    return UpstreamError(f"the upstream failed: {message}", kind=error_kind(message))
