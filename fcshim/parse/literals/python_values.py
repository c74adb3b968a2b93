"""Read the arguments of a Python call: literals, transcoded to strict JSON as they arrive.

Names, operators, calls and comprehensions are never evaluated: they end the call with `error: malformed`.

    _before_argument, ... --word--> _after_word --=--> _before_value
                                                --otherwise--> _after_value, or _before_value after a key

Rule: a Python literal has its Python value; every tolerance beyond Python is named in `python_call.lark`.
"""

import re

from fcshim.parse.arguments.atoms import atom_to_json
from fcshim.parse.arguments.fast_patterns import SPACE, value_pattern
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.call import LiteralCall
from fcshim.parse.literals.context import ARGUMENTS, ARRAY, DICT, SPREAD, TUPLE, BracketKind
from fcshim.parse.literals.strings import RAW_PREFIX, LiteralError, Matcher, json_escape, string_syntax
from fcshim.parse.literals.values import LiteralValues

_MAX_QUOTE_RUN = 7
_MATCH_WORD = re.compile(r"[\w.+-]*+").match
_KEY = re.compile(r"[^\W\d][\w-]*+")
# Fast patterns for what usually stands between two values: one match instead of several states, with the same result.
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_FAST_VALUE = value_pattern(_LITERALS, value_starts=r"\"'\[({", after_atom=r",)\]}")
_MEMBER = rf"""(?:(?P<quote>['"])(?P<key>[\w -]{{0,40}})(?:(?P=quote) ?(?::{SPACE}{_FAST_VALUE}|\Z)|\Z)|\Z)"""
_ARGUMENT = rf"(?:(?P<key>[^\W\d][\w-]{{0,40}}+) ?(?:=(?!=){SPACE}{_FAST_VALUE}|\Z)|\Z)"
_NEXT_ITEM = re.compile(f"{SPACE},{SPACE}{_FAST_VALUE}").match
_NEXT_PATTERNS: dict[BracketKind, Matcher] = {
    ARRAY: _NEXT_ITEM,
    TUPLE: _NEXT_ITEM,
    DICT: re.compile(f"{SPACE},{SPACE}{_MEMBER}").match,
    ARGUMENTS: re.compile(f"{SPACE},{SPACE}{_ARGUMENT}").match,
}


