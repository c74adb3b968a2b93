"""Renders Markdown while its text streams: headings, lists, quotes, code, tables, emphasis, links.

Rule: each line is rendered by itself, so that it is final when it ends; only a table's first rows wait for each
other. A link shows its address, and other text stays as it is. The text must have been sanitized.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme
from rich.table import Table
from rich.text import Text as Styled

from fcshim.chat.live_rows import LiveRows
from fcshim.sanitize import sanitize_line

_LINE_LIMIT = 4_000
"""Characters of a line that is rendered; paragraphs are shorter."""
_STEPS = 32
"""An unfinished line is rendered again when it has grown by this fraction of its length, to keep the work linear."""
_CODE_WINDOW = 800
"""Characters of code before a line that its colours depend on: 20 lines, 3 ms of work for each line."""
_TABLE_ROWS = 30
"""Rows from which the widths of a table's columns are taken; each of them renders the table again."""
_TABLE_MARGIN = 4
"""Rows of the terminal that a table leaves free while it may change."""
_MIN_COLUMN = 3
_BETWEEN = 3
"""Columns of the terminal between two columns of a table."""
_RULE_LENGTH = 20
_INDENTED_CODE = 4

_FENCE = re.compile(r"\s*+(`{3,}+|~{3,}+)\s*+([\w+#.-]*+)[^`]*+")
_RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_HEADING = re.compile(r" {0,3}(#{1,6}) +(\S.*)")
_HEADING_END = re.compile(r" +#+ *$")
_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)]) +(?:\[([ xX])\] )?")
_SEPARATOR = re.compile(r" *+\|? *+:?-++:? *+(?:\| *+:?-++:? *+)*\|? *")
_MAYBE_SEPARATOR = re.compile(r"[-|: ]*")
_CELL_END = re.compile(r"(?<!\\)\|")
_LAST_CELL_END = re.compile(r"(?<!\\)\|$")
_JUSTIFY: Mapping[tuple[bool, bool], JustifyMethod] = {
    (False, False): "left",
    (True, False): "left",
    (False, True): "right",
    (True, True): "center",
}

_INLINE_STYLES = {"strong_open": "bold", "em_open": "italic", "s_open": "strike", "link_open": "underline"}
_CODE_STYLE = "cyan"
# Colours of the terminal's palette that are readable on light and on dark backgrounds.
_CODE_COLOURS = {
    ("Comment",): Style(dim=True, italic=True),
    ("Keyword",): Style(color="magenta"),
    ("Operator", "Word"): Style(color="magenta"),
    ("Name", "Builtin"): Style(color="cyan"),
    ("Name", "Function"): Style(color="blue"),
    ("Name", "Class"): Style(color="blue", bold=True),
    ("Name", "Decorator"): Style(color="blue"),
    ("Name", "Tag"): Style(color="magenta"),
    ("Name", "Attribute"): Style(color="blue"),
    ("Literal", "String"): Style(color="green"),
    ("Literal", "Number"): Style(color="cyan"),
    ("Generic", "Deleted"): Style(color="red"),
    ("Generic", "Inserted"): Style(color="green"),
    ("Generic", "Heading"): Style(bold=True),
}


