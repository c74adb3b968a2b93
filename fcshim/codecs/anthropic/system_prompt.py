"""The system prompt of a request: its blocks, without the lines that clients write for their provider alone.

Rule: a line is left out only if a row of the table names it. Such a line differs between conversations, or between
requests, and stands before everything else: the server would read the whole prompt anew.
"""

import re
from typing import Final

from fcshim.messages import Content, Part, TextPart

CLIENT_LINES: Final = {
    "x-anthropic-billing-header": "Claude Code; it differs between conversations, in older versions each time"
}
"""Names of lines `NAME: value` at the front of a system prompt, and who writes them."""
_LINES = re.compile(rf"\A(?:\s*(?:{'|'.join(CLIENT_LINES)}):[^\n]*(?:\n|\Z))+\s*")


def read_system_prompt(content: Content) -> Content:
    """Return the content of a system prompt without the client's lines; a line break ends each block but the last."""
    kept = [part for part in map(_without_lines, content) if not isinstance(part, TextPart) or part.text]
    return (*map(_with_line_end, kept[:-1]), *kept[-1:])


def _without_lines(part: Part) -> Part:
    return TextPart(_LINES.sub("", part.text), part.document) if isinstance(part, TextPart) else part


def _with_line_end(part: Part) -> Part:
    if not isinstance(part, TextPart) or part.text.endswith("\n"):
        return part
    return TextPart(f"{part.text}\n", part.document)
