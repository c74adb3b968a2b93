"""Classifies the outcome of each call that a model tried to make, for statistics.

Rule: the outcome is derived afterwards from the model's text, the event and the defects, at no cost to the parser.
Repairs are recognised only in dialects with JSON; elsewhere a repaired call counts as clean.
"""

from typing import Literal, NamedTuple

from fcshim.events import ToolCallEnd
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape

CallOutcome = Literal[
    "clean",
    "repaired",
    "coerced",
    "rescued",
    "mended",
    "relayed",
    "not_offered",
    "malformed",
    "truncated",
    "invalid",
    "limit",
]
"""First the calls that may run: `rescued` was written in another dialect, `mended` came in a retry, `relayed` passed
unread. The others may not."""

_OF_DEFECTS: dict[str, CallOutcome] = {"unoffered": "not_offered", "unreadable": "malformed"}
"""Defects without a reported call; every other defect is reported at the call's end."""


class ParseRecord(NamedTuple):
    """How the reply of an attempt was read. `dialect` is None where the upstream reads the calls itself."""

    dialect: Dialect | None = None
    text: str = ""
    """The model's text, as far as it is kept."""
    is_complete: bool = True
    """Whether `text` is all of the model's text."""
    defects: tuple[str, ...] = ()
    """The kinds of the defects (`AttemptDefect.kind`)."""
    backend: str = ""
    """The name of the backend for which the request was made."""


def outcome_of(
    call: ToolCallEnd, record: ParseRecord, *, is_retry: bool = False, has_defect: bool = False
) -> CallOutcome:
    """Return the outcome of a call that has ended. `has_defect`: no retry corrected it."""
    if call.error is not None:
        return call.error.kind
    if has_defect:
        return "invalid"
    if is_retry:
        return "mended"
    dialect, text = record.dialect, record.text if record.is_complete else ""
    if (
        dialect is not None
        and text
        and dialect.body_openers()
        and not any(marker.strip() in text for marker in _openers(dialect))
    ):
        return "rescued"
    if call.coerced:
        return "coerced"
    has_json = dialect is not None and isinstance(dialect.body, JsonShape | HeaderShape)
    arguments = call.tool_call_arguments_complete
    # `in` alone first visits each character of a long part; its start is found, and what follows compared, at once.
    at = text.find(arguments[:64])
    is_verbatim = at >= 0 and (text.startswith(arguments, at) or arguments in text)
    return "repaired" if has_json and text and not is_verbatim else "clean"


def outcomes_of_defects(record: ParseRecord) -> list[CallOutcome]:
    """Return the outcomes of defects without a reported call."""
    return [_OF_DEFECTS[kind] for kind in record.defects if kind in _OF_DEFECTS]


def _openers(dialect: Dialect) -> tuple[str, ...]:
    return (*dialect.openers(), *dialect.section.openers(), *dialect.body_openers())
