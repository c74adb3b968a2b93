"""Read arguments that are written in a literal notation: keys and values in brackets of all kinds.

Theory of operation. Open brackets are a stack of frames.

    _item --word, string, bracket--> (the language's states, `_item` again for a bracket) --> _after
    _after --,--> _item      --:--> _item (the key was read)      --closer--> _after, or the end of the call

What is no literal is never evaluated: the call ends with `error: malformed`.

Rule: what a bracket or a key is, is known before it is written; what is not known yet is held.
Neighbours: `calls` has the life of a call, `scalars` what is not in brackets, `python_values` and `gemma_body` are the
languages.
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
    """Reads calls whose arguments are literals."""

    _next_value_pattern: ClassVar[re.Pattern[str]]
    """What usually follows a value in an array: a comma, and what `usual` says."""
    _next_member_pattern: ClassVar[re.Pattern[str]]
    """The same in a dict, with the `key` of the next value."""
    _next_argument_pattern: ClassVar[re.Pattern[str]]
    """The same among the arguments."""
    _in_comment = False
    """True in a comment, which ends somewhere behind the text; where the language has comments."""

    def _reset_call(self) -> None:
        super()._reset_call()
        self._brackets: list[OpenBracket] = []
        self._argument_name: str | None = None

    # The language.

    @abstractmethod
    def _read_item(self, text: str, pos: int) -> int:
        """Read the beginning of a value, a key or an argument."""

    @abstractmethod
    def _set_fast_key(self, frame: OpenBracket, key: str) -> None:
        """Note a key that was read together with what is around it."""

    def _fast_atom_to_json(self, atom: str) -> str:
        """Spell an atom that was found so as JSON does."""
        return atom

    def _positional_name(self, _frame: OpenBracket, pos: int) -> str:
        """Give the name of an argument that has none. Raises `MalformedError`."""
        raise MalformedError("an argument without a name", pos)

    # The place in the call.

    def _in_call(self) -> bool:
        return bool(self._brackets)

    def _open_depth(self) -> int:
        return len(self._brackets)

    def _begin_call(self, name: str, closer: str, enclosing: str = "") -> None:
        """The name was read, and the bracket behind it; `around` closes what the call stands in."""
        self._brackets = [OpenBracket(ARGUMENTS, closer, enclosing)]
        self._state = self._before_item
        self._select_tool(name)

    # Items.

    def _before_item(self, text: str, pos: int) -> int:
        """Before a value, key or argument, or the end of what is open."""
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        frame = self._brackets[-1]
        if text[pos] == frame.closer and not frame.expects_value:
            return self._close_bracket(pos)
        return self._read_item(text, pos)

    def _after_item(self, text: str, pos: int) -> int:
        """Behind a value or a key."""
        frame = self._brackets[-1]
        if not (frame.expects_key or self._in_comment):
            if text[pos] == frame.closer:
                return self._close_bracket(pos)
            kind = frame.kind
            if kind is ARRAY:
                found = self._next_value_pattern.match(text, pos)
            elif kind is DICT:
                found = self._next_member_pattern.match(text, pos)
            else:
                found = self._next_argument_pattern.match(text, pos) if kind is ARGUMENTS else None
            if found is not None:
                if found.lastgroup in COMPLETE_GROUPS:
                    return self._read_fast_item(frame, found)
                if not self._final:
                    self._wait = True
                    return pos
        return self._after_item_slow(text, pos)

    def _read_fast_item(self, frame: OpenBracket, found: re.Match[str]) -> int:
        """Read what was found, and the value behind it."""
        if frame.kind is not ARRAY:
            self._set_fast_key(frame, found["key"])
        end = found.end()
        if found.lastgroup == "value":
            self._state = self._before_item
            return self._read_item(found.string, end)
        self._put_item_start(end)
        self._put(ATOM, self._fast_atom_to_json(found["atom"]))
        self._state = self._after_item
        return end

    def _open_brace(self, fallback_kind: BracketKind, first_member: re.Pattern[str], text: str, pos: int) -> int:
        """Open a dict whose first member is usual, else what a brace may be `otherwise`."""
        found = first_member.match(text, pos)
        if found is None or found.lastgroup not in COMPLETE_GROUPS:
            self._wait = found is not None and not self._final
            return pos if self._wait else self._open_bracket(fallback_kind, "}", pos)
        around = self._brackets[-1]
        end = self._open_bracket(DICT, "}", pos)
        frame = self._brackets[-1]
        return end if frame is around else self._read_fast_item(frame, found)

    def _after_item_slow(self, text: str, pos: int) -> int:
        """Read what is unusual behind a value or a key."""
        pos = self._skip_space(text, pos)
        if pos == len(text):
            return pos
        frame = self._brackets[-1]
        char = text[pos]
        if frame.expects_key:
            if char == ":":
                self._end_key(frame, pos)
                return pos + 1
            if frame.kind is not BRACE:
                return self._handle_unexpected(text, pos)
        if char == ",":
            self._begin_next_item(frame)
            self._state = self._before_item
            return pos + 1
        return self._close_bracket(pos) if char == frame.closer else self._handle_unexpected(text, pos)

    def _handle_unexpected(self, text: str, pos: int) -> int:
        """Meet something that does not belong here: a closing marker, or the call is malformed."""
        if self._end_markers.marker_at(text, pos):
            return self._close_at_end_marker(pos)
        if self._end_markers.is_partial(text, pos) and not self._final:
            self._wait = True
            return pos
        raise MalformedError(f"expected a literal, found {text[pos]!r}", pos)

    def _close_at_end_marker(self, pos: int) -> int:
        """A closing marker stands where brackets are open: they are closed if a value could end here."""
        frame = self._brackets[-1]
        if frame.expects_value if self._state == self._before_item else frame.expects_key:
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

    def _begin_next_item(self, frame: OpenBracket) -> None:
        """A comma: the next item may be a key again; undecided brackets hold more than one value."""
        if frame.expects_value:
            frame.expects_value, frame.expects_key = False, True
        elif frame.kind is PAREN or frame.kind is BRACE:
            held = self._pop_buffer()
            self._put(OPEN, "[")
            self._put_all(held)
            frame.kind, frame.expects_key = ARRAY, False

    def _close_bracket(self, pos: int) -> int:
        frame = self._brackets.pop()
        kind = frame.kind
        if kind is ARGUMENTS:
            self._end_call()
            return pos + 1
        if kind is DICT:
            self._put(CLOSE, "}")
        elif kind is ARRAY:
            self._put(CLOSE, "]")
        elif kind is not SPREAD:
            self._close_undecided(frame, self._pop_buffer())
        self._state = self._after_item
        return pos + 1

    def _close_undecided(self, frame: OpenBracket, tokens: list[Token]) -> None:
        """Write what holds one value, or nothing: brackets around a value, a set, an empty tuple or dict."""
        array = frame.kind is BRACE if frame.count else frame.kind is PAREN
        if array:
            self._put(OPEN, "[")
        elif not frame.count:
            self._put(OPEN, "{")
        self._put_all(tokens)
        if array:
            self._put(CLOSE, "]")
        elif not frame.count:
            self._put(CLOSE, "}")

    # Keys.

    def _put_item_start(self, pos: int) -> None:
        """Write what stands before an item; it begins, or ended, at `pos`."""
        frame = self._brackets[-1]
        kind = frame.kind
        if kind is ARGUMENTS:
            key = self._positional_name(frame, pos) if self._argument_name is None else self._argument_name
            self._argument_name = None
            self._put_argument_name(json_escape(key))
            frame.expects_value = False
        elif kind is DICT or kind is SPREAD:
            if frame.expects_key:
                self._push_buffer()
        elif kind is not ARRAY:
            frame.count += 1

    def _end_key(self, frame: OpenBracket, pos: int) -> None:
        """What was held is a key."""
        key = "" if self._discarding else tokens_to_key(self._pop_buffer())
        if key is None:
            raise MalformedError("expected a key", pos)
        if frame.kind is BRACE:
            frame.kind = DICT
            self._put(OPEN, "{")
        if frame.kind is DICT:
            self._put(KEY, key)
        else:
            self._put_argument_name(key)
        frame.expects_value, frame.expects_key = True, False
        self._state = self._before_item

    def _put_argument_name(self, key: str) -> None:
        """Write the name of an argument; the first starts the call."""
        frame = self._brackets[0]
        self._is_call = True
        self._start_call()
        if not frame.count:
            self._put(OPEN, "{")
        self._put(KEY, key)
        frame.count += 1
