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


def is_one_word(word: ShellWord) -> bool:
    """Return whether the shell makes one word of it, whatever its value is: one in double quotes."""
    quoted = word.source[:1] == word.source[-1:] == '"' and '"' not in word.source[1:-1]
    return word.known or (quoted and "@" not in word.source)


def may_be_option(word: ShellWord) -> bool:
    """Return whether a word is an option, or the shell may expand it to one: `*` to a file's name, `$x` to anything."""
    if word.text.startswith("-"):
        return word.text != "-"
    return not word.known and not word.text.startswith(("/", "./")) and not word.source[:1].isalnum()
