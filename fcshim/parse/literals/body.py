"""Read arguments written as literals (Python's or Gemma's): keys and values in nested brackets.

Theory of operation. `_brackets` is the stack of open brackets.

    _before_item --word or string--> (states of the syntax) --> _after_item
                 --bracket--> _before_item
    _after_item  --,--> _before_item
                 --:--> _before_item (the key was read)
                 --closing bracket--> _after_item, or the end of the call

An expression that is not a literal is never evaluated: the call ends with `error: malformed`.

Rule: a bracket or key is written only when its role is known (dict or set? key or value?); until then it is buffered.
"""

import re
from abc import abstractmethod
from typing import ClassVar

from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS
from fcshim.parse.arguments.tokens import Token
from fcshim.parse.literals.brackets import ARGUMENTS, ARRAY, BRACE, DICT, PAREN, SPREAD, BracketKind, OpenBracket
from fcshim.parse.literals.calls import ATOM, CLOSE, KEY, OPEN, MalformedError
from fcshim.parse.literals.container_buffer import tokens_to_key
from fcshim.parse.literals.quoted_strings import json_escape
from fcshim.parse.literals.scalars import LiteralScalars


class LiteralBody(LiteralScalars):
    """Base of the readers of calls whose arguments are literals; a subclass adds the syntax of one language."""

    _next_value_pattern: ClassVar[re.Pattern[str]]
    """Fast pattern for what follows a value in an array: a comma and the next value (see `fast_patterns`)."""
    _next_member_pattern: ClassVar[re.Pattern[str]]
    """The same in a dict; the group `key` is the next key."""
    _next_argument_pattern: ClassVar[re.Pattern[str]]
    """The same in the argument list."""
    _in_comment = False
    """True inside a comment whose end has not been read yet, in a language that has comments."""

    def _reset_call(self) -> None:
        super()._reset_call()
        self._brackets: list[OpenBracket] = []
        self._argument_name: str | None = None

    # The syntax.

    @abstractmethod
    def _read_item(self, text: str, pos: int) -> int:
        """Read the start of a value, a key or an argument."""

    @abstractmethod
    def _set_fast_key(self, bracket: OpenBracket, key: str) -> None:
        """Record a key that a fast pattern matched."""

    def _fast_atom_to_json(self, atom: str) -> str:
        """Convert an atom that a fast pattern matched."""
        return atom

    def _positional_name(self, _frame: OpenBracket, pos: int) -> str:
        """Return the parameter name of a positional argument. Raises `MalformedError`."""
        raise MalformedError("an argument without a name", pos)

    # Position in the call.

    def _in_call(self) -> bool:
        return bool(self._brackets)

    def _open_depth(self) -> int:
        return len(self._brackets)

    def _begin_call(self, name: str, closer: str, enclosing: str = "") -> None:
        """Enter a call after its name and opening bracket; `enclosing` closes the brackets around the call."""
        self._brackets = [OpenBracket(ARGUMENTS, closer, enclosing)]
        self._state = self._before_item
        self._select_tool(name)

    # Items.

    def _before_item(self, text: str, pos: int) -> int:
        """Before a value, a key or an argument, or before the closing bracket."""
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        bracket = self._brackets[-1]
        if text[pos] == bracket.closer and not bracket.expects_value:
            return self._close_bracket(pos)
        return self._read_item(text, pos)

    def _after_item(self, text: str, pos: int) -> int:
        """After a value or a key."""
        bracket = self._brackets[-1]
        if not (bracket.expects_key or self._in_comment):
            if text[pos] == bracket.closer:
                return self._close_bracket(pos)
            kind = bracket.kind
            if kind is ARRAY:
                found = self._next_value_pattern.match(text, pos)
            elif kind is DICT:
                found = self._next_member_pattern.match(text, pos)
            else:
                found = self._next_argument_pattern.match(text, pos) if kind is ARGUMENTS else None
            if found is not None:
                if found.lastgroup in COMPLETE_GROUPS:
                    return self._read_fast_item(bracket, found)
                if not self._final:
                    self._wait = True
                    return pos
        return self._after_item_slow(text, pos)

    def _read_fast_item(self, bracket: OpenBracket, found: re.Match[str]) -> int:
        """Read the key and the value that a fast pattern matched."""
        if bracket.kind is not ARRAY:
            self._set_fast_key(bracket, found["key"])
        end = found.end()
        if found.lastgroup == "value":
            self._state = self._before_item
            return self._read_item(found.string, end)
        self._put_item_start(end)
        self._put(ATOM, self._fast_atom_to_json(found["atom"]))
        self._state = self._after_item
        return end

    def _open_brace(self, fallback_kind: BracketKind, first_member: re.Pattern[str], text: str, pos: int) -> int:
        """Open a dict if a fast pattern matches its first member, else a bracket of `fallback_kind`."""
        found = first_member.match(text, pos)
        if found is None or found.lastgroup not in COMPLETE_GROUPS:
            self._wait = found is not None and not self._final
            return pos if self._wait else self._open_bracket(fallback_kind, "}", pos)
        enclosing = self._brackets[-1]
        end = self._open_bracket(DICT, "}", pos)
        bracket = self._brackets[-1]
        return end if bracket is enclosing else self._read_fast_item(bracket, found)

    def _after_item_slow(self, text: str, pos: int) -> int:
        """After a value or a key that no fast pattern follows."""
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        bracket = self._brackets[-1]
        char = text[pos]
        if bracket.expects_key:
            if char == ":":
                self._end_key(bracket, pos)
                return pos + 1
            if bracket.kind is not BRACE:
                return self._handle_unexpected(text, pos)
        if char == ",":
            self._begin_next_item(bracket)
            self._state = self._before_item
            return pos + 1
        return self._close_bracket(pos) if char == bracket.closer else self._handle_unexpected(text, pos)

    def _handle_unexpected(self, text: str, pos: int) -> int:
        """Close the call at an end marker. Raises `MalformedError` for any other unexpected text."""
        if self._end_markers.marker_at(text, pos):
            return self._close_at_end_marker(pos)
        if self._end_markers.is_partial(text, pos) and not self._final:
            self._wait = True
            return pos
        raise MalformedError(f"expected a literal, found {text[pos]!r}", pos)

    def _close_at_end_marker(self, pos: int) -> int:
        """Close the open brackets at an end marker, if the last item is complete. Raises `MalformedError`."""
        bracket = self._brackets[-1]
        if bracket.expects_value if self._state == self._before_item else bracket.expects_key:
            raise MalformedError("a value is missing", pos)
        while self._brackets:
            self._close_bracket(pos)
            if self._brackets and self._brackets[-1].expects_key and self._brackets[-1].kind is not BRACE:
                raise MalformedError("expected a key", pos)
        return pos

    # Brackets.

    def _open_bracket(self, kind: BracketKind, closer: str, pos: int) -> int:
        if len(self._brackets) > self._limits.depth:
            self._fail_and_skip("limit", f"nested more than {self._limits.depth} deep")
            return pos + 1
        self._put_item_start(pos)
        if kind is DICT:
            self._put(OPEN, "{")
        elif kind is ARRAY:
            self._put(OPEN, "[")
        else:
            self._push_buffer()
        self._push_bracket(kind, closer)
        return pos + 1

    def _push_bracket(self, kind: BracketKind, closer: str) -> None:
        self._brackets.append(OpenBracket(kind, closer, self._brackets[-1].closing_brackets))
        self._state = self._before_item

    def _begin_next_item(self, bracket: OpenBracket) -> None:
        """Read a comma: a key may follow, and `(` or `{` with two values is a tuple or a set."""
        if bracket.expects_value:
            bracket.expects_value, bracket.expects_key = False, True
        elif bracket.kind is PAREN or bracket.kind is BRACE:
            tokens = self._pop_buffer()
            self._put(OPEN, "[")
            self._put_all(tokens)
            bracket.kind, bracket.expects_key = ARRAY, False

    def _close_bracket(self, pos: int) -> int:
        bracket = self._brackets.pop()
        kind = bracket.kind
        if kind is ARGUMENTS:
            self._end_call()
            return pos + 1
        if kind is DICT:
            self._put(CLOSE, "}")
        elif kind is ARRAY:
            self._put(CLOSE, "]")
        elif kind is not SPREAD:
            self._close_undecided(bracket, self._pop_buffer())
        self._state = self._after_item
        return pos + 1

    def _close_undecided(self, bracket: OpenBracket, tokens: list[Token]) -> None:
        """Write a `(` or `{` bracket with one item or none: a parenthesised value, a set, an empty tuple or dict."""
        array = bracket.kind is BRACE if bracket.count else bracket.kind is PAREN
        if array:
            self._put(OPEN, "[")
        elif not bracket.count:
            self._put(OPEN, "{")
        self._put_all(tokens)
        if array:
            self._put(CLOSE, "]")
        elif not bracket.count:
            self._put(CLOSE, "}")

    # Keys.

    def _put_item_start(self, pos: int) -> None:
        """Write what precedes an item (an argument name), or buffer the item where it may be a key.

        `pos` is the position that an error reports.
        """
        bracket = self._brackets[-1]
        kind = bracket.kind
        if kind is ARGUMENTS:
            key = self._positional_name(bracket, pos) if self._argument_name is None else self._argument_name
            self._argument_name = None
            self._put_argument_name(json_escape(key))
            bracket.expects_value = False
        elif kind is DICT or kind is SPREAD:
            if bracket.expects_key:
                self._push_buffer()
        elif kind is not ARRAY:
            bracket.count += 1

    def _end_key(self, bracket: OpenBracket, pos: int) -> None:
        """Write the buffered item as a key. Raises `MalformedError` where it is a container."""
        key = "" if self._discarding else tokens_to_key(self._pop_buffer())
        if key is None:
            raise MalformedError("expected a key", pos)
        if bracket.kind is BRACE:
            bracket.kind = DICT
            self._put(OPEN, "{")
        if bracket.kind is DICT:
            self._put(KEY, key)
        else:
            self._put_argument_name(key)
        bracket.expects_value, bracket.expects_key = True, False
        self._state = self._before_item

    def _put_argument_name(self, key: str) -> None:
        """Write the name of an argument; the first one starts the call."""
        bracket = self._brackets[0]
        self._is_call = True
        self._start_call()
        if not bracket.count:
            self._put(OPEN, "{")
        self._put(KEY, key)
        bracket.count += 1
