"""Count the steps of work on a schema, so that none of it can take long.

Rule: steps are counted, never time, so that the same input gives the same result on every machine.
"""


class StepLimitError(Exception):
    """The work needs more steps than are left."""


class StepLimit:
    """A number of steps for one value or for all values of a reply; each takes about a microsecond."""

    __slots__ = ("remaining",)

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining

    def spend(self, steps: int) -> None:
        """Take steps. Raises `StepLimitError` if fewer are left, now and at every later call."""
        self.remaining -= steps
        if self.remaining < 0:
            raise StepLimitError

    def part(self, steps: int) -> "StepLimit":
        """Return a limit for one value, which takes its steps from this one as well."""
        return _PartialStepLimit(min(steps, self.remaining), self)


class _PartialStepLimit(StepLimit):
    __slots__ = ("_whole",)

    def __init__(self, remaining: int, whole: StepLimit) -> None:
        super().__init__(remaining)
        self._whole = whole

    def spend(self, steps: int) -> None:
        self._whole.remaining -= steps
        super().spend(steps)
