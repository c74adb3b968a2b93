"""An `ArgumentParser` that reports a mistake in one line and suggests the nearest name for an unknown option.

Rule: only the error message differs from `argparse`, which prints the usage first: for `serve` these are twenty lines,
and they hide the message.
"""

import argparse
import difflib
from collections.abc import Iterable
from typing import NoReturn

_USAGE_ERROR = 2
_MIN_SIMILARITY = 0.7
"""Similarity ratio of `difflib`, from 0 to 1, above which a name is suggested."""
_UNKNOWN = "unrecognized arguments: "
"""How argparse begins its message about unknown options."""


class CliParser(argparse.ArgumentParser):
    """Parses the arguments of one command. The error message refers to the help of `prog`."""

    def error(self, message: str) -> NoReturn:
        """Write the message to stderr and exit with status 2."""
        unknown = message.partition(_UNKNOWN)[2]
        if unknown:
            message += suggest(unknown.split()[0].partition("=")[0], self._option_string_actions)
        self.exit(_USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean NAME?" for the most similar known name, or an empty string."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=_MIN_SIMILARITY)
    return f", did you mean {near[0]}?" if near else ""
