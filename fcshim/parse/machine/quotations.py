"""What shows calls instead of making them: elements such as `<example>`, `<pre>` and `[code]`, comments, quotes.

Rule: all between the tags of such an element is text, and so is the remainder of the reply if it is not closed: a lost
call is asked for again, a wrong one runs. A tag counts at the start of a line or directly before a call, because prose
mentions tags too ("add a <code> block").
"""

import re

from fcshim.parse.scanner import MoreNeeded

_COMMENTS = {"<!--": "-->", "<![CDATA[": "]]>"}
EXAMPLES = (
    *("example", "examples", "sample", "samples", "format", "template", "usage", "syntax", "schema", "details"),
    *("document", "documents", "documentation", "docs", "instructions", "description", "prompt", "context"),
    *("conversation", "history", "transcript", "log", "logs", "quote", "blockquote", "quotation", "cite"),
    *("code", "pre", "samp", "xmp", "kbd", "td", "th", "snippet", "listing", "file", "note", "notes"),
    *("textarea", "script", "del", "strike"),
    *("test", "tests", "test_case", "testcase", "expected", "expected_output"),
    *("good", "bad", "wrong", "incorrect", "correct"),
    *("user", "user_message", "human", "assistant", "model", "system", "system_prompt"),
    *("turn", "dialog", "dialogue", "tool_result", "tool_results"),
)
"""Elements whose content is shown."""
THOUGHTS = (
    *("thought", "thoughts", "thought_process", "thinking", "thinking_process", "reasoning", "reflection"),
    *("scratchpad", "scratch_pad", "plan", "planning", "draft", "monologue", "inner_monologue"),
)
"""Elements in which a model plans, and that are not reasoning tags of its template, or stand behind its answer."""
_NAMES = (*EXAMPLES, *THOUGHTS)
_LATEX = ("\\begin{", "\\verb", "\\lstinline")
_ORG = ("#+BEGIN_", "#+begin_")
_BB_NAMES = ("code", "quote", "pre", "example", "noparse")
_BB_CODE = tuple(f"[{spell(name)}" for name in _BB_NAMES for spell in (str.lower, str.title, str.upper))
QUOTATION_STARTS = frozenset(
    (
        *_COMMENTS,
        *_LATEX,
        *_ORG,
        *_BB_CODE,
        *(f"<{spell(name)}" for name in _NAMES for spell in (str.lower, str.title, str.upper)),
    )
)
"""What is searched in text."""
QUOTING_LANGUAGES = frozenset(("diff", "patch", "udiff", "log", "logs", "output", "result", "stdout", "transcript"))
"""Info strings of code fences whose content is shown, whatever it holds: changes of a file, what a program printed."""
_WORD = r"(?:[a-z0-9]{1,24}[-_.]){0,3}(?:examples?|samples?)(?:[-_.\d][\w.-]{0,32})?"
"""A name of several words: `good_example`, `example-1`."""
_NAME = rf"(?:{'|'.join(_NAMES)}|{_WORD})"
_MORE = r"[^\[\]\n]{0,96}"
_TAG = re.compile(
    rf"""(?i:<(?P<element>{_NAME})(?:\s[^<>]{{0,96}})?>)
    | (?i:\[(?P<bb>{"|".join(_BB_NAMES)})(?:[=\ ]{_MORE})?\])
    | \\begin\{{(?P<latex>(?:verbatim|lstlisting|minted|alltt|quote|quotation|Verbatim)\*?)\}}
    | \\(?:verb|lstinline)\*?(?P<delimiter>[^\w\s*{{}}])
    | \#\+(?:BEGIN_(?P<ORG>EXAMPLE|SRC|QUOTE)|begin_(?P<org>example|src|quote))\b""",
    re.VERBOSE,
)
"""A tag of XML, BBCode, LaTeX or Org."""
_END_TAGS = {
    "element": "</{}>",
    "bb": "[/{}]",
    "latex": "\\end{{{}}}",
    "delimiter": "{}",
    "ORG": "#+END_{}",
    "org": "#+end_{}",
}
_PARTIAL_TAG = re.compile(
    rf"(?:<(?:[\w.-]{{0,64}}|{_NAME}\s[^<>]{{0,96}})|\[(?:{'|'.join(_BB_NAMES)})(?:[= ]{_MORE})?"
    r"|\\(?:begin\{\w{0,12}\*?|verb|lstinline)|#\+begin_\w{0,8})\Z",
    re.IGNORECASE,
)
QUOTE_PAIRS = dict(zip("(\"'“‘«»‹›„「『~`", ")\"'”’»«›‹“」』~'", strict=True))
"""What closes the quotation, or the text that is struck out, which a character directly before a call opens."""
_LINE_PAIRS = {
    **{mark: mark for mark in ('"""', "'''", '"', "{code}", "{noformat}", "{quote}")},
    "{{{": "}}}",
    "/*": "*/",
    "/**": "*/",
    "“": "”",
    "«": "»",
}
"""The line that closes what the line before a call opens."""
_LINE_BEGINNINGS = {"<<<<<<<": "=======", "=======": ">>>>>>>", "$ ": "$ ", ">>> ": ">>> "}
"""The beginnings of such lines: the sides of a merge conflict or of an edit, and the prompts of a shell."""
# At most 15 characters, so that the kept beginning of the line is the whole line.
_QUOTING_LINE = re.compile(
    rf"\n[ \t]{{0,3}}({'|'.join(map(re.escape, sorted(_LINE_PAIRS, key=len, reverse=True)))})[ \t\r]{{0,2}}(?=\n)"
)
_QUOTED_LINE = re.compile(
    r"""\s*(?:
        [>|]                                                          # a block quote, a row of a table
      | (?://|--|[;%]|\d{1,6}(?:\s?\||\t|\s?→))\s*(?:\Z|[<\[✿])      # a comment, the number of a line
      | \+(?:\Z|[<\[✿])                                              # an added line of a diff
      | \[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d|\d\d:\d\d:\d\d)             # a line of a log
    ) | [^\s:<>]{1,80}:\d{1,6}:\s*(?:\Z|[<\[✿])  # the output of `grep -n`, then a marker""",
    re.VERBOSE,
)
"""The beginning of a line that shows the call that follows."""
_HUNK = re.compile(r"^@@(?:[ \t].*)?\n(?:[ +\\-].*\n)*\Z", re.MULTILINE)
"""A hunk of a diff that has not ended: its lines begin with a blank or a sign."""


