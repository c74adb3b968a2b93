r"""Return whether an escape in the arguments of a call may be a backslash and a letter, or the other way round.

Rule: only a call in which the model wrote a backslash that is not an escape is examined: where backslashes are content
(`C:\Users`), `\n` may be content too (`C:\Users\new`).
"""

import re

from fcshim.events import JSON

_BACKSLASH_WORD = re.compile(r"\\(?:[A-Za-z]{2}|[1-9]\w)")
r"""The beginning of a path's part or of a command (`\Users`, `\alpha`), other than that of a pattern (`\d+`)."""
_RARE_CONTROLS = frozenset("\a\b\f\v")
r"""What hardly any text contains; `\beta` and `\frac` begin like it."""
_CONTROL_BEFORE_WORD = re.compile(r"[\t\n\r]\w")
_ESCAPE_OF_OTHERS = re.compile(
    r"""(?<![ \t\\])\\\n      # half of `\n`, unless a blank before it shows that a command goes on
      | \\_                   # of Markdown
      | \\(?:                 # of a character, as other languages write it: `S\xe3o`, `\u{1F600}`
            x[89A-Fa-f][0-9A-Fa-f] | u\{[0-9A-Fa-f] | U[0-9A-Fa-f]{8} | N\{[A-Z]
          | u0[0-9A-Fa-f]{1,2}(?![0-9A-Fa-f])   # a part of `\u00e9`
        )
    """,
    re.VERBOSE,
)
"""A backslash that may begin an escape which JSON does not have."""
_QUOTATION = re.compile(
    r"\"\"\"|'''"
    r"|(?<![\w\\])[rRbBfFuU]{0,2}(?:\"(?:[^\"\\\n]|\\[^\"\n])*\"|'(?:[^'\\\n]|\\[^'\n])*')(?!\w)"
)
"""Text between quotes on one line, or a triple quote, which is no quotation."""
_LINE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[nrt]")
_CONTENT_ESCAPE = re.compile(
    r"""(?<!\\)(?:
        (?:\\\\)*\\(?!u00[01])[^"\\nrt ]   # not one of a quote, a backslash, white space or a control character
      | \\\\["']                          # the end of a literal in code (`'/\\'`), or a quote in one (`'it\\'s'`)
    )""",
    re.VERBOSE,
)
"""An escape that is content of an unescaped string."""
_ESCAPED_BREAK = re.compile(r"(?<!\\)(?:\\\\n| \\[nr])")
r"""Outside of quotations: a backslash at the end of a line of code and `\n`, or an escaped one; or one that
prose speaks of (`ends with \n.`), since a line hardly ends with a blank."""


def mixes_escapes(value: JSON) -> bool:
    r"""Return whether a control character in one of the strings may be a backslash and a letter.

    Only for what the model wrote with a backslash that is not an escape: `"\alpha \beta"`, `"C:\Users\new"`.
    """
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str) and "\\" in item:
            is_quote_missing = item.count('"') % 2 == 1  # behind a backslash
            if is_quote_missing or not _RARE_CONTROLS.isdisjoint(item) or _ESCAPE_OF_OTHERS.search(item):
                return True
            if _BACKSLASH_WORD.search(item) and _CONTROL_BEFORE_WORD.search(item):
                return True
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return False


def has_doubtful_escape(content: str, sent: int) -> bool:
    r"""Return whether an escape in a string that is not escaped may be a backslash and a letter.

    `\n` is a line break of the text, but in a quotation on one line it is one of the code that is written there; a
    backslash before it outside of quotations ends a line of code. What JSON does not have (`\w`), and what hardly any
    text contains (`\b`, `\u00e9`), is content. Before a blank a backslash is content in every notation. In text with
    line breaks that are not escaped, nothing is; `sent` characters of the content were read, so that all are there.
    """
    if "\\" not in content:
        return False
    if "\n" in content and ("\\" in content[sent:] or "\\\\" in content):
        return True
    if _CONTENT_ESCAPE.search(content):
        return True
    if any(_LINE_ESCAPE.search(each[0]) for each in _QUOTATION.finditer(content)):
        return True
    return _ESCAPED_BREAK.search(_QUOTATION.sub('""', content)) is not None
