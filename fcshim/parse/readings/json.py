"""The readings of damaged JSON, written as strict JSON that continues what was already sent.

Theory of operation. The search begins at the last commit point of the strict reader: in the open brackets, after a
value, or inside a string. Its result has a token for each bracket, key and value; commas and colons are added.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from fcshim.parse.arguments.buffering import CommitPoint
from fcshim.parse.arguments.entities import unescape_entities
from fcshim.parse.arguments.literal_words import is_damaged_word
from fcshim.parse.arguments.scopes import ANYTHING, Members
from fcshim.parse.readings.edits import (
    BRACE_MISSING,
    BRACKET_MISSING,
    COLON_MISSING,
    COMMA_AND_SPACE,
    COMMA_MISSING,
    DAMAGED_KEY,
    END_DOUBLED,
    END_MISSING,
    FULL_STOP,
    INNER_BRACKET,
    NOT_ESCAPED,
    QUOTE_MISSING,
    QUOTED_COMMENT,
    SECOND_VALUE,
    SURPLUS,
    SWAPPED_QUOTE,
    TEXT_AFTER,
    UNKNOWN_KEY,
    WORD,
    WRONG_BRACKET,
    WRONG_COMMA,
    WRONG_QUOTE,
    Edit,
)
from fcshim.parse.readings.json_writer import JsonReading, JsonWriter, open_string_content
from fcshim.parse.readings.search import BEFORE_LITERAL, LITERAL_COMMA, OTHER_QUOTES, ReadingSearch
from fcshim.parse.readings.steps import CALL_LIST, Follows, Frame, NoReadingError, OpenString, State, Step, done

UNESCAPED_AT: frozenset[CommitPoint] = frozenset({"start", "opened"})
"""Where a body that is escaped as a whole deviates from strict JSON: at its first key."""
_ASCII = str.maketrans("，：｛｝［］＝", ",:{}[]=")
"""Punctuation as Chinese and Japanese keyboards write it, and what it stands for outside strings."""
_SPACE = re.compile(r"(?>(?:[\s\ufeff]++|//[^\n]*+|\#[^\n]*+|/\*(?>(?:[^*]|\*(?!/)){0,2048})\*/)*)")
"""White space and comments; `/*` without an end is searched for one at each quote, so that a comment has a bound."""
_END = re.compile(r"(?>(?:[\s\ufeff]++|`{3,8}[a-z0-9]*+)*)\Z")
_SURPLUS_BRACKETS = re.compile(r"[\s}\]｝］]*+")
_KEY = re.compile(
    r"""(?:"(?P<double>(?:[^"\\]|\\[\s\S]){0,1024})"|'(?P<single>(?:[^'"\\]|\\[\s\S]){0,1024})'"""
    r"""|[“”](?P<curly>[^“”]{0,1024})”|--?(?P<option>[A-Za-z_][\w.-]{0,127})|(?P<word>[\w$][\w$.-]{0,127}))(?>\s{0,64})"""
    r"""(?:[:：]|[=＝](?!=)>?|(?(option)(?<=\s)|(?!))|(?<=["'”]\s)(?P<alone>)(?=["'{\[+.\d-]|(?:true|false|null|True|False|None)\b))"""
)
_SYMBOL = r"(?:&(?:quot|apos|lt|gt|amp|#\d{2,3}|#x\d\d);|\ufffd{1,3}|=>|[^\s\w$+.-]|[+.-](?!\d))"
_DAMAGED_KEY = re.compile(
    rf"{_SYMBOL}?\s{{0,64}}{_SYMBOL}?(?P<word>[\w$][\w$.-]{{0,127}}){_SYMBOL}{{0,2}}\s{{0,64}}(?:(?![\"'{{\[-]){_SYMBOL})?"
)
_ONE_SYMBOL = re.compile(_SYMBOL)
_ATOM = re.compile(
    r"(?:[+-]?0[xXoObB][0-9a-fA-F_]{1,16}|[+-]?(?:\d+(?:_\d+)*(?:\.\d+|\.(?=[eE]|\s*(?:[,，}\]/#]|\Z)))?|\.\d+)(?:[eE][+-]?\d+)?"
    r"|(?:true|false|null|True|False|None|TRUE|FALSE|NULL|[+-]?(?:NaN|nan|Infinity|Inf|inf)))(?!\w|\.(?!\s+[\"']))"
)
"""Numbers, also +1, .5, 5. and 1_000, and the words that stand for values; those that JSON lacks are rejected later."""
_WORD = re.compile(r"(?!\w+(?:\.\w+)*\()[^\W\d](?:(?!\s--?\w)[^,{}\[\]\"'“”:\n])*(?=[,}\]]|\n\s*\S)")
"""A string that has no quotes; a call or an option is none, and at the end of the text it may be a part."""
_CODE_AFTER_LITERAL = r"\s(?!\s*(?:[^\w\s\"'\\]|(?:if|else|and|or|in|for|is|not)\b))"
_SECOND_START = rf"(?=[\d{{\[-]|(?:true|false|null|True|False|None)\b|[\"'](?:\w|{_CODE_AFTER_LITERAL}))"
_EMPTY_STRING = r"(?=\"\"\s*[,}\])])"
_SECOND_SIGN = r"(?!\s*,\s*[{\[])\s{0,64}(?:[^\w\s\"'{}\[\]()]{1,2}|or\b|and\b)"
_SECOND = re.compile(rf"{_SECOND_SIGN}?\s{{0,64}}{_SECOND_START}|{_SECOND_SIGN}\s{{0,64}}{_EMPTY_STRING}")
"""A sign or nothing, and the start of a value; that of a string is not the end of a literal in code."""
_SECOND_AFTER_WORD = re.compile(rf"{_SECOND.pattern}|{_SECOND_SIGN}\s{{0,64}}(?=[\"'])|\s{{0,64}}{_EMPTY_STRING}")
_REPEATED = re.compile(rf"\s{{0,64}},?\s{{0,64}}(?:{_SECOND_START}|{_EMPTY_STRING})")
QUOTE = re.compile(r"[\"']")
_FULL_STOP = re.compile(r"\.(?=\s+[\"'])")
_VALUE_START = re.compile(r"[\"'“”{\[｛［\d+-]|(?:true|false|null|True|False|None)\b")
_CALL_LINE = re.compile(r"(?:\n|\\n)[ \t]*(?:\[\s{0,16})?\{\s{0,16}\\?[\"'](\w{1,64})\\?[\"']\s{0,16}:")
"""A line in a string, written as JSON, which begins like a call without markers."""


