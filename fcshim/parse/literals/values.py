"""Read the arguments of one call, written as literals (Python's or Gemma's): keys and values in nested brackets.

Theory of operation. The states:

    _before_item --string--> _in_string --> _after_value, or _after_key
                 --word--> (states of the syntax) --> the same
                 --bracket--> _before_item
    _after_key   --:--> _before_value, which is like _before_item
    _after_value --,--> _before_item
                 --closing bracket--> _after_value, or the end of the call

An expression that is not a literal is never evaluated: the call ends with `error: malformed`.

Rule: a state whose write raises has changed nothing before it; it is called again after the call was abandoned.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS
from fcshim.parse.body import PartialTokenError, disposed_state
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.limits import Limits
from fcshim.parse.literals.call import WRITING_ERRORS, LiteralCall
from fcshim.parse.literals.context import (
    ARGUMENTS,
    ARRAY,
    DICT,
    SPREAD,
    TUPLE,
    WRITTEN,
    BracketKind,
    OpenBracket,
    OpenBrackets,
    ends_key,
)
from fcshim.parse.literals.strings import LiteralError, LiteralStringSyntax, Matcher, StringReader

SPACE = re.compile(r"[ \t\r\n\f]*+")


class DoubtfulQuoteError(Exception):
    """Whether the quote at `pos` ends its string is decided at the end of the body."""

    def __init__(self, pos: int) -> None:
        super().__init__()
        self.pos = pos


class LiteralValues(ABC):
    """Reads arguments up to their closing bracket; a subclass adds the syntax of one language.

    Its states raise `LiteralError`, `PartialTokenError` and `DoubtfulQuoteError`, and what a write raises.
    """

    _next_patterns: ClassVar[dict[BracketKind, Matcher]] = {}
    """Fast patterns for what follows a value in a bracket: a comma and the next value (see `fast_patterns`); the group
    `key` is the next key."""
    _fast_literals: ClassVar[dict[str, str]] = {}
    """The JSON of the atoms in these patterns that JSON writes in another way."""

    def __init__(self, call: LiteralCall, dialect: Dialect, limits: Limits) -> None:
        self.read_next: Callable[[str, int], int] = self._before_item
        """The state: reads the next part of the arguments."""
        self.context = OpenBrackets(call, dialect, self._next_patterns)
        self.brackets = self.context.stack
        """The open brackets; empty outside a call."""
        self.quotes_escaped = False
        """True in text whose inner quotes were escaped: every quote ends its string."""
        self._call = call
        self._progress = call.progress
        self._token = dialect.quote
        self._limits = limits
        self._end_markers = compiled_closers(dialect)
        self.string = StringReader(call, self._end_markers, limits)
        self._has_name = False
        """True after the name of an argument."""

    def begin(self, closer: str, enclosing: str) -> None:
        """Begin the arguments after their opening bracket; `enclosing` closes the brackets around the call."""
        self.brackets[:] = [OpenBracket(ARGUMENTS, closer, enclosing, 0)]
        self.string.key = None
        self.read_next = self._before_item

    def dispose(self) -> None:
        """Break the reference cycle through the bound state method."""
        self.read_next = disposed_state

    @property
    def in_content(self) -> bool:
        """True inside a string whose content may go directly to the sink."""
        if self.read_next != self._in_string or self.string.key is not None:
            return False
        writer = self._call.writer
        return writer.arguments.streams and writer.buffer.source is None

    def text_after_marker(self) -> str | None:
        """Return the text after an end marker in the open string; None where no marker is pending."""
        source = self._call.writer.buffer.source
        return None if source is None or self.read_next != self._in_string else "".join(source[1:])

    # The syntax.

    def skip_space(self, text: str, pos: int) -> int:
        """Return the end of the white space (and comments) at `pos`, which is not the end of the text."""
        found = SPACE.match(text, pos) if text[pos] <= " " else None
        return pos if found is None else found.end()

    @abstractmethod
    def _read_value(self, text: str, pos: int) -> int:
        """Read the start of a value."""

    @abstractmethod
    def _read_key(self, text: str, pos: int) -> int:
        """Read the start of a key."""

    def _read_argument(self, text: str, pos: int) -> int:
        """Read the start of an argument."""
        return self._read_key(text, pos)

    # Items.

    def _before_value(self, text: str, pos: int) -> int:
        pos = self.skip_space(text, pos)
        return pos if pos == len(text) else self._read_value(text, pos)

    def _before_item(self, text: str, pos: int) -> int:
        """Before an argument, a key or an item of an array, or before the closing bracket."""
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        bracket = self.brackets[-1]
        kind = bracket.kind
        if text[pos] == bracket.closer:
            return self._close_bracket(pos)
        if kind is ARGUMENTS:
            return self._read_argument(text, pos)
        return self._read_key(text, pos) if kind is DICT or kind is SPREAD else self._read_value(text, pos)

    def _after_key(self, text: str, pos: int) -> int:
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] not in ":：":
            raise LiteralError("expected a colon", pos)
        self.read_next = self._before_value
        return pos + 1

    def _after_value(self, text: str, pos: int) -> int:
        """After a value, where a fast pattern may follow."""
        bracket = self.brackets[-1]
        if text[pos] == bracket.closer:
            return self._close_bracket(pos)
        if bracket.kind in self._next_patterns:
            found = self._next_patterns[bracket.kind](text, pos)
            if found is not None:
                if found.lastgroup in COMPLETE_GROUPS:
                    return self._read_fast_item(bracket, found)
                self._progress.need_more(pos)
        self.read_next = self._after_value_slow
        return self._after_value_slow(text, pos)

    def _read_fast_item(self, bracket: OpenBracket, found: re.Match[str]) -> int:
        """Read the comma, the key and the value that a fast pattern matched."""
        try:
            if bracket.kind is ARRAY or bracket.kind is TUPLE:
                bracket.has_comma = True
            else:
                self._write_key(bracket, found["key"])
            if found.lastgroup == "atom":
                atom = found["atom"]
                self._write_atom(self._fast_literals.get(atom, atom))
                return found.end()
            self.read_next = self._before_value
            return self._read_value(found.string, found.end())
        except WRITING_ERRORS as error:
            self._call.abandon_unwritable(error)
            return self._read_fast_item(bracket, found)

    def _after_value_slow(self, text: str, pos: int) -> int:
        """After a value that no fast pattern follows."""
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        bracket = self.brackets[-1]
        char = text[pos]
        if char == bracket.closer:
            return self._close_bracket(pos)
        if char in ",，":
            bracket.has_comma = True
            self.read_next = self._before_item
            return pos + 1
        if self._end_markers.marker_at(text, pos):
            if not self.context.seen_keyword:
                raise LiteralError("a bracket is missing after an argument without a name", pos)
            self._call.lacks_brackets = True
            while self.brackets:
                self._close_bracket(pos)
            return pos
        if self._end_markers.is_partial(text, pos):
            self._progress.need_more(pos)
        raise LiteralError(f"expected a comma or a bracket, found {char!r}", pos)

    # Brackets.

    def _open_bracket(self, kind: BracketKind, closer: str, pos: int) -> int:
        if len(self.brackets) > self._limits.depth:
            raise LiteralError(f"nested more than {self._limits.depth} deep", pos + 1, "limit")
        outer = self.brackets[-1]
        depth = outer.depth
        if kind in WRITTEN:
            self._call.writer.open(WRITTEN[kind][0])
            depth += 1
        self.brackets.append(OpenBracket(kind, closer, outer.closing_brackets, depth))
        self.read_next = self._before_item
        return pos + 1

    def _close_bracket(self, pos: int) -> int:
        bracket = self.brackets[-1]
        if bracket.kind is ARGUMENTS:
            self.brackets.pop()
            self._call.end()
            return pos + 1
        if bracket.kind is TUPLE and not bracket.has_comma and self.read_next != self._before_item:
            raise LiteralError("a tuple of one item, or an item in parentheses", pos)
        if bracket.kind in WRITTEN:
            self._call.writer.close(WRITTEN[bracket.kind][1])
        self.brackets.pop()
        self.read_next = self._after_value
        return pos + 1

    # Keys and words.

    def _write_key(self, bracket: OpenBracket, key: str) -> None:
        """Write a key or the name of an argument, JSON-escaped."""
        if bracket.kind is DICT:
            self._call.writer.write_key(key)
        else:
            self._call.write_argument_name(key)
            self.context.seen_keyword = self._has_name = True

    def _write_atom(self, atom: str) -> None:
        """Write a complete number or literal."""
        self._call.writer.write_atom(atom)
        self.read_next = self._after_value

    def _match_word(self, match: Matcher, text: str, pos: int) -> re.Match[str]:
        """Return the word at `pos`. Raises `LiteralError`, `PartialTokenError`."""
        found = match(text, pos)
        assert found is not None
        if found.end() - pos > self._limits.number:
            raise LiteralError(f"a word of more than {self._limits.number} characters", pos, "limit")
        if found.end() == len(text):
            self._progress.need_more(pos)
        return found

    # Strings.

    def _begin_string(self, syntax: LiteralStringSyntax) -> None:
        """Begin a string, or a quoted key, after its quote."""
        if self.string.key is None:
            self._call.writer.begin_string()
        self.string.begin(syntax)
        self.read_next = self._in_string

    def _in_string(self, text: str, pos: int) -> int:
        """Read content, and the quote after it if what follows confirms that it ends the string."""
        string, final = self.string, self._progress.final
        pos = string.read(text, pos, final=final)
        if pos == len(text):
            return pos
        quote = string.syntax.quote
        if not text.startswith(quote, pos):
            raise PartialTokenError(pos)
        end, buffer = pos + len(quote), self._call.writer.buffer
        ends: bool | None = True
        if string.key is not None:
            ends = ends_key(text, end, final=final)
        elif not self.quotes_escaped and (buffer.paused or not string.syntax.is_token):
            ends = self.context.ends_string(text, end, final=final)
        if ends and string.key is not None:
            self._end_key(string.key)
            return end
        if ends:
            if buffer.paused:
                buffer.resume()
            buffer.end_string()
            self.read_next = self._after_value
            found, self.context.next_item = self.context.next_item, None
            return end if found is None else self._read_fast_item(self.brackets[-1], found)
        if ends is None:
            raise PartialTokenError(pos)
        if buffer.paused:
            raise LiteralError("a string is not closed", pos, after_body=self.text_after_marker())
        raise DoubtfulQuoteError(pos)

    def _end_key(self, key: str) -> None:
        """Write a key, JSON-escaped, before its colon."""
        self._write_key(self.brackets[-1], key)
        self.string.key = None
        self.read_next = self._after_key
