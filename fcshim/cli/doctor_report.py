"""What `fcshim doctor` shows: a line for each finding as it comes, or nothing until the end.

Rule: on a terminal in columns and colours, else in plain lines that tools can search.
Neighbours: `doctor` hands over what was found.
"""

import sys
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fcshim.cli.text import write_line
from fcshim.evaluate.contact import Contact
from fcshim.evaluate.doctor import Diagnosis, Watch, settings_of
from fcshim.evaluate.finding import Finding, Verdict

_MARKS: dict[Verdict, tuple[str, str]] = {"yes": ("✓", "green"), "no": ("✗", "yellow"), "unclear": ("?", "cyan")}
_TITLE = 36
"""Columns of the longest title."""


class Report:
    """Says nothing until `conclude`, and nothing then: the base of those that do."""

    def __init__(self) -> None:
        self.watch = Watch(met=self.meet, found=self.find)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def meet(self, contact: Contact) -> None:
        """Tell who is there."""

    def find(self, finding: Finding) -> None:
        """Tell one finding."""

    def conclude(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows."""


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

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def meet(self, contact: Contact) -> None:
        """Tell who is there."""
        self._console.print(Text(_who(contact), style="bold"))
        self._status.update("asking the model")

    def find(self, finding: Finding) -> None:
        """Tell one finding."""
        sign, colour = _MARKS[finding.verdict]
        row = Table.grid(padding=(0, 1))
        row.add_column(width=1)
        row.add_column(width=_TITLE)
        row.add_column(ratio=1)
        said = Text(finding.evidence)
        if finding.means:
            said.append(f"\n→ {finding.means}", style="dim")
        row.add_row(Text(sign, style="red" if finding.fatal else colour), Text(finding.title), said)
        self._console.print(row)

    def conclude(self, diagnosis: Diagnosis, file: Path | None) -> None:
        """Tell what follows."""
        self._console.print(Text(f"\n{_conclusion(diagnosis, file)}", style="bold"))
        if diagnosis.works and file is None:
            self._console.print(Padding(Text(settings_of(diagnosis).rstrip()), (1, 2)))


def report_to(out: TextIO, *, silent: bool) -> Report:
    """Give the report that suits the place where it is read."""
    if silent:
        return Report()
    return TerminalReport(Console(file=out, highlight=False)) if out.isatty() else PlainReport()


def _who(contact: Contact) -> str:
    server, count = contact.sighting.server, len(contact.names)
    models = f"{count} models" if count > 1 else "one model" if count else "models that it does not list"
    return f"{contact.url} is {server.name} ({contact.sighting.evidence}) with {models}; examined: {contact.model}"


def _conclusion(diagnosis: Diagnosis, file: Path | None) -> str:
    if not diagnosis.works:
        return f"No calls can be had of {diagnosis.model}: see what is fatal above."
    if file is None:
        return "Calls can be had. These settings follow (--write FILE keeps them for fcshim serve --config FILE):"
    return f"Calls can be had. Use them with: fcshim serve --config {file}"