class PythonValues(LiteralValues):
    """Reads the arguments of one call."""

    _next_patterns = _NEXT_PATTERNS
    _fast_literals = _LITERALS

    def __init__(self, call: LiteralCall, dialect: Dialect, limits: Limits) -> None:
        super().__init__(call, dialect, limits)
        self._plain_syntaxes = {quote: string_syntax("", quote, self._end_markers) for quote in "\"'"}
        self._in_comment = False
        """True inside a comment whose end has not been read yet."""
        self._word = ""
        """The last word, whose meaning what follows decides."""

    def begin(self, closer: str, enclosing: str) -> None:
        """Begin the arguments after their opening bracket; `enclosing` closes the brackets around the call."""
        super().begin(closer, enclosing)
        self.context.seen_keyword = False

    # White space.

    def skip_space(self, text: str, pos: int) -> int:
        """Skip white space and comments; an end marker, too, ends a comment."""
        if not self._in_comment and ((char := text[pos]) > "#" or char == '"'):
            return pos
        while True:
            if self._in_comment:
                pos = self._skip_comment(text, pos)
                if self._in_comment:
                    return len(text)
            pos = super().skip_space(text, pos)
            if pos == len(text) or text[pos] != "#":
                return pos
            self._in_comment = True

    def _skip_comment(self, text: str, pos: int) -> int:
        newline = text.find("\n", pos)
        end = newline if newline >= 0 else len(text)
        marker = self._end_markers.search(text, pos, end)
        self._in_comment = marker is None and end == len(text)
        if self._in_comment and (partial := self._end_markers.partial_start(text, pos)) < end:
            self._progress.need_more(partial)
        return end if marker is None else marker.start()

    # Items.

    def _read_argument(self, text: str, pos: int) -> int:
        """The name of an argument, a value without a name, or `**{`."""
        char = text[pos]
        self._has_name = False
        if char == "*":
            return self._read_spread(text, pos)
        if char == "{" and not (self._call.names and self.context.seen_keyword):
            # A dict without a name is an argument where the next parameter may be one, else a dict of the arguments.
            names, count = self._call.parameter_names, len(self._call.names)
            is_argument = names is None or count > 0
            if names is not None and count < len(names):
                is_argument = self._call.admits_object(names[count])
            if not is_argument:
                return self._open_spread(pos)
        if char in "\"'[({":
            self._name_argument(pos)
            self.read_next = self._before_value
            return pos
        return self._read_word(text, pos)

    def _read_spread(self, text: str, pos: int) -> int:
        """`**{...}`: arguments whose names are not identifiers."""
        rest = text[pos : pos + 3]
        if rest != "**{":
            if "**{".startswith(rest):
                self._progress.need_more(pos)
            raise LiteralError("expected a literal, found '*'", pos)
        return self._open_spread(pos + 2)

    def _open_spread(self, pos: int) -> int:
        self.context.seen_keyword = True
        return self._open_bracket(SPREAD, "}", pos)

    def _name_argument(self, pos: int) -> None:
        """Write the name of an argument without one: the parameter at this position in the tool's schema."""
        names, count = self._call.parameter_names, len(self._call.names)
        if names is not None and (self.context.seen_keyword or count >= len(names)):
            raise LiteralError("an argument without a name", pos)
        self._call.is_positional = True
        self._call.write_argument_name(json_escape(names[count]) if names else "")
        self._has_name = True

    def _read_value(self, text: str, pos: int) -> int:
        char = text[pos]
        if char in "\"'":
            if text[pos + 1 : pos + 2] in {"", char}:
                return self._open_string(text, pos, pos)
            self._begin_string(self._plain_syntaxes[char])
            return pos + 1
        if char == "[":
            return self._open_bracket(ARRAY, "]", pos)
        if char == "{":
            return self._open_bracket(DICT, "}", pos)
        return self._open_bracket(TUPLE, ")", pos) if char == "(" else self._read_word(text, pos)

    def _read_key(self, text: str, pos: int) -> int:
        self.string.key = ""
        return self._open_string(text, pos, pos) if text[pos] in "\"'" else self._read_word(text, pos)

    # Words.

    def _read_word(self, text: str, pos: int) -> int:
        """A number, a name, or the prefix of a string."""
        found = self._match_word(_MATCH_WORD, text, pos)
        end = found.end()
        if end == pos:
            raise LiteralError(f"expected a literal, found {text[pos]!r}", pos)
        if text[end : end + 1] in {'"', "'"} and found[0].lower() == RAW_PREFIX:
            return self._open_string(text, pos, end)
        self._word = found[0]
        self.read_next = self._after_word
        return end

    def _after_word(self, text: str, pos: int) -> int:
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        char, word = text[pos], self._word
        if char in "=:：" and self.string.key is None and self.brackets[-1].kind is ARGUMENTS and not self._has_name:
            return self._read_argument_name(text, pos)
        atom = atom_to_json(word)
        if self.string.key is not None and (atom is not None or _KEY.fullmatch(word)):
            self._end_key(atom or json_escape(word))
            return pos
        if atom is None:
            found = "a number with a leading zero" if word.isdigit() else "a name or an expression"
            raise LiteralError(f"expected a literal, found {found}", pos)
        if self.brackets[-1].kind is ARGUMENTS and not self._has_name:
            self._name_argument(pos)
        self._write_atom(atom)
        self._call.add_number(word, atom)
        return pos

    def _read_argument_name(self, text: str, pos: int) -> int:
        if pos + 1 == len(text) and text[pos] in "=:":
            self._progress.need_more(pos)
        if not _KEY.fullmatch(self._word) or text[pos : pos + 2] in {"==", ":="}:
            raise LiteralError("expected the name of an argument", pos)
        self._write_key(self.brackets[-1], self._word)
        self.read_next = self._before_value
        return pos + 1

    def _after_value_slow(self, text: str, pos: int) -> int:
        """After a value that no fast pattern follows; the `)` before the `]` of a list of calls may be missing."""
        bracket = self.brackets[-1]
        if text[pos] == "]" and bracket.kind is ARGUMENTS and bracket.closing_brackets.startswith(")]"):
            if self._call.is_positional:
                raise LiteralError("a bracket is missing after an argument without a name", pos)
            self._call.lacks_brackets = True
            return self._close_bracket(pos) - 1
        return super()._after_value_slow(text, pos)

    # Strings.

    def _open_string(self, text: str, start: int, pos: int) -> int:
        """Begin a string with one quote or three, at `pos` after a prefix."""
        run = text[pos : pos + _MAX_QUOTE_RUN]
        size = len(run) - len(run.lstrip(run[0]))
        if pos + size == len(text) and size < _MAX_QUOTE_RUN:
            self._progress.need_more(start)
        if self.string.key is None and self.brackets[-1].kind is ARGUMENTS and not self._has_name:
            self._name_argument(pos)
        quote = run[:3] if size in {3, 6} else run[0]
        self._begin_string(string_syntax(text[start:pos].lower(), quote, self._end_markers))
        return pos + len(quote)
