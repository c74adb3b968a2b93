"""Reads the words of one shell command: the assignments before it, and the name of its program.

Rule: a word whose value depends on the shell (an expansion, a pattern, braces) is not `known`.
"""

import re
from collections.abc import Sequence

import msgspec

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=")


class ShellWord(msgspec.Struct, frozen=True):
    """A word: its source text, and its value without quotes."""

    source: str
    text: str
    known: bool = True


def program_name(word: str) -> str:
    """Return the name of a program without its folder: `/bin/rm` is `rm`."""
    return word.rpartition("/")[2]


def assigned_name(word: str) -> str:
    """Return the variable that a word such as `NAME=value` assigns, else an empty string."""
    found = _ASSIGNMENT.match(word)
    return found[1] if found else ""


def skip_assignments(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """Return the words from the program on."""
    at = 0
    while at < len(words) and assigned_name(words[at].source):
        at += 1
    return words[at:]
