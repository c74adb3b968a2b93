"""Streamed arguments of one call, for clients that run a call as soon as its arguments parse (the AI SDK does).

Rule: the last closing brace is buffered until the call has ended without error; after an error the arguments are
invalidated. A client never holds complete arguments of a call that must not run.
"""


class BufferedArguments:
    """The arguments of one call; the client receives exactly what `feed` and `close` return."""

    __slots__ = ("_buffered", "_sent")

    def __init__(self) -> None:
        self._buffered: list[str] = []
        self._sent: list[str] = []

    def feed(self, fragment: str) -> str:
        """Take the next fragment; return what may be sent now."""
        if self._buffered or fragment.rstrip().endswith("}"):
            fragment = self._buffer_end(fragment)
        return self._record_sent(fragment)

    def close(self, *, valid: bool) -> str:
        """End the call; return the buffered rest, or the characters that make the sent arguments invalid JSON."""
        return self._record_sent("".join(self._buffered) if valid else invalidating_suffix("".join(self._sent)))

    def sent_text(self) -> str:
        """Return everything that was sent so far."""
        return "".join(self._sent)

    def _buffer_end(self, fragment: str) -> str:
        """Buffer a trailing brace and the white space after it; return the text before them."""
        if self._buffered and (not fragment or fragment.isspace()):
            # Collected and joined later: joining on every fragment is quadratic for endless white space.
            self._buffered.append(fragment)
            return ""
        text = "".join(self._buffered) + fragment
        end = len(text.rstrip())
        cut = end - 1 if text[end - 1 : end] == "}" else len(text)
        self._buffered = [text[cut:]] if cut < len(text) else []
        return text[:cut]

    def _record_sent(self, fragment: str) -> str:
        if fragment:
            self._sent.append(fragment)
        return fragment


def invalidating_suffix(arguments: str) -> str:
    """Return the characters that make a prefix of one JSON object invalid: neither JSON nor a prefix of JSON.

    They close a bracket that is not open. Measured: LangChain completes a truncated `{"path": "/e` to `{"path": "/e"}`
    and runs the call, whatever the finish reason says; with the suffix it is an invalid call there, as in every strict
    reader.
    """
    opened, in_string, escaped = _scan_brackets(arguments)
    # After a backslash the first quote is an escaped character, so that a second one is needed to close the string.
    quote = ('"' if escaped else "") + '"' if in_string else ""
    if not arguments.strip():
        return "{]"
    return quote + ("}" if opened[-1:] == ["["] else "]")


def _scan_brackets(text: str) -> tuple[list[str], bool, bool]:
    """Return the brackets open at the end, whether the end is inside a string, and whether a backslash precedes it."""
    opened: list[str] = []
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped = character == "\\"
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            opened.append(character)
        elif character in "}]" and opened:
            opened.pop()
    return opened, in_string, escaped
