"""Shortens long results to their start and end, with the number of characters left out between them.

Rule: the outcome depends only on the text and the limit, so that a result is written the same way in every request.
"""

from fcshim.messages import Content, MediaPart, TextPart, text_of

DEFAULT_MAX_RESULT = 64 * 1024
"""Characters of one result, about 16,000 tokens: half of the context with which local models are usually run. A longer
result leaves too little context for the reply, and an engine that shifts its context drops the tools from it."""


def shorten(text: str, limit: int) -> str:
    """Keep `limit` characters of the text, two thirds from its start and the rest from its end; 0 keeps all."""
    if not limit or len(text) <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    return f"{text[:head]}\n[... {len(text) - limit:,} characters left out ...]\n{text[len(text) - tail :]}"


def shorten_content(content: Content, limit: int) -> Content:
    """Shorten the text of a result; media parts are kept."""
    text = text_of(content)
    if not limit or len(text) <= limit:
        return content
    return (TextPart(shorten(text, limit)), *(part for part in content if isinstance(part, MediaPart)))
