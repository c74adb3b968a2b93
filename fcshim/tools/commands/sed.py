"""Distinguishes scripts of sed that only edit text.

Rule: a script that is not certainly harmless counts as executing: sed's `e` runs programs and its `w` writes files, and
where a command begins depends on every delimiter before it.
"""

import re
from collections.abc import Iterator, Sequence

from fcshim.tools.commands.words import ShellWord

_BRACKETS = r"\[\^?\]?(?:\[:\w+:\]|(?!{0})[^\[\]\\\n])*\]"
_REGEX = r"(?:\\.|" + _BRACKETS + r"|(?!{0})[^\[\\\n])*"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{_REGEX.format('/')}/[IM]*)"
_COMMAND = rf"""(?:
    [=dDgGhHnNpPxzF{{}}]            # without arguments
  | [lqQ][ ]?\d*
  | [:btT][ ]?\w*
  | s(?P<s>[-/|,:;!@%~+#_]){_REGEX.format("(?P=s)")}(?P=s)(?:\\.|(?!(?P=s))[^\\\n])*(?P=s)[gpIiMm0-9]*
  | y(?P<y>[-/|,:;!@%~+#_])(?:(?!(?P=y))[^\\\n])*(?P=y)(?:(?!(?P=y))[^\\\n])*(?P=y)
  | [aicrR][^\n\\]*(?:\\[^\n\\]*)*  # up to the end of the line
  | \#[^\n]*
)"""
_HARMLESS = re.compile(
    rf"(?:[ \t]*(?:{_ADDRESS}(?:,(?:[+~]\d+|{_ADDRESS}))?[ ]?)?!?[ ]?{_COMMAND}[ \t]*(?:[;\n]+|(?=\}})|(?<=\{{)|$))*",
    re.VERBOSE,
)
_OPTION = re.compile(
    r"-[nErsuz]+|-[nErsuz]*i[.\w~-]*|--(?:quiet|silent|regexp-extended|separate|null-data|unbuffered|posix|sandbox"
    r"|debug|help|version|in-place(?:=[.\w~-]*)?)"
)
_EXPRESSION = re.compile(r"(?:-[nErsuz]*e|--expression(?:=|\Z))(.*)", re.DOTALL)
_MAX_SCRIPT = 500
"""Characters; a longer script needs approval."""


def executing_sed_words(arguments: Sequence[ShellWord]) -> Iterator[ShellWord]:
    """Yield the arguments of sed that may execute something or write a file: scripts, and options that may load one."""
    scripts: list[ShellWord] = []
    others: list[ShellWord] = []
    waits = False
    for word in arguments:
        expression = _EXPRESSION.fullmatch(word.text)
        if waits or (expression and expression[1]):
            scripts.append(word)
            if not _is_harmless(word.text if waits or expression is None else expression[1]):
                yield word
            waits = False
        elif expression:
            waits = True
        elif not word.text.startswith("-") or word.text == "-":
            others.append(word)
        elif not _OPTION.fullmatch(word.text):
            yield word
    if not scripts and others and not _is_harmless(others[0].text):
        yield others[0]


def _is_harmless(script: str) -> bool:
    return len(script) <= _MAX_SCRIPT and _HARMLESS.fullmatch(script) is not None
