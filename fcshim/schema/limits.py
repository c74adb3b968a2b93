"""Limits on the schemas of tools, and on the steps of work with them.

Rule: a larger or deeper schema is refused before any other code reads it; the error names the tool, the limit and the
actual size; nothing here recurses, because a schema may be hostile. Steps are counted, never time, so that the same
input gives the same result on every machine.
"""

import msgspec

from fcshim.errors import RequestError
from fcshim.events import JSON


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the tools of one parser, client or request.

    They are wider than the codecs' limits, which apply to remote clients: a request that a codec accepted is never
    refused later, not even after the escaping of markers made it longer.
    """

    tools: int = 512
    """Four times what OpenAI's API allows; more tools fill any context with their names and schemas."""
    schema_bytes: int = 512 * 1024
    """One schema as JSON: some 128,000 tokens of prompt."""
    schema_depth: int = 64
    """Levels of nesting in one schema: real ones stay under 15, and deep ones attack recursive readers."""


DEFAULT_TOOL_LIMITS = ToolLimits()


def check_schema(schema: JSON, owner: str, limits: ToolLimits = DEFAULT_TOOL_LIMITS, *, param: str) -> None:
    """Raise `RequestError` for a schema beyond the limits or not JSON; `owner` names it in the message."""
    try:
        text = msgspec.json.encode(schema)
    except RecursionError:
        raise _too_deep(owner, limits, param) from None
    except (TypeError, ValueError) as error:
        raise RequestError(f"{owner}: expected a schema that is JSON, but {error}", param=param) from None
    if len(text) > limits.schema_bytes:
        raise RequestError(
            f"{owner}: the schema takes {len(text)} bytes as JSON, at most {limits.schema_bytes} are allowed",
            param=param,
        )
    if may_exceed_depth(text, limits.schema_depth) and exceeds_depth(schema, limits.schema_depth):
        raise _too_deep(owner, limits, param)


def _too_deep(owner: str, limits: ToolLimits, param: str) -> RequestError:
    return RequestError(
        f"{owner}: the schema is nested deeper than {limits.schema_depth} levels, the most that are allowed",
        param=param,
    )


def may_exceed_depth(text: bytes, max_depth: int) -> bool:
    """Return false only if a JSON text has at most `max_depth` brackets; 100 times faster than `exceeds_depth`."""
    return len(text) - len(text.translate(None, b"{[")) > max_depth


def exceeds_depth(value: JSON, max_depth: int) -> bool:
    """Return whether `value` nests more than `max_depth` arrays and objects; never recurses."""
    level = [value]
    for _ in range(max_depth + 1):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return True


def _children(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


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
