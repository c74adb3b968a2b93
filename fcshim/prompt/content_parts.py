"""The content parts of messages: joining, escaping, and placeholders for media.

Rule: adjacent text parts are always joined before they are escaped, since a marker could be split over two of them.
"""

from collections.abc import Iterable

from fcshim.messages import Content, MediaPart, TextPart, placeholder
from fcshim.prompt.escape import Escaper


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
