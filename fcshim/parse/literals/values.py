"""Read the arguments of one call, written as literals (Python's or Gemma's): keys and values in nested brackets.

Theory of operation. `brackets` is the stack of open brackets.

    _before_item --word or string--> (states of the syntax) --> _after_item
                 --bracket--> _before_item
    _after_item  --,--> _before_item
                 --:--> _before_item (the key was read)
                 --closing bracket--> _after_item, or the end of the call

An expression that is not a literal is never evaluated: the call ends with `error: malformed`.

Rule: a bracket or key is written only when its role is known (dict or set? key or value?); until then it is buffered.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from fcshim.events import CallErrorKind
from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS
from fcshim.parse.arguments.tokens import Token
from fcshim.parse.body import disposed_state
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.limits import Limits
from fcshim.parse.literals.brackets import (
    ARGUMENTS,
    ARRAY,
    DICT,
    PAREN,
    SPREAD,
    BracketKind,
    OpenBracket,
    OpenBrackets,
    fast_end_in,
    open_frames,
)
from fcshim.parse.literals.call import (
    BEGIN,
    CLOSE,
    CONTENT,
    END,
    KEY,
    OPEN,
    WRAPPER_NAMES,
    WRITING_ERRORS,
    LiteralCall,
    tokens_to_key,
)
from fcshim.parse.literals.python_quotes import StringContext
from fcshim.parse.literals.python_strings import Matcher, PythonString
from fcshim.parse.literals.quoted_strings import QuotedString, json_escape
from fcshim.parse.readings.json_writer import open_string_content
from fcshim.parse.readings.literals import Follows, LiteralSearch
from fcshim.parse.readings.search import LITERAL_COMMA
from fcshim.parse.readings.steps import Frame, NoReadingError


class LiteralError(Exception):
    """The text at `pos` is not in the syntax, not allowed there, or beyond a limit.

    `after_body` is the text after a body that has ended although its call has not: at an end marker inside a string
    that is not closed, or at its last bracket if its quotes are doubtful.
    """

    def __init__(
        self, message: str, pos: int, kind: CallErrorKind = "malformed", after_body: str | None = None
    ) -> None:
        super().__init__(message)
        self.pos = pos
        self.kind = kind
        self.after_body = after_body


class DoubtfulQuoteError(Exception):
    """Whether the quote at `pos` ends its string is decided at the end of the body."""

    def __init__(self, pos: int) -> None:
        super().__init__()
        self.pos = pos


class PartialMarkerError(Exception):
    """The text ends in the middle of what may be an end marker, which starts at `pos`."""

    def __init__(self, pos: int) -> None:
        super().__init__()
        self.pos = pos


class Word:
    """Collects a name, a number or a literal piece by piece."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        """Add a piece."""
        self._parts.append(text)
        self.size += len(text)

    def gather(self, pattern: re.Pattern[str], text: str, pos: int) -> int:
        """Collect the part of a word that the pattern matches; return its end."""
        found = pattern.match(text, pos)
        assert found is not None
        self._parts.append(found[0])
        self.size += len(found[0])
        return found.end()

    def cut(self, size: int) -> None:
        """Keep only the first `size` characters."""
        text = self.text[:size]
        self._parts.clear()
        self._parts.append(text)
        self.size = len(text)

    @property
    def text(self) -> str:
        """The collected text."""
        return "".join(self._parts)

    def take(self) -> str:
        """Return the word, and begin another one."""
        word = self.text
        self._parts.clear()
        self.size = 0
        return word


class LiteralValues(ABC):
    """Reads arguments up to their closing bracket; a subclass adds the syntax of one language.

    Its states raise `LiteralError`, `PartialMarkerError` and `DoubtfulQuoteError`.
    """

    _next_patterns: ClassVar[dict[BracketKind, Matcher]]
    """Fast patterns for what follows a value in an array, a dict and the argument list: a comma and the next value (see
    `fast_patterns`); the group `key` is the next key."""
    _fast_literals: ClassVar[dict[str, str]] = {}
    """The JSON of the atoms in these patterns that JSON writes in another way."""
    _plain_quotes: ClassVar[str] = ""
    """The quotes of strings that are read without the states of others."""

    def __init__(self, call: LiteralCall, dialect: Dialect, limits: Limits) -> None:
        self.brackets: list[OpenBracket] = []
        """The open brackets; empty outside a call."""
        self._outer_brackets = OpenBrackets(self.brackets, call)
        self.string: QuotedString | None = None
        """The open string."""
        self._call = call
        self._progress = call.progress
        self._put = call.put
        self._writer, self._buffer = call.writer, call.buffer
        self._dialect = dialect
        self._limits = limits
        self._end_markers = compiled_closers(dialect)
        self.read_next: Callable[[str, int], int] = self._before_item
        """The state: reads the next part of the arguments."""
        self._match_next = self._next_patterns
        self._seen_keyword = True
        """True after a keyword argument: no positional argument may follow."""
        self._in_comment = False
        """True inside a comment whose end has not been read yet, in a language that has comments."""
        self._word = Word()
        self._argument_name: str | None = None
        self._names: frozenset[str] | None = None
        """The arguments that may come; None where any may."""
        self._seen_names: set[str] = set()
        """The arguments that came."""
        self._contexts: dict[tuple[BracketKind, bool], StringContext] = {}
        self._fresh_strings: dict[tuple[str, BracketKind, bool], PythonString] = {}
        """Readers of plain strings that have not read anything, for a call's strings in brackets of one kind."""
        self.quotes_escaped = False
        """True in text whose inner quotes were escaped: every quote ends its string."""

    def begin(self, closer: str, enclosing: str) -> None:
        """Begin the arguments after their opening bracket; `enclosing` closes the brackets around the call."""
        self.brackets[:] = [OpenBracket(ARGUMENTS, closer, enclosing)]
        self.string = self._argument_name = None
        names = self._call.parameter_names
        self._names = frozenset(names) if names else None
        self._seen_names.clear()
        self._clear_contexts()
        self.read_next = self._before_item

    def dispose(self) -> None:
        """Break the reference cycle through the bound state method."""
        self.read_next = disposed_state
        self.string = None
        self._clear_contexts()

    def _clear_contexts(self) -> None:
        self._contexts.clear()
        self._fresh_strings.clear()

    def escape_quotes(self, text: str) -> str:
        """Return the remainder of the body, which begins at a doubtful quote, with inner quotes escaped.

        Raises `NoReadingError`.
        """
        string = self.string
        assert isinstance(string, PythonString)
        sent, quote = self._call.sent_arguments(), string.syntax.quote
        before = "" if string.at_start else open_string_content(sent)
        has_escapes = string.has_escape or 0 < string.line_breaks < before.count("\\n")
        if quote == "'":
            before = before.replace("'", "\\'")
        search = self._make_search(before + text)
        escaped = search.escape(self._frame(), quote, len(before), is_raw=string.syntax.is_raw)
        if escaped != text and (has_escapes or LITERAL_COMMA.search(sent)):
            raise NoReadingError("a backslash or a comma that was read may be content of a string that is not escaped")
        return escaped

    def mark_escaped(self) -> None:
        """Read on in escaped text, inside the open string."""
        string = self.string
        assert isinstance(string, PythonString)
        self.quotes_escaped = string.context.escaped = True
        self._clear_contexts()
        self.read_next = self._in_string

    def _frame(self) -> Frame:
        """Return the innermost open bracket."""
        members, containers = self._call.arguments_members(), self._call.open_containers()
        return open_frames(self.brackets, members, self._seen_names, containers, seen_keyword=self._seen_keyword)

    def _make_search(self, text: str) -> LiteralSearch:
        return LiteralSearch(text, self._call.arguments_of, self._dialect.quote)

    def _what_follows(self, text: str) -> Follows:
        return self._make_search(text).what_follows(self._frame(), 0)

    def _string_context(self, bracket: OpenBracket) -> StringContext:
        """Return where a string in this bracket stands; strings of a call in brackets of one kind share it."""
        key = bracket.kind, bracket.expects_key
        found = self._contexts.get(key)
        if found is None:
            found = self._contexts[key] = StringContext(
                fast_end_in(bracket),
                self._names,
                self._seen_names,
                self._what_follows,
                self._outer_brackets,
                may_be_key=bracket.expects_key,
                escaped=self.quotes_escaped,
            )
        return found

    @property
    def depth(self) -> int:
        """Number of open brackets, those around the call included."""
        return len(self.brackets[-1].closing_brackets)

    # The syntax.

    @abstractmethod
    def skip_space(self, text: str, pos: int) -> int:
        """Return the end of the white space (and comments) at `pos`, which is not the end of the text."""

    @abstractmethod
    def _read_item(self, text: str, pos: int) -> int:
        """Read the start of a value, a key or an argument."""

    @abstractmethod
    def _set_fast_key(self, bracket: OpenBracket, key: str) -> None:
        """Record a key that a fast pattern matched."""

    def _positional_name(self, _bracket: OpenBracket, pos: int) -> str:
        """Return the parameter name of a positional argument. Raises `LiteralError`."""
        raise LiteralError("an argument without a name", pos)

    # Items.

    def _before_item(self, text: str, pos: int) -> int:
        """Before a value, a key or an argument, or before the closing bracket."""
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        bracket = self.brackets[-1]
        if text[pos] == bracket.closer and not bracket.expects_value:
            return self._close_bracket(pos)
        return self._read_item(text, pos)

    def _after_item(self, text: str, pos: int) -> int:
        """After a value, where a fast pattern may follow, or after a key."""
        if self._call.is_direct:
            bracket = self.brackets[-1]
            if text[pos] == bracket.closer:
                return self._close_bracket(pos)
            found = self._match_next[bracket.kind](text, pos)
            if found is not None:
                if found.lastgroup in COMPLETE_GROUPS:
                    return self._read_fast_item(bracket, found)
                if not self._progress.final:
                    self._progress.wait = True
                    return pos
        self.read_next = self._after_item_slow
        return self._after_item_slow(text, pos)

    def _read_fast_item(self, bracket: OpenBracket, found: re.Match[str]) -> int:
        """Read the key and the value that a fast pattern matched; both are written directly.

        A write that raises is the first one or follows only a key, and the states have not changed before it.
        """
        text, end = found.string, found.end()
        if found.lastgroup == "atom":
            self._write_fast_key(bracket, found)
            atom = self._fast_literals.get(found["atom"]) or found["atom"]
            self._buffer.parts.append(atom)
            self._buffer.add_atom(atom)
            self.read_next = self._after_item
            return end
        if text[end] in self._plain_quotes and text[end + 1 : end + 2] not in {"", text[end]}:
            self._write_fast_key(bracket, found)
            self._buffer.begin_string()
            return self._enter_plain_string(bracket, text[end], end)
        if bracket.kind is not ARRAY:
            self._set_fast_key(bracket, found["key"])
        self.read_next = self._before_item
        return self._read_item(text, end)

    def _write_fast_key(self, bracket: OpenBracket, found: re.Match[str]) -> None:
        """Write what precedes a value: the comma in an array, or a key."""
        if bracket.kind is ARRAY:
            self._buffer.parts.append(", ")
            return
        key = found["key"]
        if bracket.kind is ARGUMENTS:
            self._note_argument(key)
            if not bracket.count:
                self._call.start()
                self._buffer.open("{")
            bracket.count += 1
        self._writer.write_key(key)

    def _after_item_slow(self, text: str, pos: int) -> int:
        """After a value or a key that no fast pattern follows."""
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        bracket = self.brackets[-1]
        char = text[pos]
        if bracket.expects_key:
            if char in ":：":
                self._end_key(bracket, pos)
                return pos + 1
            return self._handle_unexpected(text, pos)
        if char in ",，":
            self._begin_next_item(bracket, pos)
            self.read_next = self._before_item
            return pos + 1
        return self._close_bracket(pos) if char == bracket.closer else self._handle_unexpected(text, pos)

    def _handle_unexpected(self, text: str, pos: int) -> int:
        """Close the call at an end marker. Raises `LiteralError` for any other unexpected text."""
        if self._end_markers.marker_at(text, pos):
            return self._close_at_end_marker(pos)
        if self._end_markers.is_partial(text, pos) and not self._progress.final:
            self._progress.wait = True
            return pos
        raise LiteralError(f"expected a literal, found {text[pos]!r}", pos)

    def _close_at_end_marker(self, pos: int) -> int:
        """Close the open brackets at an end marker, if the last item is complete. Raises `LiteralError`."""
        bracket = self.brackets[-1]
        is_before_item = self.read_next == self._before_item
        if is_before_item or bracket.expects_key:
            raise LiteralError("a value is missing", pos)
        if self.brackets[0].count and not self._seen_keyword:
            raise LiteralError("a bracket is missing after an argument without a name", pos)
        self._call.lacks_brackets = True
        while self.brackets:
            self._close_bracket(pos)
            if self.brackets and self.brackets[-1].expects_key:
                raise LiteralError("expected a key", pos)
        return pos

    # Brackets.

    def _open_brace(self, first_member: re.Pattern[str], text: str, pos: int) -> int:
        """Open a dict, and read its first member if a fast pattern matches it."""
        found = first_member.match(text, pos) if self._call.is_direct else None
        if found is None or found.lastgroup not in COMPLETE_GROUPS:
            self._progress.wait = found is not None and not self._progress.final
            return pos if self._progress.wait else self._open_bracket(DICT, "}", pos)
        end = self._open_bracket(DICT, "}", pos)
        return self._read_first_member(self.brackets[-1], found) if self._call.is_direct else end

    def _read_first_member(self, bracket: OpenBracket, found: re.Match[str]) -> int:
        bracket.expects_key, bracket.expects_value = False, True
        try:
            return self._read_fast_item(bracket, found)
        except WRITING_ERRORS as error:
            bracket.expects_key, bracket.expects_value = True, False
            self._call.abandon_unwritable(error)
            return found.start() + 1

    def _open_bracket(self, kind: BracketKind, closer: str, pos: int) -> int:
        if len(self.brackets) > self._limits.depth:
            raise LiteralError(f"nested more than {self._limits.depth} deep", pos + 1, "limit")
        self._put_item_start(pos)
        if kind is DICT:
            self._put(OPEN, "{")
        elif kind is ARRAY:
            self._put(OPEN, "[")
        else:
            self._call.push_buffer()
        self._push_bracket(kind, closer)
        return pos + 1

    def _push_bracket(self, kind: BracketKind, closer: str) -> None:
        self.brackets.append(OpenBracket(kind, closer, self.brackets[-1].closing_brackets))
        self.read_next = self._before_item

    def _begin_next_item(self, bracket: OpenBracket, _pos: int) -> None:
        """Read a comma: a key may follow, and `(` with two values is a tuple."""
        if bracket.expects_value:
            bracket.expects_value, bracket.expects_key = False, True
        elif bracket.kind is PAREN:
            tokens = self._call.pop_buffer()
            self._put(OPEN, "[")
            self._call.put_all(tokens)
            bracket.kind, bracket.expects_key = ARRAY, False

    def _close_bracket(self, pos: int) -> int:
        bracket = self.brackets.pop()
        kind = bracket.kind
        if kind is ARGUMENTS:
            self._call.end()
            return pos + 1
        if kind is DICT:
            self._put(CLOSE, "}")
        elif kind is ARRAY:
            self._put(CLOSE, "]")
        elif kind is not SPREAD:
            self._close_parentheses(bracket, self._call.pop_buffer())
        self.read_next = self._after_item
        return pos + 1

    def _close_parentheses(self, bracket: OpenBracket, tokens: list[Token]) -> None:
        """Write parentheses around one item, or an empty tuple."""
        if not bracket.count:
            self._put(OPEN, "[")
        self._call.put_all(tokens)
        if not bracket.count:
            self._put(CLOSE, "]")

    # Keys.

    def _put_item_start(self, pos: int) -> None:
        """Write what precedes an item (an argument name), or buffer the item where it may be a key.

        `pos` is the position that an error reports.
        """
        bracket = self.brackets[-1]
        kind = bracket.kind
        if kind is ARGUMENTS:
            key = self._positional_name(bracket, pos) if self._argument_name is None else self._argument_name
            self._argument_name = None
            self._put_argument_name(json_escape(key))
            bracket.expects_value = False
        elif kind is DICT or kind is SPREAD:
            if bracket.expects_key:
                self._call.push_buffer()
        elif kind is not ARRAY:
            bracket.count += 1

    def _end_key(self, bracket: OpenBracket, pos: int) -> None:
        """Write the buffered item as a key. Raises `LiteralError` where it is a container."""
        key = "" if self._progress.discarding else tokens_to_key(self._call.pop_buffer())
        if key is None:
            raise LiteralError("expected a key", pos)
        if bracket.kind is DICT:
            self._put(KEY, key)
        else:
            self._put_argument_name(key)
        bracket.expects_value, bracket.expects_key = True, False
        self.read_next = self._before_item

    def _put_argument_name(self, key: str) -> None:
        """Write the name of an argument; the first one starts the call."""
        bracket = self.brackets[0]
        if not self._progress.discarding:
            self._note_argument(key)
        self._call.is_certain = True
        self._call.start()
        if not bracket.count:
            self._put(OPEN, "{")
        self._put(KEY, key)
        bracket.count += 1

    def _note_argument(self, name: str) -> None:
        self._seen_names.add(name)
        if name in WRAPPER_NAMES:
            self._call.has_wrapper = True

    # Words.

    def _gather_word(self, pattern: re.Pattern[str], text: str, pos: int) -> int:
        """Collect a part of a word, which is complete where text follows it; return its end.

        A word that is too long ends the call with an error, and the calls after it stand. Raises `LiteralError`
        where the call may still be text.
        """
        end = self._word.gather(pattern, text, pos)
        if self._word.size > self._limits.number:
            message = f"a word of more than {self._limits.number} characters"
            if not self._call.is_certain:
                raise LiteralError(message, end, "limit")
            self._call.abandon("limit", message)
            self._word.cut(self._limits.number)
        return end

    # Strings.

    def _enter_plain_string(self, bracket: OpenBracket, quote: str, pos: int) -> int:
        """Read the string of a plain syntax whose opening quote is at `pos`."""
        raise NotImplementedError

    def _begin_string(self, string: QuotedString, pos: int) -> None:
        self._put_item_start(pos)
        self._put(BEGIN, '"')
        self.string = string
        self._call.in_content = False
        self.read_next = self._in_string

    def _in_string(self, text: str, pos: int) -> int:
        call, string = self._call, self.string
        assert string is not None
        streams, call.in_content = call.in_content, False
        pos = string.read(text, pos, final=self._progress.final)
        piece = string.take()
        if piece:
            self._put(CONTENT, piece)
        if string.closed:
            if string.has_backslash:
                call.escapes_doubtful = True
            return self._end_string(text, pos)
        if string.defect:
            raise LiteralError(string.defect, pos, after_body=string.text_after_marker())
        if string.doubtful:
            string.doubtful = False
            raise DoubtfulQuoteError(pos)
        self._progress.wait = string.wait
        if string.streams:
            call.in_content = streams or call.streams_string
        return pos

    def _end_string(self, _text: str, pos: int) -> int:
        self.string = None
        self._put(END, '"')
        self.read_next = self._after_item
        return pos
