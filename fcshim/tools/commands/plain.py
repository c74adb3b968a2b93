"""Reads plain command lines: simple commands of literal words, joined by `;`, `&`, `|`, `&&`, `||`.

Rule: a line that holds anything else (an expansion, a redirection to a file, a group, a comment) is not plain, so that
every shell reads a plain line in the same way.
"""

import re

from fcshim.tools.commands.words import ShellWord

_WORD = re.compile(
    r"""(?: '[^'\x00]*'                       # single quotes
          | "(?:[^"$`\\!\x00]             # double quotes without expansions; a backslash stays before most characters
              | \$\? | \\[^"$`\\!\n\x00])*"
          | \$\?                            # the exit code, a number
          | \{[^\s{},.'"$`\\<>()|&;]*\}       # braces that expand to nothing: HEAD@{1}
          | [^\s'"$`\\<>(){};|&\x00-\x1f\x7f]
        )+""",
    re.VERBOSE,
)
_REDIRECTION = re.compile(r"(?:(?:[12]?>>?|&>)[ \t]*/dev/null|2>&1|1?>&2)(?![^\s;|&])")
"""Redirections that write no file."""
_SEPARATOR = re.compile(r"(?:&&|\|\||\|&|[;|&\n])[ \t\n]*")
_BLANKS = re.compile(r"[ \t]+")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_PATTERN = re.compile(r"[*?[]")
_RESERVED = frozenset(
    {"!", "[[", "{", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if"}
    | {"in", "select", "then", "until", "while", "}"}
)
_LIMIT = 20_000
"""Characters; longer commands are not run at all."""


def read_plain_line(line: str) -> list[list[ShellWord]] | None:
    """Return the words of each command of a line; None if the line is not plain."""
    if len(line) > _LIMIT:
        return None
    commands: list[list[ShellWord]] = [[]]
    at, line = 0, line.strip(" \t\n")
    while at < len(line):
        if found := _REDIRECTION.match(line, at):
            pass
        elif found := _WORD.match(line, at):
            commands[-1].append(_word(found[0]))
        elif (found := _SEPARATOR.match(line, at)) and commands[-1]:
            commands.append([])
        elif not (found := _BLANKS.match(line, at)):
            return None
        at = found.end()
    for words in commands:
        if not words or words[0].source in _RESERVED or any(word.source.startswith("#") for word in words):
            return None
    return commands


def _word(source: str) -> ShellWord:
    text = _QUOTED.sub(lambda found: found[1] or found[2] or "", source)
    return ShellWord(source, text, known=source == "[" or _PATTERN.search(_QUOTED.sub("", source)) is None)
