"""What the groups of states share: the text and the state, the output, what begins a call, reports."""

from dataclasses import dataclass

from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.machine.known_markers import StartMarkers
from fcshim.parse.machine.openings import OpeningFinder
from fcshim.parse.machine.reports import DefectReports
from fcshim.parse.machine.state import Cursor, Output


@dataclass(frozen=True, slots=True)
class MachineParts:
    """The parts of one parser that its states share; `primary` is the dialect that the caller selected, or None."""

    cursor: Cursor
    output: Output
    limits: Limits
    primary: Dialect | None
    start_markers: StartMarkers
    openings: OpeningFinder
    reports: DefectReports


class StateGroup:
    """A group of states: each is a method that takes a position in the text and returns the next one."""

    def __init__(self, parts: MachineParts) -> None:
        self._cursor = parts.cursor
        self._output = parts.output
        self._sink = parts.output.sink
        self._limits = parts.limits
        self._primary = parts.primary
        self._start_markers = parts.start_markers
        self._openings = parts.openings
        self._reports = parts.reports
