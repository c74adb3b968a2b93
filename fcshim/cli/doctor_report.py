"""The output of `fcshim doctor`: a line for each finding as it arrives, or nothing where stdout holds JSON.

Rule: columns and colours on a terminal, otherwise plain lines that `grep` can search.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fcshim.cli.text import write_line
from fcshim.evaluate.connect import EndpointInfo
from fcshim.evaluate.doctor import Diagnosis, DoctorCallbacks, format_settings
from fcshim.evaluate.race import RaceProgress
from fcshim.evaluate.result import NATIVE, Finding, ProbeVerdict
from fcshim.evaluate.standings import CandidateReport, Standing, describe, report_on
from fcshim.sanitize import sanitize, sanitize_line

_MARKS: dict[ProbeVerdict, tuple[str, str]] = {"yes": ("✓", "green"), "no": ("✗", "yellow"), "unclear": ("?", "cyan")}
_TITLE_WIDTH = 36
"""Characters of the column of titles."""
_PROBE_NOTES = {
    None: "",
    "written": "",
    "other": "; it writes another form than the one that it is shown",
    "unclear": "; it writes no call when it is shown this form",
}
"""What the report adds for the result of a candidate's probe."""
_MINUTE = 60
"""Seconds from which a time is shown in minutes."""


class DoctorReport:
    """Shows nothing; the base class of the reports that do."""

    def __init__(self) -> None:
        self.callbacks = DoctorCallbacks(
            on_connect=self.show_endpoint,
            on_finding=self.show_finding,
            on_progress=self.show_progress,
            on_round=self.show_standing,
        )

    def show_activity(self) -> AbstractContextManager[object]:
        """Return a context manager that shows an activity indicator while it is entered."""
        return nullcontext()

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Show the server, its models and the model that is examined."""

    def show_finding(self, finding: Finding) -> None:
        """Show one finding."""

    def show_progress(self, progress: RaceProgress) -> None:
        """Show which candidate is running, and an estimate of the time that is left."""

    def show_standing(self, standing: Standing) -> None:
        """Show the standing of a candidate after its round."""

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Show the conclusion; `file` is the file in which the settings are saved, if any."""


class PlainReport(DoctorReport):
    """Writes plain lines of text: with `write`, by default to stdout."""

    def __init__(self, write: Callable[[str], None] = write_line) -> None:
        super().__init__()
        self._write_line = write
        self._seconds_left = 0.0

    def _write(self, line: str) -> None:
        self._write_line(line)
        sys.stdout.flush()

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Write one line about the endpoint."""
        self._write(_describe_endpoint(endpoint))

    def show_finding(self, finding: Finding) -> None:
        """Write the verdict, the title and the evidence in one line."""
        meaning = f" -> {finding.means}" if finding.means else ""
        self._write(f"{finding.verdict:<8}{finding.title:<{_TITLE_WIDTH}}{sanitize_line(finding.evidence)}{meaning}")

    def show_progress(self, progress: RaceProgress) -> None:
        """Remember the estimate for the next line."""
        self._seconds_left = progress.seconds_left

    def show_standing(self, standing: Standing) -> None:
        """Write the standing of a candidate in one line."""
        left = _format_seconds(self._seconds_left)
        self._write(f"{'raced':<8}{_title(standing.name):<{_TITLE_WIDTH}}{_standing_line(standing)} [{left} left]")

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Write the conclusion, and the settings where no file was written."""
        self._write(f"\n{_conclusion(diagnosis, file)}")
        if diagnosis.works and file is None:
            self._write(f"\n{format_settings(diagnosis).rstrip()}")


