"""Delta debugging: the shortest text that still has a property.

Rule: every pass over the text removes something or makes the pieces smaller; the number of tries is limited.
"""

from collections.abc import Callable

MAX_TRIES = 20_000
"""Texts that are tried. One of 2,000 characters needs some hundred, each a millisecond of parsing."""


def shrink(text: str, keeps: Callable[[str], bool], *, max_tries: int = MAX_TRIES) -> str:
    """Return a text from which no single piece can be removed without losing the property `keeps`.

    Pieces of half of the text are tried first, then smaller ones, down to characters. `text` itself must have the
    property; it is returned unchanged if it does not. After `max_tries` the shortest text found so far is returned.
    """
    if not keeps(text):
        return text
    width = max(1, len(text) // 2)
    tries = 0
    while True:
        at, before = 0, len(text)
        while at < len(text):
            if tries == max_tries:
                return text
            tries += 1
            shorter = text[:at] + text[at + width :]
            if keeps(shorter):
                text = shorter
            else:
                at += width
        if width == 1 and len(text) == before:
            return text
        width = max(1, width // 2)
