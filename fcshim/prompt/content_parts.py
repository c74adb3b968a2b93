"""The contents of messages, put together: texts joined, made harmless, media described.

Rule: texts never touch without having been joined, since a marker could be spread over two of them.
Neighbours: `turns` and `history` make the contents of turns with these.
"""

from collections.abc import Iterable

from fcshim.messages import Content, MediaPart, TextPart, placeholder
from fcshim.prompt.escape import Escaper


def escape_content(content: Content, escape: Escaper, *, media: bool = True) -> Content:
    """Join adjacent texts and neutralise them; without `media`, a line says that there was an image."""
    return tuple(
        TextPart(escape(part.text)) if isinstance(part, TextPart) else part
        for part in join_contents([tuple(part if media else as_text_part(part) for part in content)], "")
    )


def as_text_part(part: TextPart | MediaPart) -> TextPart:
    """Give a text for any part."""
    if isinstance(part, TextPart):
        return part
    return placeholder(part)


def join_contents(contents: Iterable[Content], separator: str) -> Content:
    """Join contents, with the separator between those that are not empty, into one whose texts never touch."""
    parts: list[TextPart | MediaPart] = []
    texts: list[str] = []  # joined once, since a turn may hold thousands of them

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
