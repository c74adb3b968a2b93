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

from fcshim.parse.arguments.tokens import Token
from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS
from fcshim.parse.literals.calls import ATOM, CLOSE, KEY, OPEN, MalformedError
from fcshim.parse.literals.frames import ARGUMENTS, ARRAY, BRACE, DICT, PAREN, SPREAD, Frame, Kind
from fcshim.parse.literals.nest import as_key
from fcshim.parse.literals.quoted import spelled
from fcshim.parse.literals.scalars import LiteralScalars


class LiteralBody(LiteralScalars):
    """Reads calls whose arguments are literals."""

    _next_value: ClassVar[re.Pattern[str]]
    """What usually follows a value in an array: a comma, and what `usual` says."""
    _next_member: ClassVar[re.Pattern[str]]
    """The same in a dict, with the `key` of the next value."""
    _next_argument: ClassVar[re.Pattern[str]]
    """The same among the arguments."""
    _in_comment = False
    """True in a comment, which ends somewhere behind the text; where the language has comments."""

    def _new_call(self) -> None:
        super()._new_call()
        self._frames: list[Frame] = []
        self._key: str | None = None

    # The language.

    @abstractmethod
    def _item_begins(self, text: str, pos: int) -> int:
        """Read the beginning of a value, a key or an argument."""

    @abstractmethod
    def _usual_key(self, frame: Frame, key: str) -> None:
        """Note a key that was read together with what is around it."""

    def _usual_atom(self, atom: str) -> str:
        """Spell an atom that was found so as JSON does."""
        return atom

    def _unnamed(self, _frame: Frame, pos: int) -> str:
        """Give the name of an argument that has none. Raises `MalformedError`."""
        raise MalformedError("an argument without a name", pos)

    # The place in the call.

    def _in_call(self) -> bool:
        return bool(self._frames)

    def _depth(self) -> int:
        return len(self._frames)

    def _call_begins(self, name: str, closer: str, around: str = "") -> None:
        """The name was read, and the bracket behind it; `around` closes what the call stands in."""
        self._frames = [Frame(ARGUMENTS, closer, around)]
        self._state = self._item
        self._call_named(name)

    # Items.

    def _item(self, text: str, pos: int) -> int:
        """Before a value, key or argument, or the end of what is open."""
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        frame = self._frames[-1]
        if text[pos] == frame.closer and not frame.keyed:
            return self._close(pos)
        return self._item_begins(text, pos)

    def _after(self, text: str, pos: int) -> int:
        """Behind a value or a key."""
        frame = self._frames[-1]
        if not (frame.key or self._in_comment):
            if text[pos] == frame.closer:
                return self._close(pos)
            kind = frame.kind
            if kind is ARRAY:
                found = self._next_value.match(text, pos)
            elif kind is DICT:
                found = self._next_member.match(text, pos)
            else:
                found = self._next_argument.match(text, pos) if kind is ARGUMENTS else None
            if found is not None:
                if found.lastgroup in COMPLETE_GROUPS:
                    return self._usual_item(frame, found)
                if not self._final:
                    self._wait = True
                    return pos
        return self._after_space(text, pos)

    def _usual_item(self, frame: Frame, found: re.Match[str]) -> int:
        """Read what was found, and the value behind it."""
        if frame.kind is not ARRAY:
            self._usual_key(frame, found["key"])
        end = found.end()
        if found.lastgroup == "value":
            self._state = self._item
            return self._item_begins(found.string, end)
        self._put_item(end)
        self._put(ATOM, self._usual_atom(found["atom"]))
        self._state = self._after
        return end

    def _open_brace(self, otherwise: Kind, first: re.Pattern[str], text: str, pos: int) -> int:
        """Open a dict whose first member is usual, else what a brace may be `otherwise`."""
        found = first.match(text, pos)
        if found is None or found.lastgroup not in COMPLETE_GROUPS:
            self._wait = found is not None and not self._final
            return pos if self._wait else self._open(otherwise, "}", pos)
        around = self._frames[-1]
        end = self._open(DICT, "}", pos)
        frame = self._frames[-1]
        return end if frame is around else self._usual_item(frame, found)

    def _after_space(self, text: str, pos: int) -> int:
        """Read what is unusual behind a value or a key."""
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        frame = self._frames[-1]
        char = text[pos]
        if frame.key:
            if char == ":":
                self._key_ended(frame, pos)
                return pos + 1
            if frame.kind is not BRACE:
                return self._odd(text, pos)
        if char == ",":
            self._next_item(frame)
            self._state = self._item
            return pos + 1
        return self._close(pos) if char == frame.closer else self._odd(text, pos)

    def _odd(self, text: str, pos: int) -> int:
        """Meet something that does not belong here: a closing marker, or the call is malformed."""
        if self._closers.marker_at(text, pos):
            return self._closed_early(pos)
        if self._closers.is_partial(text, pos) and not self._final:
            self._wait = True
            return pos
        raise MalformedError(f"expected a literal, found {text[pos]!r}", pos)

    def _closed_early(self, pos: int) -> int:
        """A closing marker stands where brackets are open: they are closed if a value could end here."""
        frame = self._frames[-1]
        if frame.keyed if self._state == self._item else frame.key:
            raise MalformedError("a value is missing", pos)
        while self._frames:
            self._close(pos)
            if self._frames and self._frames[-1].key and self._frames[-1].kind is not BRACE:
                raise MalformedError("expected a key", pos)
        return pos

    # Brackets.

    def _open(self, kind: Kind, closer: str, pos: int) -> int:
        if len(self._frames) > self._limits.depth:
            self._fail("limit", f"nested more than {self._limits.depth} deep")
            return pos + 1
        self._put_item(pos)
        if kind is DICT:
            self._put(OPEN, "{")
        elif kind is ARRAY:
            self._put(OPEN, "[")
        else:
            self._hold()
        self._push(kind, closer)
        return pos + 1

    def _push(self, kind: Kind, closer: str) -> None:
        self._frames.append(Frame(kind, closer, self._frames[-1].closing))
        self._state = self._item

    def _next_item(self, frame: Frame) -> None:
        """A comma: the next item may be a key again; undecided brackets hold more than one value."""
        if frame.keyed:
            frame.keyed, frame.key = False, True
        elif frame.kind is PAREN or frame.kind is BRACE:
            held = self._take()
            self._put(OPEN, "[")
            self._put_all(held)
            frame.kind, frame.key = ARRAY, False

    def _close(self, pos: int) -> int:
        frame = self._frames.pop()
        kind = frame.kind
        if kind is ARGUMENTS:
            self._call_ended()
            return pos + 1
        if kind is DICT:
            self._put(CLOSE, "}")
        elif kind is ARRAY:
            self._put(CLOSE, "]")
        elif kind is not SPREAD:
            self._close_undecided(frame, self._take())
        self._state = self._after
        return pos + 1

    def _close_undecided(self, frame: Frame, held: list[Token]) -> None:
        """Write what holds one value, or nothing: brackets around a value, a set, an empty tuple or dict."""
        array = frame.kind is BRACE if frame.count else frame.kind is PAREN
        if array:
            self._put(OPEN, "[")
        elif not frame.count:
            self._put(OPEN, "{")
        self._put_all(held)
        if array:
            self._put(CLOSE, "]")
        elif not frame.count:
            self._put(CLOSE, "}")

    # Keys.

    def _put_item(self, pos: int) -> None:
        """Write what stands before an item; it begins, or ended, at `pos`."""
        frame = self._frames[-1]
        kind = frame.kind
        if kind is ARGUMENTS:
            key = self._unnamed(frame, pos) if self._key is None else self._key
            self._key = None
            self._put_key(spelled(key))
            frame.keyed = False
        elif kind is DICT or kind is SPREAD:
            if frame.key:
                self._hold()
        elif kind is not ARRAY:
            frame.count += 1

    def _key_ended(self, frame: Frame, pos: int) -> None:
        """What was held is a key."""
        key = "" if self._dry else as_key(self._take())
        if key is None:
            raise MalformedError("expected a key", pos)
        if frame.kind is BRACE:
            frame.kind = DICT
            self._put(OPEN, "{")
        if frame.kind is DICT:
            self._put(KEY, key)
        else:
            self._put_key(key)
        frame.keyed, frame.key = True, False
        self._state = self._item

    def _put_key(self, key: str) -> None:
        """Write the name of an argument; the first starts the call."""
        frame = self._frames[0]
        self._meant = True
        self._start()
        if not frame.count:
            self._put(OPEN, "{")
        self._put(KEY, key)
        frame.count += 1
