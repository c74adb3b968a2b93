"""The screens of real sessions, kept by name: the pictures of the docs are made from them.

Rule: a screen is kept as data, its rows as runs of characters with one style, so that a picture needs no session. It is
written to the folder that `FCSHIM_SCREENS` names, by default `.cache/screens`.
"""

import itertools
import json
import os
from pathlib import Path

import pyte

FOLDER = Path(os.environ.get("FCSHIM_SCREENS") or Path(__file__).parents[2] / ".cache" / "screens")
_STYLE = ("fg", "bg", "bold", "italics", "underscore", "reverse")


def save_screen(name: str, screen: pyte.Screen) -> Path:
    """Write what a screen shows; return the file, `NAME.json`."""
    rows = [_runs(screen, row) for row in range(screen.lines)]
    while rows and not rows[-1]:
        rows.pop()
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.json"
    file.write_text(json.dumps({"columns": screen.columns, "rows": rows}, ensure_ascii=False, indent=1))
    return file


def _runs(screen: pyte.Screen, row: int) -> list[dict]:
    """Return a row as runs `{"text", "fg", "bg", "bold", ...}`, without the blanks at its end."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    styled = itertools.groupby(cells, key=lambda cell: tuple(getattr(cell, each) for each in _STYLE))
    runs = [
        {"text": "".join(cell.data for cell in run), **dict(zip(_STYLE, style, strict=True))} for style, run in styled
    ]
    while runs and not runs[-1]["text"].strip() and runs[-1]["bg"] == "default" and not runs[-1]["reverse"]:
        runs.pop()
    return runs
