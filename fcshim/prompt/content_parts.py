"""The content parts of messages: joining, escaping, shortening, and placeholders for media.

Rule: adjacent text parts are always joined before they are escaped, since a marker could be split over two of them.
A long result is shortened to its start and end, depending only on the text and the limit, so that every request writes
it the same way.
"""

from collections.abc import Iterable

from fcshim.messages import Content, MediaPart, TextPart, placeholder, text_of
from fcshim.prompt.escape import Escaper

DEFAULT_MAX_RESULT = 64 * 1024
"""Characters of one result, about 16,000 tokens: half of the context with which local models are usually run. A longer
result leaves too little context for the reply, and an engine that shifts its context drops the tools from it."""


def remembered_content(content: Content, escape: Escaper, *, media: bool = True) -> Content:
    """Do what `escape_content` does, from memory if the same content was escaped before."""
    if has_media_part(content):
        return escape_content(content, escape, media=media)

    def texts(escaped: Content) -> tuple[str, str]:
        return text_of(content), text_of(escaped)

    return escape.remembered(content, lambda: escape_content(content, escape), texts)


def has_media_part(content: Content) -> bool:
    """Return whether a part is media, which is large, and costs nothing to write."""
    return any(isinstance(part, MediaPart) for part in content)


def escape_content(content: Content, escape: Escaper, *, media: bool = True) -> Content:
    """Join adjacent texts and escape their markers; without `media`, a placeholder text replaces each media part."""
    return tuple(
        TextPart(escape(part.text)) if isinstance(part, TextPart) else part
        for part in join_contents([tuple(part if media else as_text_part(part) for part in content)], "")
    )


def as_text_part(part: TextPart | MediaPart) -> TextPart:
    """Return a text part as it is, and a placeholder text for a media part."""
    if isinstance(part, TextPart):
        return part
    return placeholder(part)


def join_contents(contents: Iterable[Content], separator: str) -> Content:
    """Join nonempty contents with a separator; adjacent texts become one part."""
    parts: list[TextPart | MediaPart] = []
    texts: list[str] = []  # joined once: a turn may have thousands of texts

    def end_text() -> None:
        if texts:
            parts.append(TextPart("".join(texts)))
            texts.clear()

    for content in contents:
        gap = separator if parts or texts else ""
        for part in content:
            if isinstance(part, MediaPart):
                end_text()
                parts.append(part)
            elif part.text:
                texts += (gap, part.text)
            else:
                continue
            gap = ""
    end_text()
    return tuple(parts)


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
