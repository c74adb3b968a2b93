"""Arguments on their way to a client that acts as soon as they are whole JSON.

Rule: the last closing brace is held back until the call has ended well; when it ends badly, the arguments are spoiled
(see `spoil`). At no moment does a client hold complete arguments of a call that must not run.
Neighbours: the stream encoders of OpenAI's APIs, which send arguments in pieces.
"""

from fcshim.codecs.invalidate import invalidating_suffix


class BufferedArguments:
    """The arguments of one call; what `take` and `finish` give is what the client gets."""

    __slots__ = ("_buffered", "_sent")

    def __init__(self) -> None:
        self._buffered: list[str] = []
        self._sent: list[str] = []

    def feed(self, fragment: str) -> str:
        """Take the next piece; give what may be sent now."""
        if self._buffered or fragment.rstrip().endswith("}"):
            fragment = self._buffer_end(fragment)
        return self._record_sent(fragment)

    def close(self, *, valid: bool) -> str:
        """The call has ended; give the rest of its arguments, or what makes them unreadable."""
        return self._record_sent("".join(self._buffered) if valid else invalidating_suffix("".join(self._sent)))

    def sent_text(self) -> str:
        """Give all that was sent."""
        return "".join(self._sent)

    def _buffer_end(self, fragment: str) -> str:
        """Hold back what may be the last brace and white space after it; give what was held once more has come."""
        if self._buffered and (not fragment or fragment.isspace()):
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