def read_quotation(text: str, start: int) -> tuple[int, str]:
    """Return the end of the tag at `start` and what ends the quotation, an empty string if the tag is of another name.

    Raises `MoreNeeded`.
    """
    for tag, end_tag in _COMMENTS.items():
        if text.startswith(tag, start):
            return start + len(tag), end_tag
    found = _TAG.match(text, start)
    if found is None and _PARTIAL_TAG.match(text, start):
        raise MoreNeeded
    if found is None or found.lastgroup is None:
        return start + 1, ""
    return found.end(), _END_TAGS[found.lastgroup].format(found[found.lastgroup])


def is_quoted_line(head: str) -> bool:
    """Return whether a line that begins with `head`, before a call, shows the call."""
    return _QUOTED_LINE.match(head) is not None


def ends_in_hunk(lines: str, *, in_hunk: bool) -> bool:
    """Return whether the line after `lines` may belong to a hunk of a diff; `in_hunk`: whether the first one may."""
    if in_hunk:
        lines = f"@@\n{lines}"
    return "@@" in lines and _HUNK.search(lines) is not None


def closing_line(line: str) -> str:
    """Return the line that closes what this one opens, or an empty string."""
    line = line.strip()
    for beginning, closing in _LINE_BEGINNINGS.items():
        if line.startswith(beginning):
            return closing
    return _LINE_PAIRS.get(line, "")


def open_quotation(lines: str, closing: str) -> str:
    """Return the line that closes the quotation which is open after `lines`, or an empty string.

    `closing` is the line that closes the quotation which was open before them.
    """
    for mark in _QUOTING_LINE.findall(f"\n{lines}"):
        if closing in {"", mark}:
            closing = "" if closing else _LINE_PAIRS.get(mark, "")
    return closing
