"""Read calls in Python's syntax: `[f(a=1), g(b='x')]`, or `f(a=1)` on a line of its own.

    _before_first_call --word--> _read_name --> _after_name --(--> the arguments (`python_values`)
    the arguments      --)--> _between_calls
    _between_calls     --word--> _read_name    --] or an end marker--> _after_calls or _after_list

Rule: this module reads lists, names and the parenthesis after a name; `python_values` reads the arguments.
"""

import re
from dataclasses import dataclass

from fcshim.parse.body import BodyReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.literals.body import LiteralBody
from fcshim.parse.literals.python_values import PythonValues
from fcshim.parse.scanner import Scanner, none_if_more_needed
from fcshim.parse.sink import CallSink

_NAME = re.compile(r"[^\W\d][\w.-]{0,127}+[ \t]{0,16}+")
"""A name with the blanks before its parenthesis; the bounds limit the text that is held back before it is no call."""
_BRACKETS = re.compile(r"\[{0,8}\s{0,64}")


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Python calls, in a list or in sequence."""

    bare: bool = False
    """True where no marker surrounds the calls: then only a list is accepted."""
    method: str = ""
    """A method that may stand between a tool's name and its arguments: `f.call(a=1)`."""
    alone: bool = False
    """True where a call stands on a line of its own: the body ends with it."""
    grammar: str = "python_call"

    @none_if_more_needed
    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether a name and `(` start at `pos`, in a list or alone; None while they may."""
        scan = Scanner(text, pos)
        if not self.bare:
            scan.take()
        elif scan.peek() != "[" or text[pos + 1 : pos + 2] == "[":
            return False
        scan.take(_BRACKETS)
        return bool(scan.take(_NAME) and scan.skip("("))

    def reader(self, dialect: Dialect, _start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of one body."""
        return PythonBody(self, dialect, sink, limits)


class PythonBody(LiteralBody):
    """Reads one body."""

    def __init__(self, syntax: PythonCalls, dialect: Dialect, sink: CallSink, limits: Limits) -> None:
        super().__init__(PythonValues, dialect, sink, limits, has_keywords=True)
        self._bare = syntax.bare
        self._method = f".{syntax.method}" if syntax.method else ""
        self._alone = syntax.alone
        self._in_print = False
        self._list_depth = 0
        """Number of open list brackets around the calls."""
        self._is_separated = False
        """True if a comma or a line break follows the last call."""

    def _before_first_call(self, text: str, pos: int) -> int:
        pos = self._values.skip_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] == "[":
            self._list_depth += 1
            return pos + 1
        return self._read_name(text, pos)

    def _read_name(self, text: str, pos: int) -> int:
        """Read the name of the tool and the parenthesis after it; a word that starts no call ends the body."""
        found = _NAME.match(text, pos)
        if found is None or not text.startswith("(", found.end()):
            if found is not None and found.end() == len(text):
                self._progress.need_more(pos)
            return self._end_or_reject(pos)
        name, pos = found[0].rstrip().removesuffix(self._method), found.end() + 1
        if name == "print" and not self._bare and self._sink.resolve(name) is None:
            self._state = self._between_calls  # models write `print(f(a=1))` to show a call's result
            self._in_print = True
            return pos
        self._is_separated = False
        self._begin_call(name, ")", "]" * self._list_depth)
        return pos

    def _end_or_reject(self, pos: int) -> int:
        """Read text that starts no call: trailing text after a call, else the body is not one."""
        if self._bare and self._list_depth and self._sink.is_complete and not self._is_separated:
            # In a list without markers other text follows the call in its line: `[f() if x else g()]`.
            self._sink.fail("malformed", "the call is a part of an expression")
        if self._call.call_count and (not self._bare or self._progress.final):
            self._state = self._in_trailing_text
        else:
            self._progress.reject_body()
        return pos

    def _between_calls(self, text: str, pos: int) -> int:
        """Between two calls or after the last one."""
        if self._alone and self._call.call_count and not (self._in_print or self._list_depth):
            self._progress.end_body()
            return pos
        start, pos = pos, self._skip_trailing_space(text, pos)
        self._is_separated = self._is_separated or "\n" in text[start:pos]
        if pos == len(text):
            return pos
        char = text[pos]
        if char == "]" and self._list_depth:
            self._list_depth -= 1
            if not self._list_depth:
                self._is_complete = self._bare
                self._state = self._after_list if self._bare else self._after_calls
            return self._skip_to(pos + 1)
        if char in ",;" or (char in ")]" and not self._bare):
            self._in_print = self._in_print and char != ")"
            self._is_separated = self._is_separated or char in ",;"
            return self._skip_to(pos + 1)
        if self._bare or _NAME.match(text, pos):
            return self._read_name(text, pos)
        self._state = self._after_calls
        return pos

    def _after_list(self, text: str, pos: int) -> int:
        """After a list without markers: `(` shows that the list was the text of a Markdown link.

        A bracket that the call lacks, or another argument, stands at the wrong place here.
        """
        if text[pos] == "(":
            self._sink.fail_truncated("a link, not a call")
        elif text[pos] in "),;" and self._call.lacks_brackets and self._sink.is_complete:
            self._sink.fail("malformed", "a bracket at the wrong place")
        self._progress.end_body()
        return pos
