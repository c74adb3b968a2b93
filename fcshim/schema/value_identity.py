"""Give equal JSON values the same key, so that lists of values can be searched by a set.

Rule: equal as JSON Schema says (1 equals 1.0, true does not equal 1); linear in the size of the values.
"""

from collections.abc import Hashable, Iterable

from fcshim.events import JSON
from fcshim.schema.limits import StepLimit


class ValueIdentity:
    """Keys of values, as long as the values live."""

    def __init__(self, steps: StepLimit) -> None:
        self._steps = steps
        self._numbers: dict[tuple[Hashable, ...], int] = {}
        self._containers: dict[int, Hashable] = {}

    def key(self, value: JSON) -> Hashable:
        """Return the key of a value: scalars are their own, but booleans equal numbers in Python."""
        if isinstance(value, bool):
            return ("boolean", value)
        return self._container_key(value) if isinstance(value, dict | list) else value

    def keys(self, values: list[JSON]) -> Iterable[Hashable]:
        """Return the keys of several values. Raises `StepLimitError`."""
        self._steps.spend(len(values))
        return [value if type(value) is str else self.key(value) for value in values]

    def _container_key(self, value: JSON) -> Hashable:
        found = self._containers.get(id(value))
        if found is None:
            self._steps.spend(4)
            if isinstance(value, list):
                content = ("array", *self.keys(value))
            else:
                names = sorted(value)
                content = ("object", *names, *self.keys([value[name] for name in names]))
            # A number, because the hash of a nested tuple is computed each time.
            found = ("container", self._numbers.setdefault(content, len(self._numbers)))
            self._containers[id(value)] = found
        return found
