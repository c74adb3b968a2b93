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
from fcshim.evaluate.contact import Contact
from fcshim.evaluate.doctor import Diagnosis, Watch, settings_of
from fcshim.evaluate.finding import Finding, Verdict
from fcshim.evaluate.result import NATIVE
from fcshim.evaluate.trial import Trial, in_words

_MARKS: dict[Verdict, tuple[str, str]] = {"yes": ("✓", "green"), "no": ("✗", "yellow"), "unclear": ("?", "cyan")}
_TITLE = 36
"""Columns of the longest title."""


class Report:
    """Says nothing until `conclude`, and nothing then: the base of those that do."""

    def __init__(self) -> None:
        self.watch = Watch(met=self.meet, found=self.find, asked=self.ask, tried=self.tell)

    def waiting(self) -> AbstractContextManager[object]:
        """Show that something is going on, as long as that is entered."""
        return nullcontext()

    def meet(self, contact: Contact) -> None:
        """Tell who is there."""

    def find(self, finding: Finding) -> None:
        """Tell one finding."""

    def ask(self, way: str, done: int, every: int) -> None:
        """Tell how far a way has come."""

    def tell(self, trial: Trial) -> None:
        """Tell how a way did."""

    def conclude(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows; `file` is where the settings were to be written."""


class PlainReport(Report):
    """Lines of text."""

    def meet(self, contact: Contact) -> None:
        """Tell who is there."""
        write_line(_who(contact))
        sys.stdout.flush()

    def find(self, finding: Finding) -> None:
        """Tell one finding."""
        meaning = f" -> {finding.means}" if finding.means else ""
        write_line(f"{finding.verdict:<8}{finding.title:<{_TITLE}}{finding.evidence}{meaning}")
        sys.stdout.flush()

    def tell(self, trial: Trial) -> None:
        """Tell how a way did."""
        write_line(f"tried   {_titled(trial):<{_TITLE}}{_told(trial)}")
        sys.stdout.flush()

    def conclude(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows."""
        write_line(f"\n{_conclusion(diagnosis, file)}")
        if diagnosis.works and file is None:
            write_line(f"\n{settings_of(diagnosis).rstrip()}")


class TerminalReport(Report):
    """The same in columns and colours, with a line that shows that something is going on."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._status = console.status("asking who is there")

    def waiting(self) -> AbstractContextManager[object]:
        """Show a line that moves."""
        return self._status

    def meet(self, contact: Contact) -> None:
        """Tell who is there."""
        self._console.print(Text(_who(contact), style="bold"))
        self._status.update("asking the model")

    def find(self, finding: Finding) -> None:
        """Tell one finding."""
        sign, colour = _MARKS[finding.verdict]
        said = Text(finding.evidence)
        if finding.means:
            said.append(f"\n→ {finding.means}", style="dim")
        self._row(Text(sign, style="red" if finding.fatal else colour), finding.title, said)

    def ask(self, way: str, done: int, every: int) -> None:
        """Tell how far a way has come."""
        self._status.update(f"asking cases in {way}: {done} of {every}")

    def tell(self, trial: Trial) -> None:
        """Tell how a way did."""
        self._row(Text("•", style="cyan"), _titled(trial), Text(_told(trial)))

    def _row(self, sign: Text, title: str, said: Text) -> None:
        row = Table.grid(padding=(0, 1))
        row.add_column(width=1)
        row.add_column(width=_TITLE)
        row.add_column(ratio=1)
        row.add_row(sign, Text(title), said)
        self._console.print(row)

    def conclude(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows."""
        self._console.print(Text(f"\n{_conclusion(diagnosis, file)}", style="bold"))
        if diagnosis.works and file is None:
            self._console.print(Text(f"\n{settings_of(diagnosis).rstrip()}"), soft_wrap=True)  # to be copied


def report_to(out: TextIO, *, silent: bool) -> Report:
    """Give the report that suits the place where it is read."""
    if silent:
        return Report()
    return TerminalReport(Console(file=out, highlight=False)) if out.isatty() else PlainReport()


def not_written(file: Path) -> str:
    """Say what became of the file where no calls can be had."""
    return f"{file} is left as it is." if file.exists() else f"{file} is not written."


def _who(contact: Contact) -> str:
    server, count = contact.sighting.backend, len(contact.names)
    models = f"{count} models" if count > 1 else "one model" if count else "models that it does not list"
    return f"{contact.url} is {server.name} ({contact.sighting.evidence}) with {models}; examined: {contact.model}"


def _titled(trial: Trial) -> str:
    return f"asked in {trial.way}" if trial.way != NATIVE else "asked by its own tools"


def _told(trial: Trial) -> str:
    return in_words(trial) + (f"; given up: {trial.problem}" if trial.problem else "")


def _conclusion(diagnosis: Diagnosis, file: Path | None) -> str:
    if not diagnosis.works:
        why = "no way of asking brought a right call" if diagnosis.trials else "it gives no replies"
        unwritten = "" if file is None else f"\n{not_written(file)}"
        return f"No calls can be had of {diagnosis.model}: {why}{_held(diagnosis)}.{unwritten}"
    best = next((trial for trial in diagnosis.trials if trial.way == diagnosis.way), None)
    works = "It replies; whether it calls was not asked (--quick)"
    if best is not None:
        works = f"Calls can be had, best {_titled(best)}: {in_words(best)}"
    if file is None:
        return f"{works}.\nThese settings follow (--write FILE keeps them for fcshim serve --config FILE):"
    return f"{works}.\nUse the settings with: fcshim serve --config {file}"


def _held(diagnosis: Diagnosis) -> str:
    """Say what is left where the model does not call by itself."""
    holds = any(choice.setting == "constrain" and choice.value != "off" for choice in diagnosis.choices)
    return "; one that is demanded is held to its form all the same" if holds else ""
