"""Count the lines that a parser executes for a text in pieces of four characters."""

from collections.abc import Sequence
from typing import Any

from fcshim.parse.dialect import Dialect
from fcshim.parse.stream import StreamParser
from tests.steps import steps


def count_lines(text: str, dialect: str | Dialect, tools: Sequence[Any]) -> int:
    """Return the number of lines of Python that parsing the text executes."""
    parser = StreamParser(dialect, tools)

    def read() -> None:
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])
        parser.close()

    return steps(read, "line")
