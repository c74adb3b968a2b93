"""The contents of messages, put together: texts joined, made harmless, media described.

Rule: texts never touch without having been joined, since a marker could be spread over two of them.
Neighbours: `turns` and `history` make the contents of turns with these.
"""

from collections.abc import Iterable

from fcshim.messages import Content, MediaPart, TextPart, placeholder
from fcshim.prompt.neutralise import Neutraliser


def cleaned(content: Content, neutralise: Neutraliser, *, media: bool = True) -> Content:
    """Join adjacent texts and neutralise them; without `media`, a line says that there was an image."""
    return tuple(
        TextPart(neutralise(part.text)) if isinstance(part, TextPart) else part
        for part in joined([tuple(part if media else described(part) for part in content)], "")
    )


def described(part: TextPart | MediaPart) -> TextPart:
    """Give a text for any part."""
    if isinstance(part, TextPart):
        return part
    return placeholder(part)


def joined(contents: Iterable[Content], separator: str) -> Content:
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
