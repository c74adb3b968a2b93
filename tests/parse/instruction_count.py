"""How much work a parser does with a text that comes in pieces of four characters, counted in instructions."""

from collections.abc import Sequence
from typing import Any

from fcshim.parse.stream import StreamParser
from tests.steps import steps


def count_instructions(text: str, dialect: str, tools: Sequence[Any]) -> int:
    """Count the bytecode instructions that reading the text takes."""
    parser = StreamParser(dialect, tools)

    def read() -> None:
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])
        parser.close()

    return steps(read)
