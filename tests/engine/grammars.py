"""The GBNF grammars that make a random model write calls, and a plain parser for them.

Rule: `read` shares no code with fcshim's parser: it applies `json` to the text after each start marker.
"""

import json
from pathlib import Path
from typing import NamedTuple

OPEN, CLOSE = "<function_call>", "</function_call>"

FOLDER = Path(__file__).parent / "gbnf"
RULES = (FOLDER / "rules.gbnf").read_text(encoding="utf-8")
GRAMMARS = {
    path.stem: path.read_text(encoding="utf-8") + RULES
    for path in sorted(FOLDER.glob("*.gbnf"))
    if path.name != "rules.gbnf"
}


class PlainCall(NamedTuple):
    """The content of one call's block."""

    name: str
    arguments: dict[str, object]


def read(text: str) -> tuple[str, list[PlainCall]]:
    """Return the text around the calls, joined, and the calls."""
    texts, calls = [], []
    decoder = json.JSONDecoder()
    while OPEN in text:
        before, _, rest = text.partition(OPEN)
        value, end = decoder.raw_decode(rest.lstrip())
        after = rest.lstrip()[end:].lstrip()
        assert after.startswith(CLOSE), after
        texts.append(before)
        calls.append(PlainCall(value["name"], value["arguments"]))
        text = after.removeprefix(CLOSE)
    return "".join([*texts, text]), calls
