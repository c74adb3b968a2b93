"""A parser of arguments that tells of a mistake in one line, with the nearest name where a name is unknown.

Rule: only what is said differs from `argparse`: its usage, which of `serve` takes twenty lines, hides the message.
Neighbours: `entry` makes one for each command.
"""

import argparse
import difflib
from collections.abc import Iterable
from typing import NoReturn

_USAGE_ERROR = 2
_MIN_SIMILARITY = 0.7
"""How much two names have in common, of 1, for one to be meant by the other."""
_UNKNOWN = "unrecognized arguments: "
"""How argparse begins its message about them."""


class CliParser(argparse.ArgumentParser):
    """Parses the arguments of one command; what stands in `prog` has a help."""

    def error(self, message: str) -> NoReturn:
        """Tell of a mistake and leave."""
        unknown = message.partition(_UNKNOWN)[2]
        if unknown:
            message += suggest(unknown.split()[0].partition("=")[0], self._option_string_actions)
        self.exit(_USAGE_ERROR, f"{self.prog}: {message} ({self.prog} --help says what it takes)\n")


def suggest(name: str, known: Iterable[str]) -> str:
    """Ask whether another name was meant; empty where none is near."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=_MIN_SIMILARITY)
    return f", did you mean {near[0]}?" if near else ""
