"""Shortens the last turns of a conversation for a user who resumes it.

Rule: questions and answers are shown, calls by their names; the markup of a call that did not run is not.
"""

from collections.abc import Iterator, Sequence

from fcshim.chat.call_markup import without_markup
from fcshim.messages import AssistantMessage, MediaPart, Message, TextPart, UserMessage

_TURNS = 3
_ROWS = 4
"""Lines of one text."""
_COLUMNS = 160
"""Characters of such a line."""


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return where each turn begins: at a message of the user's that follows none."""
    return [
        at
        for at, message in enumerate(messages)
        if isinstance(message, UserMessage) and not (at and isinstance(messages[at - 1], UserMessage))
    ]


def recap(messages: Sequence[Message]) -> list[str]:
    """Return the last turns as lines; none for a conversation without any."""
    starts = turn_starts(messages)
    if not starts:
        return []
    shown = starts[-_TURNS:]
    head = "the last turn" if len(shown) == 1 else f"the last {len(shown)} turns"
    rows = [f"{head} of {len(starts)}:" if len(starts) > len(shown) else f"{head}:"]
    for message in messages[shown[0] :]:
        rows += _rows(message)
    return rows


def _rows(message: Message) -> Iterator[str]:
    match message:
        case UserMessage():
            first, *rest = _shorten(_text(message)) or [""]
            yield f"› {first}"
            yield from (f"  {row}" for row in rest)
        case AssistantMessage():
            yield from (f"  {row}" for row in _shorten(without_markup(_text(message))))
            if message.tool_calls:
                yield f"  ● {', '.join(dict.fromkeys(call.name for call in message.tool_calls))}"


def _text(message: UserMessage | AssistantMessage) -> str:
    parts = []
    for part in message.content:
        if isinstance(part, TextPart):
            parts.append(part.text)
        elif isinstance(part, MediaPart):
            parts.append(f"[{part.media_type}]")
    return "\n".join(parts)


def _shorten(text: str) -> list[str]:
    rows = [row for row in text.split("\n") if row.strip()]
    shown = [row if len(row) <= _COLUMNS else f"{row[:_COLUMNS]}…" for row in rows[:_ROWS]]
    return [*shown, f"… {len(rows) - _ROWS} more lines"] if len(rows) > _ROWS + 1 else [*shown, *rows[_ROWS:]]
