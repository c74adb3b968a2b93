"""Read the words and strings inside literal arguments.

Rule: a word is collected until its end; the content of a string is sent as it arrives.
"""

import re
from abc import abstractmethod

from fcshim.parse.literals.calls import BEGIN, CONTENT, END, LiteralCalls, MalformedError
from fcshim.parse.literals.quoted_strings import QuotedString, json_escape

_MAX_NAME_LENGTH = 256
"""Characters of a tool name. Bounds the text that is held back before it turns out not to be a call."""


class LiteralScalars(LiteralCalls):
    """Reads words and strings; a subclass reads the brackets around them."""

    def _reset_call(self) -> None:
        super()._reset_call()
        self._token: list[str] = []
        self._token_size = 0
        self._string: QuotedString | None = None

    @abstractmethod
    def _put_item_start(self, pos: int) -> None:
        """Write what precedes an item (an argument name), or buffer the item where it may be a key."""

    @abstractmethod
    def _after_item(self, text: str, pos: int) -> int:
        """After a value or a key."""

    # Words.

    def _gather(self, pattern: re.Pattern[str], text: str, pos: int) -> int:
        """Collect the part of a word that the pattern matches; return its end."""
        found = pattern.match(text, pos)
        assert found is not None
        self._token.append(found[0])
        self._token_size += len(found[0])
        return found.end()

    def _gather_word(self, pattern: re.Pattern[str], text: str, pos: int) -> tuple[int, bool]:
        """Collect a part of a word; return its end and whether the word is complete (text follows it)."""
        end = self._gather(pattern, text, pos)
        if self._token_size > self._limits.number:
            self._fail_and_skip("limit", f"a word of more than {self._limits.number} characters")
            return end, False
        return end, end < len(text)

    @property
    def _fits_name(self) -> bool:
        """Whether the collected word is short enough for a tool name; a longer one is not a call."""
        return self._token_size <= _MAX_NAME_LENGTH

    def _take_token(self) -> str:
        token = "".join(self._token)
        self._token.clear()
        self._token_size = 0
        return token

    # Strings.

    def _begin_string(self, string: QuotedString, pos: int) -> None:
        self._put_item_start(pos)
        self._put(BEGIN, '"')
        self._string = string
        self.in_content = False
        self._state = self._in_string

    def _put_string(self, content: str) -> None:
        """Write a complete string; `content` is JSON-escaped."""
        self._put(BEGIN, '"')
        self._put(CONTENT, content)
        self._put(END, '"')

    def send_string_piece(self, text: str) -> bool:
        """Send `text` if it lies wholly inside a string of the arguments (the fast path); else return False."""
        string = self._string
        assert string is not None
        if string.syntax.fullmatch_json_content(text) is None:
            if string.syntax.fullmatch_content(text) is None:
                return False
            text = json_escape(text)
        return self._sink.fits(len(text)) and self._sink.add_chunk(text)

    def _in_string(self, text: str, pos: int) -> int:
        string = self._string
        assert string is not None
        streams, self.in_content = self.in_content, False
        pos = string.read(text, pos, final=self._final)
        piece = string.take()
        if piece:
            if streams and self._sink.fits(len(piece)):
                self._sink.add_chunk(piece)
            else:
                self._put(CONTENT, piece)
        if string.defect:
            self._reject_string(string, pos)
        elif string.closed:
            return self._end_string(text, pos)
        else:
            self._wait = string.wait
            if string.streams:
                self.in_content = streams or (
                    not self._discarding and not self._buffer.levels and self._writer.streams_string
                )
        return pos

    def _end_string(self, _text: str, pos: int) -> int:
        self._string = None
        self._put(END, '"')
        self._state = self._after_item
        return pos

    def _reject_string(self, string: QuotedString, pos: int) -> None:
        """Abandon the call. If the string contains an end marker, the body ended at that marker."""
        after_marker = string.text_after_marker()
        if after_marker is None:
            raise MalformedError(string.defect, pos)
        self._abandon_call("malformed", string.defect)
        self.unread = "" if self._is_text else after_marker
        self._end_at_once()

    def _text_after_end_marker(self) -> str | None:
        return self._string.text_after_marker() if self._string is not None else None