def read_json(
    frame: Frame | None,
    commit_point: CommitPoint,
    text: str,
    call_markers: Sequence[str] = (),
    root: Members = ANYTHING,
    *,
    sent: str = "",
    at_string_start: bool = False,
    lost_backslash: bool = False,
    has_end_marker: bool = True,
) -> JsonReading:
    """Return the only reading of `text` as strict JSON, which continues at `commit_point` in the innermost bracket.

    `frame` is that bracket, `root` what may stand in the outermost value. `sent` is the JSON before `text`,
    `at_string_start` if `text` begins right after a string's quote, `lost_backslash` if `sent` lacks one that was
    written before an apostrophe, `has_end_marker` if the body's end marker follows the text. Raises `NoReadingError`.
    """
    if commit_point in UNESCAPED_AT:
        text = unescape_entities(text)
    before = open_string_content(sent) if commit_point == "string" and not at_string_start else ""
    text = before + text
    search = JsonSearch(text, call_markers, root, has_end_marker=has_end_marker)
    last = search.find(search.first_step(frame, commit_point), len(before))
    if NOT_ESCAPED in last.styles and (lost_backslash or LITERAL_COMMA.search(sent)):
        raise NoReadingError("a backslash or a comma that was read may be content of a string that is not escaped")
    return JsonWriter(text, len(before), frame).write(last, commit_point)