class MarkdownStream:
    """Renders a text that comes in pieces to the end of a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows = LiveRows(console)
        self._line = ""  # the unfinished line
        self._shown = 0  # characters of it that are on the screen
        self._raw = False  # it is too long to be rendered
        self._in_list = False
        self._code: CodeBlock | None = None
        self._table: StreamedTable | None = None
        self._table_rows: list[list[Segment]] = []
        self._head = ""  # a line that the next one may turn into the head of a table

    @property
    def open(self) -> bool:
        """Whether the last line is not ended."""
        return self._raw or self._rows.open

    def write(self, text: str) -> None:
        """Show the next piece of the text."""
        first, *others = text.split("\n")
        if self._raw:
            self._print(first)
            if not others:
                return
            self._end_raw_line()
            first, *others = others
        *ended, self._line = self._line + first, *others
        waiting = deque(ended)
        while waiting:
            if self._code is not None:
                self._write_code(self._code, waiting)
            else:
                self._write_line(waiting.popleft())
            self._shown = 0
        self._show_running()

    def end(self) -> None:
        """End the text: later output begins on a new line."""
        if self._raw:
            self._end_raw_line()
        elif self._line:
            self.write("\n")
        self._end_block()
        self._rows.leave()
        self._code, self._in_list = None, False

    def _write_code(self, code: "CodeBlock", waiting: deque[str]) -> None:
        """Show the lines of code that wait, and the end of the block."""
        lines: list[str] = []
        while waiting and not code.ends_with(waiting[0]):
            lines.append(waiting.popleft())
        for number, line in enumerate(code.highlight(lines)):
            if len(lines[number]) > _LINE_LIMIT:
                self._write_raw(lines[number])
                self._end_raw_line()
            else:
                self._rows.finish(line)
        if waiting:
            self._rows.finish(Styled(waiting.popleft(), "dim"))
            self._code = None

    def _write_line(self, line: str) -> None:
        if not line and not self._rows.open:
            self._end_block()
            self._console.print()
        elif len(line) > _LINE_LIMIT:
            self._write_raw(line)
            self._end_raw_line()
        elif self._table is not None and self._table.add(line):
            self._show_table(self._table)
        elif self._head and (table := StreamedTable.begin(self._head, line, self._rows.width)) is not None:
            self._head, self._table = "", table
            self._show_table(table)
        else:
            self._end_block()
            self._write_plain_line(line)

    def _write_plain_line(self, line: str) -> None:
        if (fence := _FENCE.fullmatch(line)) is not None:
            self._code = CodeBlock(fence[1], fence[2])
            self._rows.finish(Styled(line, "dim"))
        elif "|" in line:
            self._head = line
            if not self._rows.show(self._rows.render(self._render(line))):
                self._head = ""
                self._finish(line)
        else:
            self._finish(line)
            self._in_list = is_item(line) or (self._in_list and line[:1] in ("", " ", "\t"))

    def _finish(self, line: str) -> None:
        """Show a finished line; one whose beginning has scrolled away is completed without rendering."""
        if not self._rows.finish(self._render(line)):
            self._write_raw(line)
            self._end_raw_line()

    def _end_block(self) -> None:
        """End a table, or the line that was not the head of one; they are on the screen."""
        if self._table is not None and not self._table.frozen:
            self._rows.show(self._table_rows)
        if self._head or (self._table is not None and not self._table.frozen):
            self._rows.leave()
            self._shown = 0
        self._table, self._head = None, ""

    def _show_table(self, table: "StreamedTable") -> None:
        """Show a table that grows; once it is long, each row is final."""
        if table.frozen:
            self._rows.finish(table.last())
            return
        self._table_rows = self._rows.render(table.whole())
        self._rows.show(self._table_rows)
        if len(table.rows) >= _TABLE_ROWS or self._rows.count > self._console.height - _TABLE_MARGIN:
            self._rows.leave()
            table.frozen = True

    def _show_running(self) -> None:
        if len(self._line) > _LINE_LIMIT:
            self._write_raw(self._line)
            self._line = ""
        elif self._head and _MAYBE_SEPARATOR.fullmatch(self._line):
            pass  # the head of a table waits for it
        elif len(self._line) - self._shown > len(self._line) // _STEPS:
            if self._head:
                self._end_block()
            # rows of a table that may still change with the running line
            pending = [] if self._table is None or self._table.frozen else self._table_rows
            if self._rows.show([*pending, *self._rows.render(self._running())]):
                self._shown = len(self._line)
            else:
                self._write_raw(self._line)
                self._line = ""

    def _running(self) -> RenderableType:
        if self._code is not None:
            return Styled(self._line)
        if self._table is not None:
            return Styled(self._line, "dim", no_wrap=True, overflow="ellipsis")
        return self._render(self._line)

    def _render(self, line: str) -> RenderableType:
        return render_line(line, in_list=self._in_list)

    def _write_raw(self, line: str) -> None:
        """Show the rest of a line unrendered; the part that was rendered stays."""
        if self._table is not None or self._head:
            self._end_block()
            self._shown = 0
        if self._shown and line[self._shown - 1].isspace():
            self._rows.leave()  # the blank at the end of a row is not shown
        self._rows.release()
        self._print(line[self._shown :])
        self._raw, self._shown = True, 0

    def _end_raw_line(self) -> None:
        self._console.print()
        self._raw = False

    def _print(self, text: str) -> None:
        self._console.print(Styled(text), end="", soft_wrap=True)


class CodeBlock:
    """The lines between two fences, in the colours of their language."""

    def __init__(self, fence: str, language: str) -> None:
        self._fence = fence
        self._lexer: Lexer
        try:
            self._lexer = get_lexer_by_name(language or "text", stripnl=False)
        except ClassNotFound:
            self._lexer = TextLexer(stripnl=False)
        self._colours = ANSISyntaxTheme(_CODE_COLOURS)
        self._before = ""  # ends with a line feed, if there is any

    def ends_with(self, line: str) -> bool:
        """Return whether a line is the end of the block."""
        mark = line.strip()
        return len(mark) >= len(self._fence) and not mark.strip(self._fence[0])

    def highlight(self, lines: Sequence[str]) -> Sequence[Styled]:
        """Return the next lines in colour; a very long line and the lines with it have no colours."""
        if any(len(line) > _LINE_LIMIT for line in lines):
            return [Styled(line[:_LINE_LIMIT]) for line in lines]
        before, code = self._before, "".join(f"{line}\n" for line in lines)
        window = (before + code)[-_CODE_WINDOW:]
        self._before = window.partition("\n")[2] if len(before + code) > _CODE_WINDOW else window
        coloured = self._coloured(before + code, len(before))
        return coloured if [line.plain for line in coloured] == lines else [Styled(line) for line in lines]

    def _coloured(self, code: str, start: int) -> list[Styled]:
        """Return the lines from a position on; a lexer may change white space, which its caller has to check."""
        lines = [Styled()]
        at = 0
        for kind, value in self._lexer.get_tokens(code):
            at += len(value)
            if at > start:
                first, *others = value[-(at - start) :].split("\n")
                style = self._colours.get_style_for_token(kind)
                lines[-1].append(first, style)
                lines += (Styled().append(other, style) for other in others)
        return lines[:-1]


class StreamedTable:
    """A table that gets its rows one by one. Once it is `frozen`, a wider row widens the columns from there on."""

    def __init__(self, head: Sequence[str], justify: Sequence[JustifyMethod], width: int, *, bordered: bool) -> None:
        self.rows: list[list[Styled]] = []
        self.frozen = False
        self._head = [render_inline(cell, "bold") for cell in head]
        self._justify = justify
        self._bordered = bordered  # every row begins with a bar
        self._free = width - _BETWEEN * (len(head) - 1)
        self._natural = [cell_len(cell.plain) for cell in self._head]

    @classmethod
    def begin(cls, head: str, separator: str, width: int) -> "StreamedTable | None":
        """Return the table that two lines begin; None if they are something else, or it would not fit."""
        if "-" not in separator or "|" not in separator or not _SEPARATOR.fullmatch(separator):
            return None
        cells, marks = _cells(head), _cells(separator)
        if len(cells) != len(marks) or len(cells) * (_MIN_COLUMN + _BETWEEN) > width:
            return None
        justify = [_JUSTIFY[mark[0] == ":", mark[-1] == ":"] for mark in marks]
        return cls(cells, justify, width, bordered=head.lstrip().startswith("|"))

    def add(self, line: str) -> bool:
        """Add a row; return whether the line is one."""
        if "|" not in line or self._bordered > line.lstrip().startswith("|"):
            return False
        columns = len(self._head)
        cells = _cells(line)
        cells[columns - 1 :] = [" | ".join(cells[columns - 1 :])]  # surplus cells stay readable
        row = [render_inline(cell) for cell in (*cells, *[""] * (columns - len(cells)))]
        self.rows = [row] if self.frozen else [*self.rows, row]
        sizes = (cell_len(cell.plain) for cell in row)
        self._natural = [max(pair) for pair in zip(self._natural, sizes, strict=True)]
        return True

    def whole(self) -> Table:
        """Return the table so far."""
        return self._table(show_header=True)

    def last(self) -> Table:
        """Return the last row."""
        return self._table(show_header=False)

    def _table(self, *, show_header: bool) -> Table:
        table = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=show_header, header_style="none"
        )
        # columns that are too wide share the space that the others leave
        widest = next(cap for cap in range(self._free, 0, -1) if sum(min(w, cap) for w in self._natural) <= self._free)
        for cell, justify, natural in zip(self._head, self._justify, self._natural, strict=True):
            table.add_column(cell, justify=justify, width=max(min(natural, widest), 1), overflow="fold")
        for row in self.rows if show_header else self.rows[-1:]:
            table.add_row(*row)
        return table


class _Hanging:
    """A text whose rows are aligned after a mark."""

    def __init__(self, mark: Styled, text: Styled, repeated: str = "") -> None:
        self._mark = mark
        self._text = text
        self._repeated = repeated

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - cell_len(self._mark.plain)
        if room < max(options.max_width // 3, 2):
            yield Styled.assemble(self._mark, self._text)
            return
        below = Styled(self._repeated + " " * (cell_len(self._mark.plain) - cell_len(self._repeated)), "dim")
        for number, row in enumerate(self._text.wrap(console, room)):
            yield Styled.assemble(below if number else self._mark, row)


def is_item(line: str) -> bool:
    """Return whether a line is an item of a list."""
    return _ITEM.match(line) is not None and _RULE.fullmatch(line) is None


def render_line(line: str, *, in_list: bool = False) -> RenderableType:
    """Render one line outside code and tables; `in_list`: an item stands above, to which the line may belong."""
    quotes = 0
    while (quote := _QUOTE.match(line)) is not None:
        quotes, line = quotes + 1, line[quote.end() :]
    bars = "▎ " * quotes
    if _RULE.fullmatch(line) is not None:
        return Styled(f"{bars}{'─' * _RULE_LENGTH}", "dim")
    if (heading := _HEADING.fullmatch(line)) is not None:
        style = "bold underline" if len(heading[1]) == 1 else "bold"
        return _Hanging(Styled(bars, "dim"), render_inline(_HEADING_END.sub("", heading[2]), style), bars)
    if (item := _ITEM.match(line)) is not None:
        bullet = item[2] if item[2][0].isdigit() else "•"
        if item[3] is not None:
            bullet += " ☐" if item[3] == " " else " ☑"
        return _Hanging(Styled(f"{bars}{item[1]}{bullet} "), render_inline(line[item.end() :]), bars)
    indent = len(line) - len(line.lstrip(" "))
    if indent >= _INDENTED_CODE and not in_list:
        return Styled(bars + line)
    return _Hanging(Styled(bars + " " * indent, "dim"), render_inline(line[indent:]), bars)


def render_inline(source: str, style: str = "") -> Styled:
    """Render the text of one line: emphasis, code spans, links with their addresses, escapes."""
    text = Styled(style=style)
    opened: list[tuple[str, int, str]] = []  # style, where it began, address
    (parsed,) = _parser().parseInline(source)
    for token in parsed.children or ():
        if token.nesting == 1:
            opened.append((_INLINE_STYLES.get(token.type, ""), len(text), str(token.attrs.get("href", ""))))
        elif token.nesting == -1:
            _, start, address = opened.pop()
            if address and text.plain[start:] != address:
                text.append(f" ({sanitize_line(address)})", "dim")
        else:
            _append_leaf(text, token, " ".join(filter(None, (each for each, _, _ in opened))))
    return text


def _append_leaf(text: Styled, token: Token, style: str) -> None:
    match token.type:
        case "code_inline":
            text.append(sanitize_line(token.content), f"{style} {_CODE_STYLE}".strip())
        case "image":
            text.append(sanitize_line(token.content), style)
            text.append(f" ({sanitize_line(str(token.attrs.get('src', '')))})", "dim")
        case _:
            text.append(sanitize_line(token.content), style)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough")


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(_LAST_CELL_END.sub("", line))]
