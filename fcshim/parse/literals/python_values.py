"""Read the arguments of a Python call: literals, transcoded to strict JSON as they arrive.

Names, operators, calls and comprehensions are never evaluated: they end the call with `error: malformed`.

    _before_item --word--> _read_word --> _after_word --=--> _before_item
                                                      --otherwise--> _after_item
                 --quote--> _in_string --> _after_string --> _after_item

Rule: a Python literal has its Python value; every tolerance beyond Python is named in `python_call.lark`.
"""

import re

from fcshim.parse.arguments.atoms import atom_to_json
from fcshim.parse.arguments.fast_patterns import SPACE, value_pattern
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.brackets import ARGUMENTS, ARRAY, DICT, PAREN, SPREAD, BracketKind, OpenBracket
from fcshim.parse.literals.call import ATOM, BEGIN, KEY, LiteralCall
from fcshim.parse.literals.python_quotes import PREFIXES
from fcshim.parse.literals.python_strings import PARTIAL_PREFIX, PREFIX, Matcher, PythonString, python_string_syntax
from fcshim.parse.literals.quoted_strings import json_escape
from fcshim.parse.literals.values import LiteralError, LiteralValues, PartialMarkerError

_QUOTE_RUN = re.compile(r"\"{1,7}|'{1,7}")
_SPACE = re.compile(r"[ \t\r\n\f]*+")
_COMMENT = re.compile(r"[^\n]*+")
_WORD = re.compile(r"[\w.+-]*+")
_KEY = re.compile(r"[^\W\d][\w-]*+")
# Fast patterns for what usually stands between two values: one match instead of several states, with the same result.
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_FAST_VALUE = value_pattern(_LITERALS, value_starts=r"\"'\[({", after_atom=r",)\]}")
_MEMBER = rf"""(?:(?P<quote>['"])(?P<key>[\w -]{{0,40}})(?:(?P=quote) ?(?::{SPACE}{_FAST_VALUE}|\Z)|\Z)|\Z)"""
_ARGUMENT = rf"(?:(?P<key>[^\W\d][\w-]{{0,40}}+) ?(?:=(?!=){SPACE}{_FAST_VALUE}|\Z)|\Z)"
_NEXT_PATTERNS: dict[BracketKind, Matcher] = {
    ARRAY: re.compile(f"{SPACE},{SPACE}{_FAST_VALUE}").match,
    DICT: re.compile(f"{SPACE},{SPACE}{_MEMBER}").match,
    ARGUMENTS: re.compile(f"{SPACE},{SPACE}{_ARGUMENT}").match,
    SPREAD: re.compile("(?!)").match,
}
_FIRST_MEMBER = re.compile(rf"\{{{SPACE}{_MEMBER}")


