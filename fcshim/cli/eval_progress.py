"""The progress of `fcshim eval`: a bar per dialect on stderr, with the number of right results.

Rule: bars are drawn only on a terminal; results of an earlier run are not counted.
"""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fcshim.evaluate.plan import EvalPlan
from fcshim.evaluate.result import Result
from fcshim.evaluate.result_file import ResultFile


class EvalProgress:
    """The progress bars, drawn while the context manager is entered."""

    def __init__(self, plan: EvalPlan, result_file: ResultFile, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
        )
        self._bars = Bars(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
        self._right: dict[str, int] = {}
        self._tasks: dict[str, TaskID] = {}
        cases = plan.cases()
        for dialect in plan.labels():
            waiting = sum(not result_file.has(dialect, case.id) for case in cases)
            self._right[dialect] = 0
            self._tasks[dialect] = self._bars.add_task(dialect, total=waiting, status="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def add(self, result: Result) -> None:
        """Count one result."""
        self._right[result.dialect] += result.right
        task = self._tasks[result.dialect]
        self._bars.update(task, advance=1, status=f"{self._right[result.dialect]} right")
