"""Read the words and strings of a literal notation.

Rule: a word is kept until it has ended; the content of a string is sent while it comes.
Neighbours: `quoted` is what strings have in common, `body` says where they stand, the languages how they are written.
"""

import re
from abc import abstractmethod

from fcshim.parse.literals.calls import BEGIN, CONTENT, END, LiteralCalls, MalformedError
from fcshim.parse.literals.quoted_strings import QuotedString, json_escape

_MAX_NAME_LENGTH = 256


class LiteralScalars(LiteralCalls):
    """Reads what is not in brackets."""

    def _reset_call(self) -> None:
        super()._reset_call()
        self._token: list[str] = []
        self._token_size = 0
        self._string: QuotedString | None = None

    @abstractmethod
    def _put_item_start(self, pos: int) -> None:
        """Write what stands before an item; it begins, or ended, at `pos`."""

    @abstractmethod
    def _after_item(self, text: str, pos: int) -> int:
        """Behind a value or a key."""

    # Words.

    def _gather(self, pattern: re.Pattern[str], text: str, pos: int) -> int:
        """Keep a part of a word, as far as the pattern matches; gives its end."""
        found = pattern.match(text, pos)
        assert found is not None
        self._token.append(found[0])
        self._token_size += len(found[0])
        return found.end()

    def _gather_word(self, pattern: re.Pattern[str], text: str, pos: int) -> tuple[int, bool]:
        """Keep a part of a word of the arguments; gives where it ends, and whether what follows it can be seen."""
        end = self._gather(pattern, text, pos)
        if self._token_size > self._limits.number:
            self._fail_and_skip("limit", f"a word of more than {self._limits.number} characters")
            return end, False
        return end, end < len(text)

    @property
    def _fits_name(self) -> bool:
        """Whether what was gathered is short enough for a tool's name: what is longer is no call."""
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
        """Write a whole string, as JSON spells its content."""
        self._put(BEGIN, '"')
        self._put(CONTENT, content)
        self._put(END, '"')

    def send_string_piece(self, text: str) -> bool:
        """Send `text` at once if it lies wholly inside a string of the arguments; else do nothing. The quick way."""
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
        """Give the call up; if a closing marker stood in the string, the body ended there."""
        behind = string.text_after_marker()
        if behind is None:
            raise MalformedError(string.defect, pos)
        self._abandon_call("malformed", string.defect)
        self.unread = "" if self._is_text else behind
        self._end_at_once()

    def _text_after_end_marker(self) -> str | None:
        return self._string.text_after_marker() if self._string is not None else None