class PythonValues(LiteralValues):
    """Reads the arguments of one call."""

    _next_patterns = _NEXT_PATTERNS
    _fast_literals = _LITERALS
    _plain_quotes = "\"'"
    string: PythonString | None

    def __init__(self, call: LiteralCall, dialect: Dialect, limits: Limits) -> None:
        super().__init__(call, dialect, limits)
        self._joined_in: OpenBracket | None = None
        """The parentheses in which string literals were joined: they are not a tuple."""
        self._plain_syntaxes = {quote: python_string_syntax("", quote, self._end_markers) for quote in "\"'"}

    def begin(self, closer: str, enclosing: str) -> None:
        """Begin the arguments after their opening bracket; `enclosing` closes the brackets around the call."""
        super().begin(closer, enclosing)
        self._seen_keyword, self._call.has_keywords = False, True
        self._joined_in = None

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
            found = _SPACE.match(text, pos)
            assert found is not None
            pos = found.end()
            if pos == len(text) or text[pos] != "#":
                return pos
            self._in_comment = True

    def _skip_comment(self, text: str, pos: int) -> int:
        found = _COMMENT.match(text, pos)
        assert found is not None
        end = found.end()
        marker = self._end_markers.search(text, pos, end)
        self._in_comment = marker is None and end == len(text)
        if self._in_comment and not self._progress.final and self._end_markers.partial_start(text, pos) < end:
            raise PartialMarkerError(self._end_markers.partial_start(text, pos))
        return end if marker is None else marker.start()

    # Items.

    def _set_fast_key(self, bracket: OpenBracket, key: str) -> None:
        if bracket.kind is not ARGUMENTS:
            self._put(KEY, key)
            bracket.expects_key = False
        else:
            self._argument_name = key
            self._seen_keyword = self._call.is_certain = True
        bracket.expects_value = True

    def _read_item(self, text: str, pos: int) -> int:
        """Read the start of a value, a key or an argument."""
        char = text[pos]
        if char in "\"'":
            plain = pos + 1 < len(text) and text[pos + 1] != char
            return self._open_plain_string(char, pos) if plain else self._open_string(text, pos, "")
        if char in "[(":
            return self._open_bracket(ARRAY if char == "[" else PAREN, "]" if char == "[" else ")", pos)
        if char == "{":
            return self._read_brace(text, pos)
        if char == "*":
            return self._read_star(text, pos)
        if _WORD.match(text, pos, pos + 1).end() == pos:  # type: ignore[union-attr] # it matches nothing, too
            return self._handle_unexpected(text, pos)
        self.read_next = self._read_word
        return pos

    def _read_brace(self, text: str, pos: int) -> int:
        """A dict; as a positional argument where no object fits, it is read as a dict of the arguments."""
        bracket = self.brackets[-1]
        if bracket.kind is ARGUMENTS and self._argument_name is None and not self._admits_object(bracket):
            if bracket.count and self._seen_keyword:
                raise LiteralError("an argument without a name", pos)
            return self._open_spread(pos + 1)
        return self._open_brace(_FIRST_MEMBER, text, pos)

    def _admits_object(self, bracket: OpenBracket) -> bool:
        names = self._call.parameter_names
        if names is None:
            return True
        if bracket.count >= len(names):
            return bool(bracket.count)
        return self._call.admits_object(names[bracket.count])

    def _read_star(self, text: str, pos: int) -> int:
        """`**{...}`: arguments whose names are not identifiers."""
        rest = text[pos : pos + 3]
        if rest == "**{" and self.brackets[-1].kind is ARGUMENTS and self._argument_name is None:
            return self._open_spread(pos + 3)
        if "**{".startswith(rest) and not self._progress.final:
            self._progress.wait = True
            return pos
        raise LiteralError("expected a literal, found '*'", pos)

    def _open_spread(self, pos: int) -> int:
        self._seen_keyword = True
        self._push_bracket(SPREAD, "}")
        return pos

    def _positional_name(self, bracket: OpenBracket, pos: int) -> str:
        """Return the parameter name at this position in the tool's schema."""
        names = self._call.parameter_names
        if names is None:
            return ""
        if self._seen_keyword or bracket.count >= len(names):
            raise LiteralError("an argument without a name", pos)
        self._call.is_positional = True
        return names[bracket.count]

    def _handle_unexpected(self, text: str, pos: int) -> int:
        """Close the call at the `]` of its list where its `)` is missing, or handle other unexpected text."""
        bracket = self.brackets[-1]
        in_list = bracket.kind is ARGUMENTS and bracket.closing_brackets.startswith(")]")
        if text[pos] == "]" and in_list and not bracket.expects_value:
            if self._call.is_positional:
                raise LiteralError("a bracket is missing after an argument without a name", pos)
            self._call.lacks_brackets = True
            return self._close_bracket(pos) - 1
        return super()._handle_unexpected(text, pos)

    # Words.

    def _read_word(self, text: str, pos: int) -> int:
        """A number, a name, or the prefix of a string."""
        end = self._gather_word(_WORD, text, pos)
        if end == len(text):
            return end
        if text[end] in "\"'" and self._word.text.lower() in PREFIXES:
            return self._open_string(text, end, self._word.take())
        self.read_next = self._after_word
        return end

    def _after_word(self, text: str, pos: int) -> int:
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        bracket = self.brackets[-1]
        if text[pos] in "=:：" and bracket.kind is ARGUMENTS and self._argument_name is None:
            return self._read_argument_name(text, pos)
        token = self._word.take()
        atom = atom_to_json(token)
        if text[pos] in ":：" and bracket.expects_key and atom is None and _KEY.fullmatch(token):
            return self._end_bare_key(json_escape(token), pos)
        if atom is None:
            found = "a number with a leading zero" if token.isdigit() else "a name or an expression"
            raise LiteralError(f"expected a literal, found {found}", pos)
        self._call.add_number(token, atom)
        return self._end_atom(atom, pos)

    def _end_atom(self, atom: str, pos: int) -> int:
        """Write a complete number or literal, which ends at `pos`."""
        self._put_item_start(pos)
        self._put(ATOM, atom)
        self.read_next = self._after_item
        return pos

    def _end_bare_key(self, key: str, pos: int) -> int:
        """Write an unquoted key, which ends at `pos`."""
        self._put_item_start(pos)
        self._call.put_string(key)
        self.read_next = self._after_item
        return pos

    def _read_argument_name(self, text: str, pos: int) -> int:
        if pos + 1 == len(text) and text[pos] in "=:" and not self._progress.final:
            self._progress.wait = True
            return pos
        token = self._word.take()
        if not _KEY.fullmatch(token) or text[pos : pos + 2] in {"==", ":="}:
            raise LiteralError("expected the name of an argument", pos)
        self._argument_name = token
        self._seen_keyword = self._call.is_certain = True
        self.brackets[-1].expects_value = True
        self.read_next = self._before_item
        return pos + 1

    # Strings.

    def _open_plain_string(self, quote: str, pos: int) -> int:
        """Begin a string with one quote and no prefix."""
        bracket = self.brackets[-1]
        if bracket.kind is not ARRAY:
            self._put_item_start(pos)
        self._put(BEGIN, '"')
        return self._enter_plain_string(bracket, quote, pos)

    def _enter_plain_string(self, bracket: OpenBracket, quote: str, pos: int) -> int:
        key = quote, bracket.kind, bracket.expects_key
        string = self._fresh_strings.get(key)
        if string is None:
            string = PythonString(self._plain_syntaxes[quote], self._string_context(bracket), self._limits)
            self._fresh_strings[key] = string
        self.string = string
        self._call.in_content = False
        self.read_next = self._in_string
        return pos + 1

    def _open_string(self, text: str, pos: int, prefix: str) -> int:
        """Begin a string with one quote or three."""
        string, end = self._make_string(text, pos, prefix)
        if string is None:
            if prefix:
                self._word.add(prefix)
            self._progress.wait = True
            return pos
        self._begin_string(string, pos)
        return end

    def _make_string(self, text: str, pos: int, prefix: str) -> tuple[PythonString | None, int]:
        """Make the reader of the string that starts at `pos`; None while it may have one quote or three."""
        quotes, following = text[pos], text[pos + 1 : pos + 2]
        if following == quotes or not following:
            rest = text[pos : pos + 3]
            if len(rest) < 3 and pos + len(rest) == len(text) and not self._progress.final:
                return None, pos
            if rest == quotes * 3:
                return self._make_triple_quoted(text, pos, prefix)
        return self._make_literal(prefix, quotes), pos + 1

    def _make_triple_quoted(self, text: str, pos: int, prefix: str) -> tuple[PythonString | None, int]:
        """Make the reader of a string in triple quotes; after more than three quotes, one may have been meant."""
        found = _QUOTE_RUN.match(text, pos)
        assert found is not None
        count = found.end() - pos
        if count < 7 and found.end() == len(text) and not self._progress.final:
            return None, pos
        if count in {3, 6}:
            return self._make_literal(prefix, found[0][:3]), pos + 3
        string = self._make_literal(prefix, found[0][0])
        string.doubtful = True
        return string, pos + 1

    def _make_literal(self, prefix: str, quotes: str) -> PythonString:
        bracket = self.brackets[-1]
        syntax = python_string_syntax(prefix, quotes, self._end_markers)
        return PythonString(syntax, self._string_context(bracket), self._limits)

    def _in_string(self, text: str, pos: int) -> int:
        """Read plain content, and the quote after it where a fast pattern says whether that ends the string."""
        string, call = self.string, self._call
        assert string is not None
        if string.doubtful or not (call.is_direct and string.streams):
            return self._in_unusual_string(text, pos)
        found = string.syntax.match_run(text, pos)
        assert found is not None
        end, group = found.end(1), found.lastgroup
        if end > pos:
            self._buffer.add_content(found[1])
        if group == "run":
            if end < len(text):
                return self._in_unusual_string(text, end)
            call.in_content = call.in_content or call.streams_string
        elif group != "partial" and string.context.ends_fast(found):
            return self._end_fast(string, end)
        elif self._progress.final or not (group == "partial" or string.context.may_be_next_key(found)):
            return self._in_unusual_string(text, end)
        else:
            self._progress.wait = True
        return end

    def _in_unusual_string(self, text: str, pos: int) -> int:
        """Read what the fast pattern does not decide; the reader of the string is not a fresh one from here on."""
        self._fresh_strings.clear()
        return super()._in_string(text, pos)

    def _end_fast(self, string: PythonString, pos: int) -> int:
        """End the string at the quote at `pos`."""
        call = self._call
        self._buffer.end_string()
        call.in_content = False
        if string.has_backslash:
            call.escapes_doubtful = True
        self.string = None
        self.read_next = self._after_item
        return pos + 1

    def _end_string(self, text: str, pos: int) -> int:
        if pos < len(text) and text[pos] in ",:)]}":
            return super()._end_string(text, pos)
        self.read_next = self._after_string
        return pos

    def _joins_strings(self) -> bool:
        """Return whether a string literal continues the one before it: in an array, a comma may be missing."""
        bracket = self.brackets[-1]
        if bracket.kind is PAREN:
            self._joined_in, bracket = bracket, self.brackets[-2]
        return self._seen_keyword if bracket.kind is ARGUMENTS else bracket.kind is DICT and not bracket.expects_key

    def _begin_next_item(self, bracket: OpenBracket, pos: int) -> None:
        if bracket is self._joined_in:
            raise LiteralError("a tuple of strings, one of them in two parts", pos)
        super()._begin_next_item(bracket, pos)

    def _after_string(self, text: str, pos: int) -> int:
        """After a string: an adjacent string literal continues it."""
        pos = self.skip_space(text, pos)
        if pos == len(text):
            return pos
        found = PREFIX.match(text, pos)
        if found is None and PARTIAL_PREFIX.match(text, pos) and not self._progress.final:
            self._progress.wait = True
            return pos
        at = found.end() if found else pos
        if text[at] not in "\"'":
            return super()._end_string(text, pos)
        if not self._joins_strings():
            raise LiteralError("two strings without a comma, or one string in two parts", pos)
        string, end = self._make_string(text, at, text[pos:at])
        if string is None:
            self._progress.wait = True
            return pos
        self.string = string
        self.read_next = self._in_string
        return end