class TerminalReport(DoctorReport):
    """Writes columns and colours to a terminal, with a status line while requests are running."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._status = console.status("looking for the endpoint")

    def show_activity(self) -> AbstractContextManager[object]:
        """Return the status line, which is animated while it is entered."""
        return self._status

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Write one line about the endpoint."""
        self._console.print(_safe_text(_describe_endpoint(endpoint), style="bold"))
        self._status.update("asking the model")

    def show_finding(self, finding: Finding) -> None:
        """Write a mark, the title and the evidence in columns."""
        mark, colour = _MARKS[finding.verdict]
        text = _safe_text(finding.evidence)
        if finding.means:
            text.append(f"\n→ {finding.means}", style="dim")
        self._print_row(Text(mark, style="red" if finding.fatal else colour), finding.title, text)

    def show_progress(self, progress: RaceProgress) -> None:
        """Show the number of finished cases and the time that is left in the status line."""
        left = _format_seconds(progress.seconds_left)
        self._status.update(
            f"{sanitize_line(progress.name)}: {progress.done} of {progress.cases} cases; about {left} left; "
            "Ctrl-C ends with the best so far"
        )

    def show_standing(self, standing: Standing) -> None:
        """Write the standing of a candidate in columns."""
        self._print_row(Text("•", style="cyan"), _title(standing.name), _safe_text(_standing_line(standing)))

    def _print_row(self, mark: Text, title: str, text: Text) -> None:
        row = Table.grid(padding=(0, 1))
        row.add_column(width=1)
        row.add_column(width=_TITLE_WIDTH)
        row.add_column(ratio=1)
        row.add_row(mark, Text(title), text)
        self._console.print(row)

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Write the conclusion, and the settings where no file was written."""
        self._console.print(_safe_text(f"\n{_conclusion(diagnosis, file)}", style="bold"))
        if diagnosis.works and file is None:
            self._console.print(
                _safe_text(f"\n{format_settings(diagnosis).rstrip()}"), soft_wrap=True
            )  # unbroken lines, so that users can copy them into a file


def _safe_text(text: str, style: str = "") -> Text:
    """Return a text for the console: rich removes some control characters, but not ESC."""
    return Text(sanitize(text), style=style)


def make_report(out: TextIO, *, silent: bool) -> DoctorReport:
    """Return the report for `out`: none if `silent`, columns on a terminal, plain lines otherwise."""
    if silent:
        return DoctorReport()
    return TerminalReport(Console(file=out, highlight=False)) if out.isatty() else PlainReport()


def not_written_message(file: Path) -> str:
    """Say that the file was not written, or not replaced, because the model cannot make tool calls."""
    return f"{file} is unchanged." if file.exists() else f"{file} is not written."


def _describe_endpoint(endpoint: EndpointInfo) -> str:
    backend, count = endpoint.detection.backend, len(endpoint.model_names)
    models = f"{count} models" if count > 1 else "one model" if count else "models that it does not list"
    return f"{endpoint.url} is {backend.name} ({endpoint.detection.evidence}) with {models}; examined: {endpoint.model}"


def _title(name: str) -> str:
    return f"asked in {name}" if name != NATIVE else "native tool calling"


def _standing_line(standing: Standing) -> str:
    given_up = f"; given up: {standing.dropped}" if standing.dropped else ""
    return f"{describe(report_on(standing))}{_PROBE_NOTES[standing.probe]}{given_up}"


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _MINUTE else f"{seconds / _MINUTE:.1f} min"


def _conclusion(diagnosis: Diagnosis, file: Path | None) -> str:
    if not diagnosis.works:
        unwritten = "" if file is None else f"\n{not_written_message(file)}"
        return f"{diagnosis.model} {_failure(diagnosis)}.{unwritten}"
    best = next(each for each in diagnosis.candidates if each.name == diagnosis.best)
    works = f"The model makes tool calls, best {_title(best.name)}: {describe(best)}"
    lines = [f"{works}{_DOUBTS[diagnosis.complete, diagnosis.decided]}."]
    lines += [
        f"  {_title(each.name)}: {describe(each)}{_reason(each)}" for each in diagnosis.candidates if each != best
    ]
    if diagnosis.kept:
        lines.append("The result is kept for this model, and fcshim serve, fcshim chat and Client use it.")
    if file is None:
        lines.append("Recommended settings (--write FILE saves them for fcshim serve --config FILE):")
    else:
        lines.append(f"Use the settings with: fcshim serve --config {file}")
    return "\n".join(lines)


_DOUBTS = {
    (True, True): "",
    (True, False): ". The time ended before the race was decided: this is the best so far",
    (False, False): ". Interrupted: this is the best so far",
}
"""What follows the best candidate, by whether the race was complete and whether it was decided."""


def _failure(diagnosis: Diagnosis) -> str:
    if any(finding.fatal for finding in diagnosis.findings):
        return "cannot make tool calls: it gives no replies"
    if not diagnosis.complete:
        return "has made no correct call so far"
    if not diagnosis.decided:
        return "has made no correct call in this time (--budget gives it more)"
    constrained = any(choice.setting == "constrain" and choice.value != "off" for choice in diagnosis.choices)
    still = "; a required call (tool_choice) is still possible under a constraint" if constrained else ""
    return f"cannot make tool calls: no candidate had a correct call{still}"


def _reason(report: CandidateReport) -> str:
    return f"; dropped: {report.dropped}" if report.dropped else ""