class JsonSearch(ReadingSearch):
    """The states of JSON."""

    closers: ClassVar[dict[str, str]] = {"{": "}", "[": "]"}
    space: ClassVar[re.Pattern[str]] = _SPACE

    def __init__(self, text: str, call_markers: Sequence[str], root: Members, *, has_end_marker: bool) -> None:
        super().__init__(text, call_markers)
        self._root = root
        self._has_end_marker = has_end_marker

    def first_step(self, frame: Frame | None, commit_point: CommitPoint) -> Step:
        """Return the step from which the search begins."""
        match commit_point:
            case "string":
                return Step(self._string, 0, frame, OpenString('"', 0))
            case "after":
                return Step(self._after, 0, frame)
            case "opened" if frame is not None and frame.keyed:
                return Step(self._key, 0, frame)
            case _:
                return Step(self._value, 0, frame)

    def _skip(self, pos: int) -> tuple[int, str]:
        """Return the position after white space and comments, and the character there; an empty string at the end."""
        found = self.space.match(self.text, pos)
        assert found is not None
        end = found.end()
        char = self.text[end : end + 1]
        if char == "`" and _END.match(self.text, end):
            char = ""
        return end, char.translate(_ASCII)

    def find_no_content(self, start: int) -> int:
        """Return the position of the next marker of a call, or, without an end marker, of a line like a call."""
        end = super().find_no_content(start)
        if self._has_end_marker or not self._root.holds_calls:
            return end
        lines = (found for found in _CALL_LINE.finditer(self.text, start, end) if self._root.lists_member(found[1]))
        return next((found.start() for found in lines), end)

    # Values.

    def _value(self, step: Step) -> None:
        pos, char = self._skip(step.pos)
        frame, text = step.frame, self.text
        if self._add_quoted_comment(step, self._value, pos):
            return
        atom = _ATOM.match(text, pos)
        if char in self.closers and char:
            self._open(step, char, pos + 1)
        elif char and char in "\"'“”":
            quote = "'''" if text.startswith("'''", pos) else "”" if char in "“”" else char
            self.open_string(step, quote, pos + len(quote))
        elif frame is not None and char == frame.closer and not frame.keyed:
            self._close(step, frame, pos + 1)
        elif atom:
            self.add(step, self._after, atom.end(), frame, token=("atom", pos, atom.end()))
        elif (word := _WORD.match(text, pos)) and not is_damaged_word(word[0].strip()):
            end = pos + len(word[0].rstrip())
            self.add(step, self._after, end, frame, WORD, token=("word", pos, end))
        can_err = self.may_err(step) or step.uncertain is WRONG_QUOTE or step.uncertain is QUOTE_MISSING
        if can_err and char and frame is not None and not atom:
            self._add_damaged_value(step, pos, char)

    def _add_damaged_value(self, step: Step, pos: int, char: str) -> None:
        found = _ONE_SYMBOL.match(self.text, pos)
        if char not in OTHER_QUOTES + "{[":
            self.open_string(step, '"', pos, QUOTE_MISSING)
        if found is None:
            return
        if found[0] not in "\"'{}[],:":
            self.open_string(step, '"', found.end(), WRONG_QUOTE)
        self.add(step, self._value, found.end(), step.frame, SURPLUS)
        for bracket in self.closers:
            if bracket != char and (bracket != "{" or self._begins_member(found.end())):
                self._open(step, bracket, found.end(), WRONG_BRACKET)

    # Brackets.

    def _open(self, step: Step, bracket: str, end: int, *edits: Edit) -> None:
        members = self._root if step.frame is None else step.frame.inner()
        frame = Frame(self.closers[bracket], members, step.frame, keyed=bracket == "{")
        self.add(step, self._key if bracket == "{" else self._value, end, frame, *edits, token=(bracket, 0, 0))

    def _close(self, step: Step, frame: Frame, end: int, *edits: Edit) -> None:
        parent = frame.parent
        state = self._after_body if parent is None else self._after
        self.add(step, state, end, parent, *edits, token=(frame.closer, 0, 0))

    def _key(self, step: Step) -> None:
        """Before a key or a closing bracket."""
        pos, char = self._skip(step.pos)
        frame = step.frame
        assert frame is not None
        if char == frame.closer:
            self._close(step, frame, pos + 1)
        elif found := _KEY.match(self.text, pos):
            edits: tuple[Edit, ...] = ()
            if found["alone"] is not None:  # a colon is missing, or stands before the closing quote
                edits = (SWAPPED_QUOTE,) if found[_key_group(found)].endswith((":", "：")) else (COLON_MISSING,)
            self._add_key(step, frame, found, *edits)
        if char and self.may_err(step):
            found = _DAMAGED_KEY.match(self.text, pos)
            if found and frame.members.lists_member(found["word"]):
                self._add_key(step, frame, found, DAMAGED_KEY)
            if symbol := _ONE_SYMBOL.match(self.text, pos):
                self.add(step, self._key, symbol.end(), frame, SURPLUS)

    def _add_key(self, step: Step, frame: Frame, found: re.Match[str], *edits: Edit) -> None:
        group = _key_group(found)
        key = found[group]
        is_known = frame.members.lists_member(key)
        if key in frame.keys or (group == "option" and not is_known):
            return
        if is_known is False:
            edits = (*edits, UNKNOWN_KEY)
        token = ("key", *found.span(group))
        self.add(step, self._value, found.end(), frame.with_key(key, is_known=bool(is_known)), *edits, token=token)

    # What follows a value.

    def _after(self, step: Step) -> None:
        pos, char = self._skip(step.pos)
        frame = step.frame
        if self._add_quoted_comment(step, self._after, pos):
            return
        if frame is None:
            self._after_body(step)
        elif not char:
            self._end(step, frame)
        else:
            self._add_next(step, frame, pos, char)
            if self.may_err(step):
                self._add_damaged_end(step, frame, pos, char)
        if frame is not None and frame.keyed and (frame.repeats or self.may_err(step)):
            self._add_second_value(step, frame)

    def _add_quoted_comment(self, step: Step, state: State, end: int) -> bool:
        """Return whether a comment up to `end` holds a quote; then add the step behind it."""
        if end - step.pos < 2 or not QUOTE.search(self.text, step.pos, end):
            return False
        self.add(step, state, end, step.frame, QUOTED_COMMENT)
        return True

    def _add_next(self, step: Step, frame: Frame, pos: int, char: str) -> None:
        """Add what may follow the value: a closing bracket, a comma, or the next item where one of them is missing."""
        if char == frame.closer:
            self._close(step, frame, pos + 1)
        elif char == ",":
            in_array = frame.keyed and frame.parent is not None and not frame.parent.keyed
            if in_array and self._skip(pos + 1)[1] == "{":
                self._close(step, frame, pos, BRACE_MISSING)
            self._next(step, frame, pos + 1)
        elif _FULL_STOP.match(self.text, pos):
            self._next(step, frame, pos + 1, FULL_STOP)
        elif self._begins_item(frame, pos):
            has_space = self.text[pos - 1].isspace() or char in "{["
            self._next(step, frame, pos, COMMA_MISSING if has_space else COMMA_AND_SPACE)
        elif frame.parent is not None and char == frame.parent.closer:
            self._close(step, frame, pos, BRACE_MISSING if frame.keyed else BRACKET_MISSING)

    def _add_damaged_end(self, step: Step, frame: Frame, pos: int, char: str) -> None:
        if char == ",":
            parent = frame.parent
            if parent is not None and (parent.is_call or not parent.keyed or self._begins_member(pos + 1)):
                self._close(step, frame, pos, INNER_BRACKET)
            return
        found = _ONE_SYMBOL.match(self.text, pos)
        if found is None:
            return
        self.add(step, self._after, found.end(), frame, SURPLUS)
        if char not in "\"'":
            self._next(step, frame, found.end(), WRONG_COMMA)
        if char != frame.closer:
            self._close(step, frame, found.end(), WRONG_BRACKET)

    def _begins_member(self, pos: int) -> bool:
        """Return whether a key without a further mistake follows, or the end of an object."""
        pos, char = self._skip(pos)
        return char in {"", "}", ","} or _KEY.match(self.text, pos) is not None or self.key_at(pos) is not None

    def _add_second_value(self, step: Step, frame: Frame) -> None:
        may_be_code = self.text[step.pos - 2 : step.pos - 1] in BEFORE_LITERAL
        pattern = _REPEATED if frame.repeats else _SECOND if may_be_code else _SECOND_AFTER_WORD
        found = pattern.match(self.text, step.pos)
        start = found.end() if found else self._skip(step.pos)[0]
        kind, begin, _ = step.token or ("", 0, 0)
        string = self.text[step.pos - 1 : step.pos] + self.text[begin : step.pos]  # it may be written once more
        if found or (kind == "string" and self.text.startswith(string, start)):
            again = frame.changed(slot=frame.slot)
            again.repeats = True
            self.add(step, self._value, start, again, *(() if frame.repeats else (SECOND_VALUE,)))

    def key_at(self, pos: int) -> str | None:
        """Return the key that begins at `pos`, if a colon follows it."""
        found = _KEY.match(self.text, pos)
        return None if found is None or found["alone"] is not None else found[_key_group(found)]

    def _begins_item(self, frame: Frame, pos: int) -> bool:
        """Return whether the next key, or the next item of an array, begins here."""
        return (_KEY if frame.keyed else _VALUE_START).match(self.text, pos) is not None

    def _next(self, step: Step, frame: Frame, end: int, *edits: Edit) -> None:
        """Go on to the next member or item."""
        while (found := self._skip(end))[1] == ",":
            end = found[0] + 1
        if isinstance(frame.slot, int):
            frame = frame.changed(slot=frame.slot + 1)
        self.add(step, self._key if frame.keyed else self._value, end, frame, *edits)

    def _end(self, step: Step, frame: Frame) -> None:
        """Close all brackets at the end of the text."""
        last: Step | None = step
        open_frame: Frame | None = frame
        while open_frame is not None and open_frame.members is not CALL_LIST and last is not None:
            parent, token = open_frame.parent, (open_frame.closer, 0, 0)
            state = done if parent is None else self._after
            last = self.add(last, state, len(self.text), parent, END_MISSING, token=token)
            open_frame = parent

    def _swapped(self, step: Step) -> None:
        frame, char = step.frame, self.text[step.pos]
        if frame is not None and char == frame.closer:
            self._close(step, frame, step.pos + 2)
        elif frame is not None and char == ",":
            self._next(step, frame, step.pos + 2)

    def _after_body(self, step: Step) -> None:
        """After the last bracket."""
        found = _SURPLUS_BRACKETS.match(self.text, step.pos)
        assert found is not None
        if _END.match(self.text, found.end()):
            self.add(step, done, len(self.text), None, *((END_DOUBLED,) if found[0].strip() else ()))
        elif not self._has_end_marker:
            self.add(step, done, len(self.text), None, TEXT_AFTER)

    def follows(self, frame: Frame, pos: int) -> bool:
        """Return whether what follows a string that ends before `pos` is what follows a value in these brackets."""
        return self.what_follows(frame, pos) in {"next", "end"}

    def what_follows(self, frame: Frame | None, pos: int) -> Follows:
        """Return what follows a string that ends before `pos`."""
        after_comma = False
        while frame is not None and frame.members is not CALL_LIST:
            start = pos
            pos, char = self._skip(pos)
            if QUOTE.search(self.text, start, pos):
                return ""
            if not char:
                return "" if after_comma else "end missing"
            if char == frame.closer:
                frame, after_comma = frame.parent, False
            elif char == "," and not after_comma:
                after_comma = True
            else:
                if not frame.keyed or frame.is_call:
                    return "next" if after_comma and self._begins_item(frame, pos) else ""
                key = self.key_at(pos) if after_comma else None
                is_new = key is not None and key not in frame.keys and frame.members.lists_member(key) is not False
                return "next" if is_new else ""
            pos += 1
        return self._what_follows_body(frame, pos)

    def _what_follows_body(self, _frame: Frame | None, pos: int) -> Follows:
        """Return what follows a string at `pos`, after the last bracket."""
        return "end" if _END.match(self.text, pos) else ""


def _key_group(found: re.Match[str]) -> str:
    groups = found.groupdict()
    return next(group for group in ("double", "single", "curly", "option", "word") if groups.get(group) is not None)
