"""Long results, shortened: their beginning and their end, and how much was left out between them.

Rule: a result is shortened by its own length and a limit alone, so that it is written the same way in every request.
Neighbours: `turns` shortens what is longer than one result may be, `budget` what a long conversation has no room for.
"""

from fcshim.messages import Content, MediaPart, TextPart, text_of

DEFAULT_MAX_RESULT = 64 * 1024
"""Characters of one result: some 16,000 tokens, half of the context that models are mostly run with at home. A longer
one leaves no room to answer, and where the engine moves its window instead of refusing, the model forgets its tools."""


def shorten(text: str, limit: int) -> str:
    """Give at most `limit` characters of the text: two thirds of them its beginning, the others its end. 0: all."""
    if not limit or len(text) <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    return f"{text[:head]}\n[... {len(text) - limit:,} characters left out ...]\n{text[len(text) - tail :]}"


def shorten_content(content: Content, limit: int) -> Content:
    """Shorten the text of a result; its media stay."""
    text = text_of(content)
    if not limit or len(text) <= limit:
        return content
    return (TextPart(shorten(text, limit)), *(part for part in content if isinstance(part, MediaPart)))
