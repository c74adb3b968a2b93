"""The screens of real sessions as pictures, SVG whose text stays text: those of docs/chat.md are such.

Rule: a picture shows the last turn of a screen, readable on light and on dark. It is written to the folder that
`FCSHIM_SCREENS` names, by default `.cache/screens`; `make chat-screens` copies those that the documentation has.
"""

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

import pyte

FOLDER = Path(os.environ.get("FCSHIM_SCREENS") or Path(__file__).parents[2] / ".cache" / "screens")
_CHAR, _LINE, _MARGIN = 8.4, 18, 14
"""Pixels: a character of 14 px is 8.4 wide in nearly all fonts of one width; `textLength` sees to the others."""
# Each name of a colour: on light, on dark.
_COLOURS = {
    "default": ("#1f2328", "#e6edf3"),
    "brightblack": ("#656d76", "#8d96a0"),
    "red": ("#b3261e", "#ff8178"),
    "green": ("#116329", "#56d364"),
    "brown": ("#7d4e00", "#e3b341"),
    "blue": ("#0550ae", "#79c0ff"),
    "magenta": ("#8250df", "#d2a8ff"),
    "cyan": ("#0b6670", "#56d4dd"),
}
_ATTRIBUTES = {
    "bold": "font-weight:bold",
    "italics": "font-style:italic",
    "underscore": "text-decoration:underline",
}
_PROMPT = "›"
_PAPER = ("#ffffff", "#0d1117")
_FONT = "14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def save_screen(name: str, screen: pyte.Screen, *, whole: bool = False) -> Path:
    """Write the last turn that a screen shows, or all of it, as `NAME.svg`; return the path."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.svg"
    file.write_text(render_svg(screen, whole=whole), encoding="utf-8")
    return file


def render_svg(screen: pyte.Screen, *, whole: bool = False) -> str:
    """Return the last turn that a screen shows, without an empty prompt at its end; with `whole`, all of it."""
    shown = [at for at, row in enumerate(screen.display) if row.strip() and row.strip() != _PROMPT]
    typed = [at for at in shown if screen.display[at].startswith(f"{_PROMPT} ")]
    start = shown[0] if whole or not typed else typed[-1]
    rows = range(start, shown[-1] + 1)
    width, height = round(screen.columns * _CHAR + 2 * _MARGIN), len(rows) * _LINE + 2 * _MARGIN
    texts = "\n".join(text for number, at in enumerate(rows) for text in _row(screen, at, number))
    attributes = "\n".join(f".{name}{{{style}}}" for name, style in _ATTRIBUTES.items())
    label = escape("A terminal: " + screen.display[start].strip(), {'"': "&quot;"})
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<style>
text{{font:{_FONT};white-space:pre}}
{attributes}
{_styles(0)}
@media (prefers-color-scheme:dark){{
{_styles(1)}
}}
</style>
<rect class="paper" width="{width}" height="{height}" rx="8"/>
{texts}
</svg>
"""


def _styles(theme: int) -> str:
    colours = [f".{name}{{fill:{pair[theme]}}}" for name, pair in _COLOURS.items()]
    return "\n".join([f".paper{{fill:{_PAPER[theme]};stroke:{_COLOURS['brightblack'][theme]}}}", *colours])


def _row(screen: pyte.Screen, at: int, number: int) -> Iterator[str]:
    """Yield the texts of a row, one for each style; a character that takes two columns has an empty one after it."""
    cells = [screen.buffer[at][column] for column in range(screen.columns)]
    y = _MARGIN + number * _LINE + 14
    for style, run in groupby(range(screen.columns), key=lambda column: _style(cells[column])):
        columns = list(run)
        text = "".join(cells[column].data for column in columns)
        if text.strip():
            start = columns[0] + len(text) - len(text.lstrip())
            width = (columns[-1] + 1 - start - (len(text) - len(text.rstrip()))) * _CHAR
            x = f"{_MARGIN + start * _CHAR:g}"
            yield f'<text {style} x="{x}" y="{y}" textLength="{width:g}">{escape(text.strip())}</text>'


def _style(cell: pyte.screens.Char) -> str:
    colour = cell.fg.removeprefix("bright") if cell.fg != "brightblack" else cell.fg
    classes = [colour if colour in _COLOURS else "default"]
    classes += [name for name in _ATTRIBUTES if getattr(cell, name)]
    return f'class="{" ".join(classes)}"'
