"""The readings of calls whose arguments are literals, from a doubtful quote of a string to the end of the body.

Theory of operation. The states of JSON, with Python's brackets, prefixes of strings and names of arguments; between two
calls and after the last one it is `_calls`. Only quotes are edited: the result is the text with its inner quotes
escaped, in which the reader of the syntax reads on. It refuses every other mistake itself.
"""

import re
from collections.abc import Callable
from typing import ClassVar

from fcshim.parse.arguments.scopes import ANYTHING, Members
from fcshim.parse.readings.edits import END_DOUBLED, END_MISSING, JOINED, NOT_ESCAPED, SECOND_VALUE
from fcshim.parse.readings.json import QUOTE, JsonSearch
from fcshim.parse.readings.json_writer import is_escaped
from fcshim.parse.readings.steps import CALL_LIST, Follows, Frame, NoReadingError, OpenString, Step, done, tokens_of

_SPACE = re.compile(r"(?>(?:\s++|\#[^\n]*+)*)")
_QUOTES = "\"'"
_STRING = re.compile(r"(?P<prefix>[rRfFuU]{1,2})?(?P<quote>\"{3}|'{3}|[\"'])")
_ARGUMENT = re.compile(r"(?P<word>[^\W\d]\w{0,127})\s{0,64}[=:：](?!=)")
_CALL = re.compile(r"(?:print\s{0,16}\(\s{0,16})?(?:call\s{0,16}:\s{0,16})?([^\W\d][\w.-]{0,255})[ \t]{0,16}([({])")
_SEPARATORS = re.compile(r"[\s,;)）\]］}｝`]*+")
_MARKER_STARTS = ("<|", "</")
"""How an end-of-text token or a stray end marker begins."""
_EXPRESSION = re.compile(
    r"(?:\s{1,64}[+%]|\s{0,64}(?:\.\s*[^\W\d]|\[|\*\s*\d|\b(?:if|or|and|for)\b))(?:[^\"'{}]{0,128}[-+*/%(\[,=:])?"
    r"\s{0,64}[rRfFuU]{0,2}(?=[\"'])"
)
"""What stands between two strings of an expression."""


