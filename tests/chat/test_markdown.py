"""Markdown as a terminal shows it while its text streams; the terminal is an emulator."""

import io

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from fcshim.chat.markdown import MarkdownStream
from fcshim.sanitize import sanitize
from tests.steps import steps

DOCUMENT = """\
# A **title**

A *paragraph* that is long enough to be wrapped, with **bold text**, `code`, ~~gone~~,
a [link](https://a.example/b?c=d), snake_case_name and 2 * 3 * 4 and <b>html</b>.

- one **item**
- another one, which is rather long so that it hangs below its bullet
  - nested `x`
12. twelfth
- [x] done

> quoted **text** that is so long that it must be wrapped at the width

```python
def f(x: int) -> str:
    return f"{x}"  # comment
```

| Name | Size | Text |
|:-----|-----:|:----:|
| a | 1 | `x` |
| bbbbbbb | 1000 | a longer text that has to be wrapped |
| c \\| d | 3 | z | more |
a | b

***
    indented __init__ code"""
SHOWN = """\
A title

A paragraph that is long enough to be
wrapped, with bold text, code, gone,
a link (https://a.example/b?c=d),
snake_case_name and 2 * 3 * 4 and
<b>html</b>.

• one item
• another one, which is rather long so
  that it hangs below its bullet
  • nested x
12. twelfth
• ☑ done

▎ quoted text that is so long that it
▎ must be wrapped at the width

```python
def f(x: int) -> str:
    return f"{x}"  # comment
```

Name      Size            Text
───────────────────────────────────────
a            1             x
bbbbbbb   1000   a longer text that has
                     to be wrapped
c | d        3          z | more
a | b

────────────────────
    indented __init__ code"""


class Emulator:
    """A terminal of an emulator, to which a text is streamed."""

    def __init__(self, width=40, height=60):
        self.written = io.StringIO()
        self.screen = pyte.HistoryScreen(width, height, history=100_000)
        self.console = Console(
            file=self.written,
            width=width,
            height=height,
            force_terminal=True,
            highlight=False,
            emoji=False,
            color_system="standard",
        )
        self.stream = MarkdownStream(self.console)
        self._terminal = pyte.Stream(self.screen)
        self._fed = 0

    def write(self, *pieces):
        for piece in pieces:
            self.stream.write(piece)
            self._show()
        return self

    def end(self):
        self.stream.end()
        self._show()
        return self

    def _show(self):
        self._terminal.feed(self.written.getvalue()[self._fed :].replace("\n", "\r\n"))
        self._fed = len(self.written.getvalue())

    @property
    def scrolled(self):
        return ["".join(row[at].data for at in range(self.screen.columns)).rstrip() for row in self.screen.history.top]

    @property
    def rows(self):
        rows = [*self.scrolled, *(row.rstrip() for row in self.screen.display)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def style(self, text):
        """Return the colour and the attributes of the first character of a text on the screen."""
        for at, row in enumerate(self.screen.display):
            if text in row:
                char = self.screen.buffer[at][row.index(text)]
                return {char.fg, *(each for each in ("bold", "italics", "underscore") if getattr(char, each))}
        raise AssertionError(text)


def pieces(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 3, 17, 100_000])
def test_blocks_are_rendered_however_the_text_is_cut(size):
    assert SHOWN.split("\n") == Emulator().write(*pieces(DOCUMENT, size)).end().rows


def test_text_has_styles():
    shown = Emulator().write(DOCUMENT)

    assert {"default", "bold", "underscore"} == shown.style("A title")
    assert {"default", "bold"} == shown.style("bold text")
    assert {"default", "italics"} == shown.style("paragraph")
    assert {"cyan"} == shown.style("code,")
    assert {"default", "underscore"} == shown.style("link (")
    assert {"magenta"} == shown.style("return")
    assert {"blue"} == shown.style("f(x: int)")
    assert {"default", "bold"} == shown.style("Size")


def test_a_line_shows_while_it_runs():
    shown = Emulator().write("A **bo")
    before = shown.rows
    shown.write("ld** w")

    assert ["A **bo"] == before
    assert ["A bold w"] == shown.rows


def test_code_keeps_its_colours_over_lines():
    shown = Emulator().write('```python\nx = """a\nreturn\n"""\nreturn x\n')

    assert {"green"} == shown.style("return")
    assert {"magenta"} == shown.style("return x")


