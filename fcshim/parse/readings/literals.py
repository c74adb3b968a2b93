"""The readings of calls whose arguments are literals, from a doubtful quote of a string to the end of the body.

Theory of operation. The states of JSON, with Python's brackets, prefixes of strings and names of arguments; between two
calls and after the last one it is `_calls`. Only quotes are edited: the result is the text with its inner quotes
escaped, in which the reader of the syntax reads on. It refuses every other mistake itself.
"""

import re
from collections.abc import Callable
from typing import ClassVar, Literal

from fcshim.parse.arguments.scopes import ANYTHING, Members
from fcshim.parse.readings.edits import END_DOUBLED, END_MISSING, JOINED, NOT_ESCAPED, SECOND_VALUE
from fcshim.parse.readings.json import JsonSearch
from fcshim.parse.readings.steps import Frame, NoReadingError, OpenString, Step, done, tokens_of

Follows = Literal["", "next", "end", "end missing"]
"""What follows a string: nothing that fits, the next value, the end of the body, or that end without its brackets."""
_SPACE = re.compile(r"(?>(?:\s++|\#[^\n]*+)*)")
_QUOTES = "\"'"
_QUOTE = re.compile(r"[\"']")
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


class CallListMembers(Members):
    """What may stand in a list of calls: calls."""

    holds_calls = True


CALL_LIST = CallListMembers()


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
            for at in self._inner_quotes(quote, max(start, before), end):
                out += (self.text[copied:at], "\\")
                copied = at
        return "".join((*out, self.text[copied:]))

    def _inner_quotes(self, quote: str, pos: int, end: int) -> list[int]:
        found = []
        while pos < end:
            at = self.text.find(quote, pos, end)
            if at < 0:
                break
            backslashes = at - len(self.text[:at].rstrip("\\"))
            if backslashes % 2 == 0:
                found.append(at)
            pos = at + 1
        return found

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

    def _end(self, step: Step, frame: Frame) -> None:
        """Close the brackets of a call at the end of the text."""
        last: Step | None = step
        inner: Frame | None = frame
        while inner is not None and not inner.members.holds_calls and last is not None:
            token = (inner.closer, 0, 0)
            last = self.add(last, self._after, len(self.text), inner.parent, END_MISSING, token=token)
            inner = inner.parent

    def _add_second_value(self, step: Step, frame: Frame) -> None:
        super()._add_second_value(step, frame)
        if not frame.repeats and NOT_ESCAPED not in step.styles and (found := _EXPRESSION.match(self.text, step.pos)):
            self.add(step, self._value, found.end(), frame, SECOND_VALUE)

    def _after_body(self, step: Step) -> None:
        self._calls(step)

    def _calls(self, step: Step) -> None:
        """Between two calls, or after the last one."""
        found = _SEPARATORS.match(self.text, step.pos)
        assert found is not None
        frame, end = step.frame, found.end()
        closers = found[0].count("]")
        # In a string that is not escaped, a line of code may end like the last call.
        is_code = not closers and NOT_ESCAPED in step.styles
        while frame is not None and closers:
            frame, closers = frame.parent, closers - 1
        call = _CALL.match(self.text, end)
        members = self._arguments_of(call[1]) if call else None
        if call is not None and members is not None:
            arguments = Frame(self.closers[call[2]], members, frame, keyed=True)
            arguments.is_call = True
            self.add(step, self._key, call.end(), arguments, token=("call", *call.span(1)))
        elif end == len(self.text):
            edits = ((END_MISSING,) if frame is not None else ()) + ((END_DOUBLED,) if closers else ())
            self.add(step, done, end, None, *edits)
        elif frame is None and (self._is_text(end) or ("\n" in found[0] and not is_code)):
            self.add(step, done, end, None)

    def _is_text(self, end: int) -> bool:
        """Return whether the text at `end` has no quotes, and stands apart from the calls before it."""
        stands_apart = self.text[end - 1].isspace() or self.text.startswith(_MARKER_STARTS, end)
        return stands_apart and _QUOTE.search(self.text, end) is None

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

    def what_follows(self, frame: Frame | None, pos: int) -> Follows:
        """Return what follows a string that ends before `pos`."""
        after_comma = False
        while frame is not None and not frame.members.holds_calls:
            start = pos
            pos, char = self._skip(pos)
            if _QUOTE.search(self.text, start, pos):
                return ""
            if not char:
                return "" if after_comma else "end missing"
            if char == frame.closer:
                frame, after_comma = frame.parent, False
            elif char == "," and not after_comma:
                after_comma = True
            else:
                return "next" if after_comma and self._begins_known_item(frame, pos) else ""
            pos += 1
        return self._what_follows_calls(frame, pos)

    def _begins_known_item(self, frame: Frame, pos: int) -> bool:
        key = self.key_at(pos) if frame.keyed and not frame.is_call else None
        if key is not None:
            return key not in frame.keys and frame.members.lists_member(key) is not False
        return self._begins_item(frame, pos)

    def _what_follows_calls(self, frame: Frame | None, pos: int) -> Follows:
        found = _SEPARATORS.match(self.text, pos)
        assert found is not None
        end, closers = found.end(), found[0].count("]")
        while frame is not None and closers:
            frame, closers = frame.parent, closers - 1
        is_exact = frame is None and not closers and not set(found[0]) & set(")}")
        if end == len(self.text):
            return "end" if is_exact else "end missing"
        call = _CALL.match(self.text, end)
        if call is not None and self._arguments_of(call[1]) is not None:
            return "next"
        if is_exact and self._is_text(end):
            return "end"
        return "end missing" if is_exact and "\n" in found[0] else ""
