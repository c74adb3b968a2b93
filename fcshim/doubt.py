"""Whether an upstream that claims tools of its own really has them: what comes back is looked at, and not changed.

Rule: a call that stands in the text (the upstream mangles what its model writes) and a call that was demanded and did
not come (it ignores tools) are noticed. Text stays text: nothing here was neutralised, so a call in it may be an echo.
Neighbours: `native` is the stage that is looked at; who notices takes the prompt from then on (`inquiry.Aptitude`).
"""

from collections.abc import Callable, Iterable

from fcshim.events import Event, Stop, Text, ToolCallEnd
from fcshim.messages import Request
from fcshim.parse.dialects import AUTO
from fcshim.parse.stream import StreamParser
from fcshim.stage import Stage, StageStream

Noticed = Callable[[str], None]
"""Is told, in words, why the upstream's tools are not to be trusted."""


class Doubted:
    """A stage whose replies are looked at."""

    constraint = ""
    codec = None

    def __init__(self, stage: Stage, noticed: Noticed) -> None:
        self._stage = stage
        self._prepared = stage.prepare()
        self._noticed = noticed

    def prepare(self) -> Request:
        """Give the request for the upstream."""
        return self._prepared

    def stream(self) -> "DoubtedStream":
        """Make the way back for one choice."""
        parser = StreamParser(AUTO, self._prepared.tools)
        demanded = self._prepared.tool_choice.mode == "required"
        return DoubtedStream(self._stage.stream(), parser, self._noticed, demanded=demanded)


class DoubtedStream:
    """One choice on its way back."""

    def __init__(self, stream: StageStream, parser: StreamParser, noticed: Noticed, *, demanded: bool) -> None:
        self._stream = stream
        self._parser = parser
        self._noticed = noticed
        self._demanded = demanded
        self._looking = True

    @property
    def finished(self) -> bool:
        """Whether the reply ended before the upstream did."""
        return self._stream.finished

    def feed(self, event: Event) -> list[Event]:
        """Take the upstream's next event; give the client's."""
        match event:
            case Text():
                return self.read(event.text)
            case ToolCallEnd():
                self._looking = False
            case Stop():
                self._end(event)
        return self._stream.feed(event)

    def read(self, text: str) -> list[Event]:
        """Take the upstream's next piece of text."""
        if self._looking:
            self._look(self._parser.feed(text))
        return self._stream.read(text)

    def close(self) -> list[Event]:
        """The upstream has ended; give what is held back."""
        return self._stream.close()

    def _look(self, events: Iterable[Event]) -> None:
        if any(isinstance(event, ToolCallEnd) and event.error is None for event in events):
            self._looking = False
            self._noticed("it leaves calls in the text")

    def _end(self, stop: Stop) -> None:
        if self._looking:
            self._look(self._parser.close(stop.stop_reason))
        if self._looking and self._demanded and stop.stop_reason == "complete":
            self._looking = False
            self._noticed("no call came although one was demanded")
