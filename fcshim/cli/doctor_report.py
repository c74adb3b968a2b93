"""What `fcshim doctor` shows: a line for each finding as it comes, or nothing until the end.

Rule: on a terminal in columns and colours, else in plain lines that tools can search.
Neighbours: `doctor` hands over what was found.
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
from fcshim.evaluate.finding import Finding, ProbeVerdict
from fcshim.evaluate.result import NATIVE

_MARKS: dict[ProbeVerdict, tuple[str, str]] = {"yes": ("✓", "green"), "no": ("✗", "yellow"), "unclear": ("?", "cyan")}
_TITLE_WIDTH = 36
"""Columns of the longest title."""


class DoctorReport:
    """Says nothing until `conclude`, and nothing then: the base of those that do."""

    def __init__(self) -> None:
        self.callbacks = DoctorCallbacks(
            on_connect=self.show_endpoint,
            on_finding=self.show_finding,
            on_case=self.show_progress,
            on_trial=self.show_trial,
        )

    def show_activity(self) -> AbstractContextManager[object]:
        """Show that something is going on, as long as that is entered."""
        return nullcontext()

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Tell who is there."""

    def show_finding(self, finding: Finding) -> None:
        """Tell one finding."""

    def show_progress(self, way: str, done: int, every: int) -> None:
        """Tell how far a way has come."""

    def show_trial(self, trial: Trial) -> None:
        """Tell how a way did."""

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows; `file` is where the settings were to be written."""


class PlainReport(DoctorReport):
    """Lines of text."""

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Tell who is there."""
        write_line(_describe_endpoint(endpoint))
        sys.stdout.flush()

    def show_finding(self, finding: Finding) -> None:
        """Tell one finding."""
        meaning = f" -> {finding.means}" if finding.means else ""
        write_line(f"{finding.verdict:<8}{finding.title:<{_TITLE_WIDTH}}{finding.evidence}{meaning}")
        sys.stdout.flush()

    def show_trial(self, trial: Trial) -> None:
        """Tell how a way did."""
        write_line(f"tried   {_trial_title(trial):<{_TITLE_WIDTH}}{_trial_outcome(trial)}")
        sys.stdout.flush()

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows."""
        write_line(f"\n{_conclusion(diagnosis, file)}")
        if diagnosis.works and file is None:
            write_line(f"\n{format_settings(diagnosis).rstrip()}")


class TerminalReport(DoctorReport):
    """The same in columns and colours, with a line that shows that something is going on."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._status = console.status("asking who is there")

    def show_activity(self) -> AbstractContextManager[object]:
        """Show a line that moves."""
        return self._status

    def show_endpoint(self, endpoint: EndpointInfo) -> None:
        """Tell who is there."""
        self._console.print(Text(_describe_endpoint(endpoint), style="bold"))
        self._status.update("asking the model")

    def show_finding(self, finding: Finding) -> None:
        """Tell one finding."""
        sign, colour = _MARKS[finding.verdict]
        said = Text(finding.evidence)
        if finding.means:
            said.append(f"\n→ {finding.means}", style="dim")
        self._print_row(Text(sign, style="red" if finding.fatal else colour), finding.title, said)

    def show_progress(self, way: str, done: int, every: int) -> None:
        """Tell how far a way has come."""
        self._status.update(f"asking cases in {way}: {done} of {every}")

    def show_trial(self, trial: Trial) -> None:
        """Tell how a way did."""
        self._print_row(Text("•", style="cyan"), _trial_title(trial), Text(_trial_outcome(trial)))

    def _print_row(self, sign: Text, title: str, text: Text) -> None:
        row = Table.grid(padding=(0, 1))
        row.add_column(width=1)
        row.add_column(width=_TITLE_WIDTH)
        row.add_column(ratio=1)
        row.add_row(sign, Text(title), text)
        self._console.print(row)

    def finish(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows."""
        self._console.print(Text(f"\n{_conclusion(diagnosis, file)}", style="bold"))
        if diagnosis.works and file is None:
            self._console.print(Text(f"\n{format_settings(diagnosis).rstrip()}"), soft_wrap=True)  # to be copied


def make_report(out: TextIO, *, silent: bool) -> DoctorReport:
    """Give the report that suits the place where it is read."""
    if silent:
        return DoctorReport()
    return TerminalReport(Console(file=out, highlight=False)) if out.isatty() else PlainReport()


def not_written_message(file: Path) -> str:
    """Say what became of the file where no calls can be had."""
    return f"{file} is left as it is." if file.exists() else f"{file} is not written."


def _describe_endpoint(endpoint: EndpointInfo) -> str:
    server, count = endpoint.detection.backend, len(endpoint.model_names)
    models = f"{count} models" if count > 1 else "one model" if count else "models that it does not list"
    return f"{endpoint.url} is {server.name} ({endpoint.detection.evidence}) with {models}; examined: {endpoint.model}"


def _trial_title(trial: Trial) -> str:
    return f"asked in {trial.way}" if trial.way != NATIVE else "asked by its own tools"


def _trial_outcome(trial: Trial) -> str:
    return describe_trial(trial) + (f"; given up: {trial.problem}" if trial.problem else "")


def _conclusion(diagnosis: Diagnosis, file: Path | None) -> str:
    if not diagnosis.works:
        why = "no way of asking brought a right call" if diagnosis.trials else "it gives no replies"
        unwritten = "" if file is None else f"\n{not_written_message(file)}"
        return f"No calls can be had of {diagnosis.model}: {why}{_constraint_note(diagnosis)}.{unwritten}"
    best = next((trial for trial in diagnosis.trials if trial.way == diagnosis.way), None)
    works = "It replies; whether it calls was not asked (--quick)"
    if best is not None:
        works = f"Calls can be had, best {_trial_title(best)}: {describe_trial(best)}"
    if file is None:
        return f"{works}.\nThese settings follow (--write FILE keeps them for fcshim serve --config FILE):"
    return f"{works}.\nUse the settings with: fcshim serve --config {file}"


def _constraint_note(diagnosis: Diagnosis) -> str:
    """Say what is left where the model does not call by itself."""
    holds = any(choice.setting == "constrain" and choice.value != "off" for choice in diagnosis.choices)
    return "; one that is demanded is held to its form all the same" if holds else ""