@pytest.mark.parametrize(
    "text",
    [
        "a | b | c\nno table",
        "a | b\n---",
        "2 * 3 * 4 and __x",
        "`open",
        "[a](javascript:x)",
        "#hashtag",
        "1.5 and -x and *",
        "```",
        "~~~ a",
        "| a |\n| b |",
    ],
)
def test_what_is_no_markdown_stays_as_it_is(text):
    expected = [row.replace("---", "─" * 20) for row in text.split("\n")]
    assert expected == Emulator().write(text).end().rows


def test_what_scrolled_away_is_not_painted_again():
    """Rows leave the screen while a paragraph, a list, code and a table are written; each is there once, in order."""
    words = [f"w{number}" for number in range(300)]
    table = ["| n |\n|---|\n", *(f"| cell{number} |\n" for number in range(80))]
    shown = Emulator(height=8).write(*(f"{word} " for word in words), "\n", *table, *(f"- i{n}\n" for n in range(30)))
    shown.end()

    text = " ".join(shown.rows).split()
    assert words == [word for word in text if word[0] == "w"]
    assert [f"cell{number}" for number in range(80)] == [word for word in text if word.startswith("cell")]
    assert [f"i{number}" for number in range(30)] == [word for word in text if word[0] == "i"]


@pytest.mark.parametrize("height", [3, 5, 9])
def test_a_paragraph_longer_than_the_screen_keeps_its_words(height):
    """Emphasis that ends when its beginning has scrolled away would move words into rows that are gone."""
    words = [f"w{number}" for number in range(200)]
    text = f"**{' '.join(words[:120])}** {' '.join(words[120:])}\n\nnext **one**\n"
    shown = Emulator(height=height).write(*pieces(text, 5)).end()

    assert "".join(words) == "".join(shown.rows[:-2]).replace(" ", "").replace("*", "")
    assert "next one" == shown.rows[-1]


def test_a_resized_terminal_loses_nothing():
    shown = Emulator().write("one ", "two ")
    shown.console.width = 30
    shown.write("three\nfour").end()

    assert ["one two", "one two three", "four"] == shown.rows


def test_entities_and_addresses_cannot_control_the_terminal():
    shown = Emulator(width=80).write("&#8238;a &#155;31m &#27;[2J [x](<a\u202eb>) `&#27;` ![i](j&#8238;)").end()

    assert "\u202e" not in shown.written.getvalue()
    assert "\x9b" not in shown.written.getvalue()
    assert "�a �31m �[2J x (a%E2%80%AEb) &#27; i (j%E2%80%AE)" == shown.rows[0]


@pytest.mark.security
@given(
    st.text(st.sampled_from(list("ab |-*_`~[]()<>#&;!\\\n \t\x1b\u202e世🙂e\u0301")), max_size=200), st.integers(1, 9)
)
@example("|" * 90 + "\n" + "|-" * 90, 7)
def test_no_text_breaks_the_rendering_or_controls_the_terminal(text, size):
    shown = Emulator(width=30, height=10).write(*(sanitize(piece) for piece in pieces(text, size))).end()
    letters = [char for char in text if char in "ab世"]

    assert letters == [char for row in shown.rows for char in row if char in "ab世"]
    assert "\u202e" not in shown.written.getvalue()


def test_the_work_does_not_grow_with_what_came_before():
    """A line of any length, a table of any length, code of any length."""
    for line in ("word *em* " * 20, "| x | **y** |\n", "x = f(1)  # " + "c" * 190 + "\n"):
        head = {"|": "| a | b |\n|---|---|\n", "x": "```python\n"}.get(line[0], "")

        def work(count, line=line, head=head):
            shown = Emulator(height=12)
            shown.write(head)
            return steps(lambda: [shown.stream.write(line) for _ in range(count)], "line")

        assert work(100) < 6 * work(25)


def test_a_very_long_line_is_shown_as_it_is():
    shown = Emulator(width=100, height=10).write("**a** ", "b" * 100_000, "c\n**d**\n").end()

    assert "".join(shown.rows[:-1]).replace(" ", "").endswith("b" * 1000 + "c")
    assert 100_000 == "".join(shown.rows).count("b")
    assert "d" == shown.rows[-1]
