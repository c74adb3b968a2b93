"""Arguments that come in pieces, each with its path: `$.city`, `$.days[0].name`.

Rule: pieces are put into one object; what does not fit (a path through a text, a list with gaps) ends the call as
malformed, never the stream. Lists grow by one item at a time, so that no path makes a large one.
Neighbours: the interpreter.
"""

import re

from fcshim.codecs.gemini.wire import PartialArg
from fcshim.events import JSON

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_MAX_DEPTH = 64
"""Steps of a path; arguments that a model writes stay far below."""


class PartialArguments:
    """The arguments of one call while they come in."""

    def __init__(self) -> None:
        self.value: dict[str, JSON] = {}
        self.invalid = False
        self._open_path: str | None = None  # the path of a text that goes on
        self._open_text: list[str] = []

    def add(self, piece: PartialArg) -> None:
        """Take a piece."""
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
        """Nothing more comes for the text that was open."""
        if self._open_path is not None:
            path, self._open_path = self._open_path, None
            self._assign(path, "".join(self._open_text))
            self._open_text.clear()

    def _assign(self, path: str, value: JSON) -> None:
        steps = _parse_path(path)
        if not steps or isinstance(steps[0], int):
            self.invalid = True
            return
        place: JSON = self.value
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            last = following is None
            place = self._descend(place, step, value if last else [] if isinstance(following, int) else {}, last=last)
            if self.invalid:
                return

    def _descend(self, container: JSON, step: str | int, new: JSON, *, last: bool) -> JSON:
        """Go one step down; where nothing is yet, `new` comes there."""
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
    """Take a path apart; nothing where it is none."""
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path) and len(steps) < _MAX_DEPTH:
        match = _STEP.match(path, at)
        if match is None:
            return []
        steps.append(int(match[2]) if match[2] else match[1] or match[3] or match[4] or "")
        at = match.end()
    return steps if at == len(path) else []


def _value(piece: PartialArg) -> JSON:
    return piece.bool_value if piece.number_value is None else piece.number_value
