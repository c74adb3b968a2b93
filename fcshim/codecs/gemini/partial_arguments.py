"""Arguments that arrive in pieces, each with its path: `$.city`, `$.days[0].name`.

Rule: the pieces are assembled into one object. A piece that does not fit (a path through a text, a gap in a list) makes
the call malformed, never the stream. Lists grow by one item at a time, so that no path can create a large one; pieces
beyond `max_chars` are dropped.
"""

import re

from fcshim.codecs.gemini.wire import PartialArg
from fcshim.events import JSON

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_MAX_DEPTH = 64
"""Steps of a path; the arguments of real calls are much flatter."""


class PartialArguments:
    """Assembles the arguments of one call."""

    def __init__(self, max_chars: int) -> None:
        self._chars_left = max_chars
        self.value: dict[str, JSON] = {}
        self.invalid = False
        self._open_path: str | None = None  # of the text that continues
        self._open_text: list[str] = []

    def add(self, piece: PartialArg) -> None:
        """Add a piece."""
        self._chars_left -= len(piece.json_path) + len(piece.string_value or "")
        if self._chars_left < 0:
            self.invalid = True
            return
        if self._open_path is not None and piece.json_path != self._open_path:
            self.finish()
        if piece.string_value is not None:
            self._open_path = piece.json_path
            self._open_text.append(piece.string_value)
            if not piece.will_continue:
                self.finish()
        else:
            self._assign(piece.json_path, _value(piece))

    def finish(self) -> None:
        """End the open text, if there is one."""
        if self._open_path is not None:
            path, self._open_path = self._open_path, None
            self._assign(path, "".join(self._open_text))
            self._open_text.clear()

    def _assign(self, path: str, value: JSON) -> None:
        steps = _parse_path(path)
        if not steps or isinstance(steps[0], int):
            self.invalid = True
            return
        container: JSON = self.value
        for step, next_step in zip(steps, [*steps[1:], None], strict=True):
            is_last = next_step is None
            container = self._descend(
                container, step, value if is_last else [] if isinstance(next_step, int) else {}, last=is_last
            )
            if self.invalid:
                return

    def _descend(self, container: JSON, step: str | int, new: JSON, *, last: bool) -> JSON:
        """Go one step down, and insert `new` if nothing is there yet."""
        if isinstance(step, str) and isinstance(container, dict):
            if last:
                container[step] = new
            return container.setdefault(step, new)
        if isinstance(step, int) and isinstance(container, list) and step <= len(container):
            if step == len(container):
                container.append(new)
            elif last:
                container[step] = new
            return container[step]
        self.invalid = True
        return None


def _parse_path(path: str) -> list[str | int]:
    """Parse a path; an invalid one gives no steps."""
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and position < len(path) and len(steps) < _MAX_DEPTH:
        match = _STEP.match(path, position)
        if match is None:
            return []
        steps.append(int(match[2]) if match[2] else match[1] or match[3] or match[4] or "")
        position = match.end()
    return steps if position == len(path) else []


def _value(piece: PartialArg) -> JSON:
    return piece.bool_value if piece.number_value is None else piece.number_value