class LiteralSearch(JsonSearch):
    """The states of calls.

    `arguments_of` returns what may stand in the arguments of a tool, None if it is not offered.
    """

    closers: ClassVar[dict[str, str]] = {"{": "}", "[": "]", "(": ")"}
    space: ClassVar[re.Pattern[str]] = _SPACE

    def __init__(self, text: str, arguments_of: Callable[[str], Members | None]) -> None:
        super().__init__(text, (), CALL_LIST, has_end_marker=True)
        self._arguments_of = arguments_of
        self._raw_starts: set[int] = set()

    def escape(self, frame: Frame, quote: str, before: int, *, is_raw: bool) -> str:
        """Return the text, which begins inside a string, with its inner quotes escaped.

        `before` characters of the text were sent. Raises `NoReadingError`.
        """
        if is_raw:
            self._raw_starts.add(0)
        last = self.find(Step(self._string, 0, frame, OpenString(quote, 0)), before)
        if last.cost > NOT_ESCAPED.cost + END_MISSING.cost:
            raise NoReadingError("more than the quotes of a string are damaged")
        out: list[str] = []
        copied = before
        for kind, start, end in tokens_of(last):
            if kind != "string":
                continue
            quote = quote if start == 0 else self.text[start - 1]
            at = max(start, before) - 1
            while (at := self.text.find(quote, at + 1, end)) >= 0:
                if not is_escaped(self.text, at):
                    out += (self.text[copied:at], "\\")
                    copied = at
        return "".join((*out, self.text[copied:]))

    def content_end(self, start: int) -> int:
        """Return where a string that is not escaped ends at the latest; the quotes of a raw one cannot be escaped."""
        return start if start in self._raw_starts else super().content_end(start)

    # Values.

    def _value(self, step: Step) -> None:
        string = self._marked_string(self._skip(step.pos)[0])
        if string is None:
            super()._value(step)
            return
        if "r" in (string["prefix"] or "").lower():
            self._raw_starts.add(string.end())
        self.open_string(step, string["quote"], string.end())

    def _marked_string(self, pos: int) -> re.Match[str] | None:
        """Return the start of a string with a prefix, or in triple quotes."""
        found = _STRING.match(self.text, pos)
        return found if found is not None and (found["prefix"] or len(found["quote"]) > 1) else None

    def _key(self, step: Step) -> None:
        pos, char = self._skip(step.pos)
        frame = step.frame
        assert frame is not None
        if (string := self._marked_string(pos)) and (end := self._end_of_key(string)) >= 0:
            token = ("key", string.end(), end - len(string["quote"]))
            self.add(step, self._value, self._skip(end)[0] + 1, frame, token=token)
        elif not frame.is_call or char == frame.closer or (char in _QUOTES and self.key_at(pos) is not None):
            super()._key(step)
        elif found := _ARGUMENT.match(self.text, pos):
            named = frame.changed(slot=frame.slot)
            named.has_keyword = True
            self._add_key(step, named, found)
        elif self.text.startswith("**{", pos):
            spread = Frame("}", frame.members, frame, keyed=True)
            self.add(step, self._key, pos + 3, spread, token=("{", 0, 0))
        elif not frame.has_keyword:
            self.add(step, self._value, pos, frame)

    def _end_of_key(self, string: re.Match[str]) -> int:
        """Return the end of a key that begins like this, before its colon; -1 if it is none."""
        end = self.text.find(string["quote"], string.end()) + len(string["quote"])
        return end if end >= string.end() and self._skip(end)[1] == ":" else -1

    def key_at(self, pos: int) -> str | None:
        """Return the key that begins at `pos`, if a colon follows it."""
        string = self._marked_string(pos)
        end = self._end_of_key(string) if string else -1
        return self.text[string.end() : end - len(string["quote"])] if string and end >= 0 else super().key_at(pos)

    # What follows a value.

    def _after(self, step: Step) -> None:
        frame = step.frame
        if frame is None or frame.members.holds_calls:
            self._calls(step)
            return
        string = self._continuation(frame, step.pos)
        if string is not None:
            self.open_string(step, string["quote"], string.end(), JOINED)
        super()._after(step)

    def _continuation(self, frame: Frame, pos: int) -> re.Match[str] | None:
        """Return the start of a string which continues the one that ends before `pos`, as in Python."""
        return _STRING.match(self.text, self._skip(pos)[0]) if frame.keyed or frame.closer == ")" else None

    def _add_second_value(self, step: Step, frame: Frame) -> None:
        super()._add_second_value(step, frame)
        if not frame.repeats and NOT_ESCAPED not in step.styles and (found := _EXPRESSION.match(self.text, step.pos)):
            self.add(step, self._value, found.end(), frame, SECOND_VALUE)

    def _after_body(self, step: Step) -> None:
        self._calls(step)

    def _calls(self, step: Step) -> None:
        """Between two calls, or after the last one."""
        end, frame, closers = self._after_separators(step.frame, step.pos)
        separators = self.text[step.pos : end]
        call = self._call_at(end)
        if call is not None:
            found, members = call
            arguments = Frame(self.closers[found[2]], members, frame, keyed=True)
            arguments.is_call = True
            self.add(step, self._key, found.end(), arguments, token=("call", *found.span(1)))
        elif end == len(self.text):
            edits = ((END_MISSING,) if frame is not None else ()) + ((END_DOUBLED,) if closers else ())
            self.add(step, done, end, None, *edits)
        elif frame is None:
            # In a string that is not escaped, a line of code may end like the last call.
            is_code = "]" not in separators and NOT_ESCAPED in step.styles
            if self._is_text(end) or ("\n" in separators and not is_code):
                self.add(step, done, end, None)

    def _after_separators(self, frame: Frame | None, pos: int) -> tuple[int, Frame | None, int]:
        """Return the position after what separates calls, the list that is still open, and the brackets too many."""
        found = _SEPARATORS.match(self.text, pos)
        assert found is not None
        closers = found[0].count("]")
        while frame is not None and closers:
            frame, closers = frame.parent, closers - 1
        return found.end(), frame, closers

    def _call_at(self, pos: int) -> tuple[re.Match[str], Members] | None:
        """Return the start of a call of an offered tool at `pos`, and what may stand in its arguments."""
        found = _CALL.match(self.text, pos)
        members = self._arguments_of(found[1]) if found else None
        return None if found is None or members is None else (found, members)

    def _is_text(self, end: int) -> bool:
        """Return whether the text at `end` has no quotes, and stands apart from the calls before it."""
        stands_apart = self.text[end - 1].isspace() or self.text.startswith(_MARKER_STARTS, end)
        return stands_apart and QUOTE.search(self.text, end) is None

    def _begins_item(self, frame: Frame, pos: int) -> bool:
        if not frame.is_call:
            return super()._begins_item(frame, pos)
        key = _ARGUMENT.match(self.text, pos)
        if key is not None:
            return key["word"] not in frame.keys and frame.members.lists_member(key["word"]) is not False
        is_value = not frame.has_keyword and super()._begins_item(Frame("]", ANYTHING, None, keyed=False), pos)
        return is_value or self.text.startswith("**{", pos)

    def follows(self, frame: Frame, pos: int) -> bool:
        """Return whether what follows a string that ends before `pos` is what follows a value in these brackets."""
        string = self._continuation(frame, pos)
        return bool(self.what_follows(frame, pos)) or (string is not None and "\n" in self.text[pos : string.start()])

    def _what_follows_body(self, frame: Frame | None, pos: int) -> Follows:
        """Return what follows a string at `pos`, after the arguments of its call."""
        end, frame, closers = self._after_separators(frame, pos)
        separators = self.text[pos:end]
        is_exact = frame is None and not closers and not set(separators) & set(")}")
        if end == len(self.text):
            return "end" if is_exact else "end missing"
        if self._call_at(end) is not None:
            return "next"
        if is_exact and self._is_text(end):
            return "end"
        return "end missing" if is_exact and "\n" in separators else ""
