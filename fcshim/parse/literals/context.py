"""The open brackets of a call, and where a string in them ends.

Theory of operation. A quote ends its string if what follows can follow a value in the open brackets: the next argument
with its equals sign, the next item, or closing brackets and then the same, or the end of the body. Any other quote
leaves the decision to the end of the body (`readings`).

Rule: a bounded look-ahead decides, the same for every split of the text; the answer is None while more text is needed.
"""

import enum
import re
from collections.abc import Mapping

from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS
from fcshim.parse.arguments.scopes import ANYTHING
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.literals.call import LiteralCall
from fcshim.parse.literals.strings import LiteralError, Matcher, StringReader
from fcshim.parse.markers import compile_end_markers
from fcshim.parse.readings.json_writer import open_string_content
from fcshim.parse.readings.literals import LiteralSearch
from fcshim.parse.readings.search import LITERAL_COMMA
from fcshim.parse.readings.steps import CALL_LIST, Frame, NoReadingError

LOOK_AHEAD = 256
"""Maximum characters to look at after a quote: a long name and some white space fit."""
_AFTER_KEY = re.compile(r"\s{0,64}(?:(?P<colon>[:：])|(?P<partial>\Z)|)")


class BracketKind(enum.IntEnum):
    """What a bracket opens."""

    ARGUMENTS = enum.auto()
    SPREAD = enum.auto()
    """A dict whose members are the arguments: `f({...})`, `f(**{...})`."""
    DICT = enum.auto()
    ARRAY = enum.auto()
    TUPLE = enum.auto()


ARGUMENTS, SPREAD, DICT, ARRAY, TUPLE = BracketKind
"""Module names, because an enum's attribute lookup costs about as much as a state's own work."""
WRITTEN = {ARGUMENTS: "{}", DICT: "{}", ARRAY: "[]", TUPLE: "[]"}
"""The brackets in JSON, for those that are written."""


class OpenBracket:
    """One open bracket; `closing_brackets` close it and the brackets around it, innermost first.

    `depth` is the depth of its container in the arguments.
    """

    __slots__ = ("closer", "closing_brackets", "depth", "has_comma", "kind")

    def __init__(self, kind: BracketKind, closer: str, enclosing: str, depth: int) -> None:
        self.kind = kind
        self.closer = closer
        self.closing_brackets = closer + enclosing
        self.depth = depth
        self.has_comma = False


class OpenBrackets:
    """The open brackets of one call, innermost last; `seen_keyword` says that no argument without a name may follow."""

    def __init__(self, call: LiteralCall, dialect: Dialect, next_patterns: Mapping[BracketKind, Matcher]) -> None:
        self.stack: list[OpenBracket] = []
        """Empty outside a call."""
        self.seen_keyword = False
        self.next_item: re.Match[str] | None = None
        """What the fast pattern of the innermost bracket matched after the string that has ended."""
        self._call = call
        self._next_patterns = next_patterns
        self._end_markers = compiled_closers(dialect)
        self.following_markers = compile_end_markers((*self._end_markers.markers, *filter(None, (dialect.quote,))))
        """What may follow a string, besides the signs of the syntax."""

    def escape_quotes(self, string: StringReader, text: str) -> str:
        """Return the remainder of the body, which begins at a doubtful quote of the string, with inner quotes escaped.

        Every quote then ends its string. Raises `NoReadingError`.
        """
        sent, quote = self._call.sent_arguments(), string.syntax.quote
        before = open_string_content(sent)
        has_escapes = string.has_escape or 0 < string.line_breaks < before.count("\n")
        search = self._make_search(before + text)
        escaped = search.escape(self._frame(), quote, len(before), is_raw=string.syntax.is_raw)
        if escaped != text and (has_escapes or LITERAL_COMMA.search(sent)):
            raise NoReadingError("a backslash or a comma that was read may be content of a string that is not escaped")
        return escaped

    def _make_search(self, text: str) -> LiteralSearch:
        return LiteralSearch(text, self._call.arguments_of)

    def _frame(self) -> Frame:
        """Return the innermost open bracket, for the search."""
        frame: Frame | None = None
        for closer in reversed(self.stack[0].closing_brackets[1:]):
            frame = Frame(closer, CALL_LIST, frame, keyed=False)
        containers = self._call.writer.open_containers()
        for bracket in self.stack:
            kind = bracket.kind
            is_written = kind in WRITTEN and bracket.depth < len(containers)
            container = containers[bracket.depth] if is_written else None
            members = ANYTHING if container is None else container.members
            keys = frozenset(() if container is None else container.keys)
            if kind is ARGUMENTS or kind is SPREAD:
                members, keys = self._call.arguments_members(), frozenset(self._call.names)
            frame = Frame(bracket.closer, members, frame, keyed=kind in {ARGUMENTS, SPREAD, DICT})
            frame.keys, frame.is_call, frame.has_keyword = keys, kind is ARGUMENTS, self.seen_keyword
            if frame.keyed:
                frame.slot = "" if container is None else container.key
        assert frame is not None
        return frame

    def ends_string(self, text: str, pos: int, *, final: bool) -> bool | None:
        """Return whether the quote before `pos` ends its string; None while more text is needed."""
        at, depth, size = pos, len(self.stack) - 1, len(text)
        while depth >= 0 and at < size and text[at] == self.stack[depth].closer:
            if self._end_markers.marker_at(text, at):
                break
            at, depth = at + 1, depth - 1
        if at == size and not final:
            return None
        bracket = self.stack[depth]
        if depth >= 0 and bracket.kind in self._next_patterns:
            found = self._next_patterns[bracket.kind](text, at)
            if found is not None:
                if found.lastgroup not in COMPLETE_GROUPS:
                    return None if not final else self._ends_before(text, pos, final=final)
                if self._admits_next(bracket, found, is_inner=at == pos):
                    self.next_item = found if at == pos else None
                    return True
        return self._ends_before(text, pos, final=final)

    def _admits_next(self, bracket: OpenBracket, found: re.Match[str], *, is_inner: bool) -> bool:
        """Return whether the key that a fast pattern matched may come; `is_inner` in the innermost bracket."""
        if bracket.kind is ARGUMENTS:
            return self._call.admits_argument(found["key"])
        if bracket.kind is DICT:
            return is_inner or self._call.writer.admits_key(bracket.depth, found["key"])
        return True

    def _ends_before(self, text: str, pos: int, *, final: bool) -> bool | None:
        marker = self.following_markers.search(text, pos, pos + LOOK_AHEAD)
        following = text[pos : marker.start() if marker else pos + LOOK_AHEAD]
        closed = marker is not None or (final and pos + len(following) == len(text))
        frame = self._frame()
        follows = self._make_search(following).what_follows(frame, 0)
        if follows == "next":
            # A shorter text must give the same answer: then a longer one does, too.
            return True if closed or self._make_search(following[:-1]).what_follows(frame, 0) == "next" else None
        if closed or len(following) == LOOK_AHEAD:
            return follows == "end"
        return None


def ends_key(text: str, pos: int, *, final: bool) -> bool | None:
    """Return whether a colon follows a key. Raises `LiteralError` if anything else does."""
    found = _AFTER_KEY.match(text, pos)
    assert found is not None
    if found.lastgroup is None:
        raise LiteralError("expected a colon", pos)
    return True if found.lastgroup == "colon" or final else None
