"""Reports text that was meant as a call, or copied from the prompt, and is neither a call nor an answer.

Rule: what may be quoted, or explains how calls are written, is not reported.
"""

import re

from fcshim.events import StopReason
from fcshim.parse.body import NATURAL_STOPS
from fcshim.parse.defect import Defect, ReportDefect
from fcshim.parse.dialect import Dialect
from fcshim.parse.machine.known_markers import is_whole_tag
from fcshim.parse.machine.openings import OpeningFinder
from fcshim.parse.machine.prompt_copies import is_placeholder
from fcshim.parse.machine.state import Cursor, Output, PendingCalls

_PLACEHOLDER = re.compile(
    r"""[:=({\[,]\s{0,8}["'“]?(?:<\w[^<>\n]{0,40}>|\.\.\.|…)["'”]?\s{0,8}[,)\]}]"""
    r'|"type"\s*:\s*"(?:string|integer|number|boolean|array)"'
)
"""The place of a value, or its type, in an explanation; in a longer value they are content, as in HTML."""
_QUOTED_NAME = re.compile(r"(?:[\"'“]|=>[ \t]{0,8})([^\W\d][\w.-]{0,127})[\"'”,]")
_MAX_NAMED = 2_000
"""Characters of an unreadable call in which the name of its tool is looked for."""
_NAME_AND_NEXT = re.compile(r"\s{0,32}(?:<(?:tool_|function_)?name>\s{0,32})?(?P<name>[^\W\d][\w.-]{0,127})[^\w.-]")
"""A name, also in an element of its own, and the character that ends it."""
_MAX_HEADER = 256


class DefectReports:
    """Reports what becomes text, and decides whether it was meant as a call of the `primary` dialect or another one."""

    def __init__(
        self,
        cursor: Cursor,
        output: Output,
        openings: OpeningFinder,
        primary: Dialect | None,
        on_defect: ReportDefect | None,
    ) -> None:
        self._cursor = cursor
        self._output = output
        self._sink = output.sink
        self._openings = openings
        self._primary = primary
        self._on_defect = on_defect
        self._opened_by_primary = False
        """True if a start marker of the primary dialect opened the body."""
        self._opened_in_line = False
        """True if a start marker that is a tag opened the body, and nothing but calls stands before it in its line."""
        self._restarts_before = self._calls_before = 0
        self.has_reported = False
        """True if a defect of the body was reported."""
        self._calls_unoffered = False
        """True from the report of a call of a tool that is not offered until the end of its text is reported."""

    def begin_body(self, dialect: Dialect, marker: str) -> None:
        """Begin a body."""
        self._opened_by_primary = bool(marker) and dialect is self._primary
        self._opened_in_line = self._stands_alone(marker)
        self._restarts_before, self._calls_before = self._sink.restarts, self._sink.call_count
        self.has_reported = False

    def report_rejected(self) -> None:
        """Report the rejected call, unless it may be quoted or was reported before."""
        pending = self._output.pending
        if self._output.in_reasoning or (pending is not None and not self.names_call(pending)):
            return
        if pending is not None:
            self.report_unreadable(is_restarted=True)
            return
        name, text = self._sink.unoffered_name, self._output.held.text()
        copy = "copied" if is_placeholder(name) else self._output.kind_of_copy(text)
        if copy is not None and self._output.reports_copies:
            self._output.report_copy(copy)
            self.has_reported = True
            return
        quoted_names = _QUOTED_NAME.findall(text, 0, _MAX_NAMED) if self._opened_in_line else ()
        names_tool = bool(self._sink.wrapper_tool) or any(map(self._sink.tools.offers_exactly, quoted_names))
        if not (name or self._opened_by_primary or names_tool):
            return  # it was not meant as a call
        self._calls_unoffered = bool(name)
        if self._on_defect is not None:
            self._output.mark_defect()
            is_restarted = self._sink.restarts > self._restarts_before
            self._on_defect(Defect("unoffered", name) if name else Defect("unreadable", is_restarted=is_restarted))
        elif name:
            self._output.report_copy("unoffered", name)
        self.has_reported = True

    def end_unoffered(self) -> None:
        """Report the end of the text of a call of a tool that is not offered, if it was reported."""
        if self._calls_unoffered:
            self._calls_unoffered = False
            self._output.report_copy("end")

    def names_call(self, pending: PendingCalls) -> bool:
        """Return whether the tag of a pending call has the name of an offered tool, and does not begin an example."""
        return pending.kind == "bare" and bool(self._sink.wrapper_tool) and not self._output.line.may_be_example()

    def report_failed(self, pending: PendingCalls, text: str) -> None:
        """Report a call with an error that becomes text, although it would be accepted without the error.

        An explanation, which shows places or types of values (`<city>`, `...`), is not reported.
        """
        has_failed = self._sink.accepted_count == pending.accepted_before + pending.accepted
        has_begun = self._sink.call_count > self._calls_before
        if has_begun and has_failed and _PLACEHOLDER.search(text) is None and not self._output.pending_is_quoted():
            self.report_unreadable()

    def report_unknown_syntax(self, marker: str, pos: int) -> None:
        """Report text behind a start marker if an offered tool's name begins it, but no dialect's syntax goes on so."""
        line, buffer = self._output.line, self._cursor.buffer
        is_element = (
            marker == "<"
            and line.at_line_start()
            and buffer.startswith(("name>", "tool_name>", "function_name>"), pos)
            and not line.may_be_example()
        )
        found = _NAME_AND_NEXT.match(buffer, pos - is_element) if is_element or self._stands_alone(marker) else None
        if found is not None and self._sink.tools.offers_exactly(found["name"]):
            self.report_unreadable(is_restarted=True)

    def report_result(self) -> bool:
        """Report the tag of a tool's result that follows, unless it is quoted; return whether it was reported."""
        reports = self._output.reports_copies and self._may_be_made() and not self._output.line.is_quoted()
        if reports:
            self._output.report_copy("result")
        return reports

    def _may_be_made(self) -> bool:
        """Return whether nothing but calls stands in the line so far, and nothing shows what follows as a quotation."""
        line = self._output.line
        return line.holds_only_calls() and not (line.closing_quote() or line.open_backticks or line.may_be_example())

    def _stands_alone(self, marker: str) -> bool:
        return (
            self._on_defect is not None
            and is_whole_tag(marker)
            and self._openings.knows(marker)
            and self._may_be_made()
        )

    def report_unreadable(self, *, is_restarted: bool = False) -> None:
        """Report that what follows was meant as a call; `is_restarted` as in `Defect`."""
        if self._on_defect is not None:
            self._output.mark_defect()
            self._on_defect(Defect("unreadable", is_restarted=is_restarted))

    def ends_in_opening(self, text: str, stop_reason: StopReason) -> bool:
        """Return whether the last text of the reply is the start of a call: markers alone, or a header that is cut."""
        openers = (*self._primary.openers(), *self._primary.section.openers()) if self._primary else ()
        rest = text.strip()
        if not rest or (rest[0] == "<" and rest[1:2].isalpha() and not self._output.line.holds_only_calls()):
            return False  # a tag may be mentioned in a sentence
        while opener := next((each for each in openers if is_whole_tag(each) and rest.startswith(each)), ""):
            rest = rest[len(opener) :].lstrip()
        is_cut = stop_reason not in NATURAL_STOPS and rest.startswith("<|") and rest.startswith(openers)
        return not rest or (is_cut and len(rest) < _MAX_HEADER)
