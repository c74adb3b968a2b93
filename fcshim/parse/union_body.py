"""A body in one of several syntaxes, which its first characters decide.

Rule: the first syntax that can begin here is selected; from then on its reader does all the work.
"""

from dataclasses import dataclass, replace

from fcshim.parse.body import BodyReader, BodyStatus, DelegatingReader
from fcshim.parse.dialect import Body, Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink


@dataclass(frozen=True, slots=True)
class UnionBody:
    """Several syntaxes; the prompt requests the first."""

    bodies: tuple[Body, ...]

    @property
    def grammar(self) -> str:
        """Name of the first syntax's grammar."""
        return self.bodies[0].grammar

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether one of the syntaxes can begin at `pos`; None if more text is needed to tell."""
        selected = self.select(text, pos)
        return None if selected is None else bool(selected)

    def select(self, text: str, pos: int) -> Body | bool | None:
        """Return the syntax that begins at `pos`, False for none, None if more text is needed to tell."""
        for body in self.bodies:
            begins = body.begins(text, pos)
            if begins is not False:
                return body if begins else None
        return False

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return UnionBodyReader(self, dialect, start_marker, sink, limits)


class UnionBodyReader(DelegatingReader):
    """Buffers nothing: consumes no text until the syntax is known, then delegates to that syntax's reader."""

    def __init__(self, union: UnionBody, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__()
        self._union = union
        self._dialect = dialect
        self._start_marker = start_marker
        self._sink = sink
        self._limits = limits

    def _choose(self, text: str, pos: int) -> tuple[BodyReader, int] | BodyStatus:
        body = self._union.select(text, pos)
        if body is None or isinstance(body, bool):
            return BodyStatus.READING if body is None else BodyStatus.NO_BODY
        dialect = replace(self._dialect, body=body)
        return body.reader(dialect, self._start_marker, self._sink, self._limits), pos
