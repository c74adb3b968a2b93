"""What a tool gives back.

Rule: one form for success and failure; a failure's text is written for the model, which reads it and tries again.
Neighbours: every kind of tool makes one, `agent` turns it into a `ToolMessage`.
"""

import json

import msgspec

from fcshim.events import JSON
from fcshim.messages import Content, Part, TextPart, text_of


class ToolResult(msgspec.Struct, frozen=True):
    """The outcome of one call; `structured` is the same as a JSON value, where the tool gives one.

    After a `final` one the model is not asked again: the text is what the agent answers.
    """

    content: Content
    is_error: bool = False
    structured: JSON = None
    final: bool = False

    @property
    def text(self) -> str:
        """The text of the content; media are left out."""
        return text_of(self.content)

    @property
    def flat_text(self) -> str:
        """All of it in words: `[Image: image/png]` stands for a picture, and lines part the pieces."""
        return "\n".join(map(_part_text, self.content))


def succeeded(value: JSON) -> ToolResult:
    """Wrap what a function returned: a string as it is, anything else as JSON, `None` as `null`.

    A value that has no JSON form is written as `str` writes it: the model reads it either way.
    """
    return ToolResult(content=(TextPart(_value_text(value)),))


def failed(message: str) -> ToolResult:
    """Wrap what went wrong."""
    return ToolResult(content=(TextPart(message),), is_error=True)


def _part_text(part: Part) -> str:
    if isinstance(part, TextPart):
        return part.text
    kind = part.media_type.partition("/")[0]
    return f"[{kind.capitalize() if kind in ('image', 'audio', 'video') else 'Media'}: {part.media_type}]"


def _value_text(value: JSON) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=str), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
