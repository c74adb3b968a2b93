"""The system prompt of a request: its blocks, without the lines that clients write for their provider alone.

Rule: a line is left out only if a row of the table names it. Such a line differs between conversations, or between
requests, and stands before everything else: the server would read the whole prompt anew.
"""

import re
from typing import Final

from fcshim.messages import Content, TextPart

CLIENT_LINES: Final = {
    "x-anthropic-billing-header": "Claude Code; it differs between conversations, in older versions each time"
}
"""Names of lines `NAME: value` at the front of a system prompt, and who writes them."""
_LINES = re.compile(rf"\A(?:\s*(?:{'|'.join(CLIENT_LINES)}):[^\n]*(?:\n|\Z))+\s*")


def read_system_prompt(content: Content) -> Content:
    """Return the content of a system prompt without the client's lines; a line break ends each block but the last."""
    texts = [_LINES.sub("", part.text) if isinstance(part, TextPart) else None for part in content]
    kept = [(part, text) for part, text in zip(content, texts, strict=True) if text != ""]
    return tuple(
        part
        if text is None or not isinstance(part, TextPart)
        else TextPart(_ended(text, last=at == len(kept)), part.document)
        for at, (part, text) in enumerate(kept, 1)
    )


def _ended(text: str, *, last: bool) -> str:
    return text if last or text.endswith("\n") else f"{text}\n"
