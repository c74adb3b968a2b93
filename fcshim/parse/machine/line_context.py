"""The context of a call in the text: the beginning of its line, the lines before it, and the open code spans."""

import re
from typing import Literal

from fcshim.parse.machine.example_announcements import announces_example, introduces_example
from fcshim.parse.machine.invented_results import begins_result
from fcshim.parse.machine.quotations import (
    QUOTE_PAIRS,
    closing_line,
    ends_in_hunk,
    is_quoted_line,
    open_quotation,
)

BYTE_ORDER_MARK = "\ufeff"
"""Some runtimes put it at the start of a reply. It is text, and the line begins after it."""
_HEAD_SIZE = 96
"""Characters of a line that are kept; a longer one announces no example."""
_MAX_INDENT = 16
"""Characters of white space from which on a position is not the start of a line."""
_MAX_LINES = 64
_HEAD_AFTER_CALL = "    ."
"""Stands for the line before a call: indented, so that a list goes on after the call."""
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_UNINDENTED_LINE = re.compile(r"^ {0,3}(?:([-+*]|\d{1,9}[.)])(?=\s)|\S)", re.MULTILINE)
"""The beginning of a line that is not indented code, with the marker of a list item."""


class LineContext:
    """The context of the next marker: the beginning of its line, the last character, and the open code spans."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The beginnings of the last lines that ended, which `_read_lines` has not read."""
        self._after_blank_line = self._after_paragraph = False
        self._in_hunk = False
        """Whether the lines that `_read_lines` has read end in a hunk of a diff."""
        self._since_call: Literal["", "nothing", "text", "result"] = ""
        """What was read since the last call: nothing but blank lines, text, or an invented result; "" before a call."""
        self._quotation_end = ""
        """The line that closes the quotation which a line of quotes has opened."""
        self._last_line = ""
        """The last line that ended and is not blank; without its middle if it is long."""
        self.head = ""
        self._last_text = ""
        """The last piece; empty at the start of a text."""
        self.open_backticks: list[int] = []
        """Lengths of the backtick runs in this paragraph that are not closed."""

    @property
    def last_char(self) -> str:
        """The last character, an empty string at the start of a text."""
        return self._last_text[-1:]

    def add(self, text: str) -> None:
        """Add a piece of text."""
        if not self._last_text and text[0] == BYTE_ORDER_MARK:
            text = text[1:]
            if not text:
                return
        # CommonMark: a code span does not extend past its paragraph.
        if self.open_backticks and _BLANK_LINE.search(text if self.head.strip() else f"\n{self.head}{text}"):
            self.open_backticks.clear()
        if "\n" in text:
            newline = text.rfind("\n")
            self._lines.append(self.head + text[: newline + 1])
            if newline > _HEAD_SIZE or len(self._lines) > _MAX_LINES:
                self._read_lines()
            self.head = text[newline + 1 : newline + 1 + _HEAD_SIZE]
        elif len(self.head) < _HEAD_SIZE:
            self.head += text[:_HEAD_SIZE]
        self._last_text = text

    def _read_lines(self) -> None:
        """Record what the lines that ended say about the next one: whether it may be indented code, or is quoted."""
        if not self._lines:
            return
        lines = "".join(self._lines)
        self._lines.clear()
        last = lines[lines.rfind("\n", 0, -1) + 1 :]
        self._after_blank_line = len(last) <= _MAX_INDENT and last.isspace()
        self._quotation_end = open_quotation(lines, self._quotation_end)
        self._in_hunk = ends_in_hunk(lines, in_hunk=self._in_hunk)
        if unindented := _UNINDENTED_LINE.findall(lines):
            self._after_paragraph = not unindented[-1]
        rest = lines.removeprefix(_HEAD_AFTER_CALL)
        if self._since_call in {"nothing", "text"} and not rest.isspace():
            is_result = begins_result(rest, follow_call=self._since_call == "nothing")
            self._since_call = "result" if is_result else "text"
        if not lines.isspace():
            lines = lines.rstrip()
            self._last_line = lines[lines.rfind("\n") + 1 :][:_HEAD_SIZE]

    def add_backticks(self, length: int) -> None:
        """Add a run of backticks: it closes the span that a run of equal length opened, or may open a span."""
        if length in self.open_backticks:
            del self.open_backticks[self.open_backticks.index(length) :]
        else:
            self.open_backticks.append(length)

    def at_line_start(self) -> bool:
        """Return whether the current line has only white space so far."""
        return len(self.head) < _MAX_INDENT and not self.head.strip()

    def is_first(self) -> bool:
        """Return whether nothing but white space has been read since the start of the text."""
        self._read_lines()
        return not self._last_line and self.at_line_start()

    def holds_only_calls(self) -> bool:
        """Return whether the current line has nothing but white space and calls so far."""
        return not self.head.removeprefix(_HEAD_AFTER_CALL).strip()

    def is_quoted(self) -> bool:
        """Return whether a call in the current line is shown: in a block quote, a comment, a table, a diff, a file."""
        if is_quoted_line(self.head):
            return True
        self._read_lines()
        return self._in_hunk and self.head.startswith((" ", "+", "-"))

    def closing_quote(self) -> str:
        """Return what closes the quotation that is open directly before a call, or an empty string."""
        if not self.at_line_start():
            return QUOTE_PAIRS.get(self.last_char, "*/" if self.head in {"/* ", "/** "} else "")
        self._read_lines()
        return closing_line(self._last_line) or self._quotation_end

    def may_be_example(self) -> bool:
        """Return whether the words before a call, the line before it, or its indentation say that it is an example."""
        if not self.at_line_start():
            return len(self.head) < _HEAD_SIZE and introduces_example(self.head)
        self._read_lines()
        # CommonMark: a blank line stands before indented code. In a list the same blanks continue the item.
        if self.head.startswith(("    ", "\t")) and self._after_blank_line and self._after_paragraph:
            return True
        return len(self._last_line) < _HEAD_SIZE and announces_example(self._last_line)

    def shows_result(self) -> bool:
        """Return whether the text since the last call shows a result, which the model can only have invented."""
        self._read_lines()
        return self._since_call == "result" or begins_result(self.head, follow_call=False)

    def reset(self) -> None:
        """Reset the context to that of the start of a text."""
        self.head = self._last_text = ""
        self._lines.clear()
        self._after_blank_line = self._after_paragraph = self._in_hunk = False
        self._since_call = "text" if self._since_call else ""
        self._last_line = self._quotation_end = ""
        self.open_backticks.clear()

    def reset_after_call(self) -> None:
        """Reset the context after a call, to that of a position inside a line."""
        self._read_lines()
        self.head = _HEAD_AFTER_CALL
        self._since_call = "nothing"
        self._in_hunk = False
        self._last_text = "."
        self.open_backticks.clear()
