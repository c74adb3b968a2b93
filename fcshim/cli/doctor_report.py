"""The output of `fcshim doctor`: a line for each finding as it arrives, or nothing where stdout holds JSON.

Rule: columns and colours on a terminal, otherwise plain lines that `grep` can search.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fcshim.cli.text import write_line
from fcshim.evaluate.comparison import Trial, describe_trial
from fcshim.evaluate.connect import EndpointInfo
from fcshim.evaluate.doctor import Diagnosis, DoctorCallbacks, format_settings
from fcshim.evaluate.result import NATIVE, Finding, ProbeVerdict
from fcshim.sanitize import sanitize, sanitize_line

_MARKS: dict[ProbeVerdict, tuple[str, str]] = {"yes": ("✓", "green"), "no": ("✗", "yellow"), "unclear": ("?", "cyan")}
_TITLE_WIDTH = 36
"""Characters of the column of titles."""


class DoctorReport:
    """Shows nothing; the base class of the reports that do."""

    def __init__(self) -> None:
        self.callbacks = DoctorCallbacks(
            on_connect=self.show_endpoint,
            on_finding=self.show_finding,
            on_case=self.show_progress,
            on_trial=self.show_trial,
        )

    def show_activity(self) -> AbstractContextManager[object]:
        """Return a context manager that shows an activity indicator while it is entered."""
        return nullcontext()

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Show the server, its models and the model that is examined."""

    def show_finding(self, finding: Finding) -> None:
        """Show one finding."""

    def show_progress(self, dialect: str, done: int, total: int) -> None:
        """Show how many of the cases of a trial have run."""

    def show_trial(self, trial: Trial) -> None:
        """Show the outcome of a trial."""

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Show the conclusion; `file` is the file in which the settings are saved, if any."""


class PlainReport(DoctorReport):
    """Writes plain lines of text to stdout."""

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Write one line about the endpoint."""
        write_line(_describe_endpoint(endpoint))
        sys.stdout.flush()

    def show_finding(self, finding: Finding) -> None:
        """Write the verdict, the title and the evidence in one line."""
        meaning = f" -> {finding.means}" if finding.means else ""
        write_line(f"{finding.verdict:<8}{finding.title:<{_TITLE_WIDTH}}{sanitize_line(finding.evidence)}{meaning}")
        sys.stdout.flush()

    def show_trial(self, trial: Trial) -> None:
        """Write the outcome of a trial in one line."""
        write_line(f"tried   {_trial_title(trial):<{_TITLE_WIDTH}}{_trial_outcome(trial)}")
        sys.stdout.flush()

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Write the conclusion, and the settings where no file was written."""
        write_line(f"\n{_conclusion(diagnosis, file)}")
        if diagnosis.works and file is None:
            write_line(f"\n{format_settings(diagnosis).rstrip()}")


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

    def show_progress(self, dialect: str, done: int, total: int) -> None:
        """Show the number of finished cases in the status line."""
        self._status.update(f"running cases in {dialect}: {done} of {total}")

    def show_trial(self, trial: Trial) -> None:
        """Write the outcome of a trial in columns."""
        self._print_row(Text("•", style="cyan"), _trial_title(trial), _safe_text(_trial_outcome(trial)))

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


def _trial_title(trial: Trial) -> str:
    return f"asked in {trial.dialect}" if trial.dialect != NATIVE else "native tool calling"


def _trial_outcome(trial: Trial) -> str:
    return describe_trial(trial) + (f"; given up: {trial.problem}" if trial.problem else "")


def _conclusion(diagnosis: Diagnosis, file: Path | None) -> str:
    if not diagnosis.works:
        reason = "no trial had a correct call" if diagnosis.trials else "it gives no replies"
        unwritten = "" if file is None else f"\n{not_written_message(file)}"
        return f"{diagnosis.model} cannot make tool calls: {reason}{_constraint_note(diagnosis)}.{unwritten}"
    best = next((trial for trial in diagnosis.trials if trial.dialect == diagnosis.dialect), None)
    works = "The model replies; its tool calls were not tested (--quick)"
    if best is not None:
        works = f"The model makes tool calls, best {_trial_title(best)}: {describe_trial(best)}"
    if file is None:
        return f"{works}.\nRecommended settings (--write FILE saves them for fcshim serve --config FILE):"
    return f"{works}.\nUse the settings with: fcshim serve --config {file}"


def _constraint_note(diagnosis: Diagnosis) -> str:
    """Say that required calls still work where a constraint forces them."""
    holds = any(choice.setting == "constrain" and choice.value != "off" for choice in diagnosis.choices)
    return "; a required call (tool_choice) is still possible under a constraint" if holds else ""
