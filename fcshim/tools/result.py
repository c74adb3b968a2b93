"""The result of a tool call.

Rule: success and failure have the same type; the text of a failure is written for the model, which reads it and
retries.
"""

import json

import msgspec

from fcshim.events import JSON
from fcshim.messages import Content, TextPart, text_of
from fcshim.tools.value_type import to_plain


class ToolResult(msgspec.Struct, frozen=True):
    """The outcome of one call; `structured` is the same content as a JSON value, if the tool gives one.

    A `final` result ends the turn without another request to the model: its text is the agent's answer.
    """

    content: Content
    is_error: bool = False
    structured: JSON = None
    final: bool = False

    @property
    def text(self) -> str:
        """The text of the content, without media."""
        return text_of(self.content)

    @property
    def flat_text(self) -> str:
        """All content as text, a line break between parts; `[Image: image/png]` stands for an image."""
        texts = []
        for part in self.content:
            if isinstance(part, TextPart):
                texts.append(part.text)
            else:
                kind = part.media_type.partition("/")[0]
                label = kind.capitalize() if kind in ("image", "audio", "video") else "Media"
                texts.append(f"[{label}: {part.media_type}]")
        return "\n".join(texts)


def succeeded(value: JSON) -> ToolResult:
    """Wrap a function's return value: a string unchanged, any other value as JSON, None as `null`.

    A value without a JSON form becomes `str(value)`: the model can read that too.
    """
    return ToolResult(content=(TextPart(_value_text(value)),))


def failed(message: str) -> ToolResult:
    """Return an error result with this message."""
    return ToolResult(content=(TextPart(message),), is_error=True)


def _value_text(value: JSON) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(to_plain(value, str), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
