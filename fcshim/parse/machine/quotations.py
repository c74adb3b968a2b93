"""What shows calls instead of making them: elements such as `<example>`, `<pre>` and `[code]`, comments, quotes.

Rule: all between the tags of such an element is text, and so is the remainder of the reply if it is not closed: a lost
call is asked for again, a wrong one runs. A tag counts at the start of a line or directly before a call, because prose
mentions tags too ("add a <code> block").
"""

import re

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
_TAG = re.compile(rf"<({_NAME})(?:\s[^<>]{{0,96}})?>", re.IGNORECASE)
_OTHER_TAGS = (
    (re.compile(rf"\[({'|'.join(_BB_NAMES)})(?:[= ][^\[\]\n]{{0,96}})?\]", re.IGNORECASE), "[/{}]"),
    (re.compile(r"\\begin\{((?:verbatim|lstlisting|minted|alltt|quote|quotation|Verbatim)\*?)\}"), "\\end{{{}}}"),
    (re.compile(r"\\(?:verb|lstinline)\*?([^\w\s*{}])"), "{}"),
    (re.compile(r"#\+BEGIN_(EXAMPLE|SRC|QUOTE)\b"), "#+END_{}"),
    (re.compile(r"#\+begin_(example|src|quote)\b"), "#+end_{}"),
)
"""Tags of BBCode, LaTeX and Org, and what ends the quotation that each begins."""
_PARTIAL_OTHER_TAG = re.compile(
    rf"(?:\[(?:{'|'.join(_BB_NAMES)})(?:[= ][^\[\]\n]{{0,96}})?"
    r"|\\(?:begin\{\w{0,12}\*?|verb|lstinline)|#\+begin_\w{0,8})\Z",
    re.IGNORECASE,
)
_PARTIAL_TAG = re.compile(rf"<(?:[\w.-]{{0,64}}|{_NAME}\s[^<>]{{0,96}})\Z", re.IGNORECASE)
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
    r"\s*(?:[>|]|(?://|--|[;%]|\d{1,6}(?:\s?\||\t|\s?→))\s*(?:\Z|[<\[✿])|\+(?:\Z|[<\[✿])"
    r"|\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d|\d\d:\d\d:\d\d))"
)
"""The beginning of a line that is a block quote, a row of a table or a line of a log.

Before a marker also that of a comment, and the number of a line.
"""
_LOCATION = re.compile(r"[^\s:<>]{1,80}:\d{1,6}:\s*(?:\Z|[<\[✿])")
"""What `grep -n` writes before a line of a file."""
_MAY_BE_LOCATION = re.compile(r"[^\s<>]{15}")
_HUNK = re.compile(r"^@@(?:[ \t].*)?\n(?:[ +\\-].*\n)*\Z", re.MULTILINE)
"""A hunk of a diff that has not ended: its lines begin with a blank or a sign."""
_HUNK_LINES = re.compile(r"(?:[ +\\-].*\n)*\Z")


def read_quotation(text: str, start: int) -> tuple[int, str] | None:
    """Return the end of the tag at `start` and what ends the quotation, an empty string if the tag is of another name.

    None if more text is needed to decide.
    """
    if text[start] != "<":
        return _read_other_tag(text, start)
    for tag, end_tag in _COMMENTS.items():
        if text.startswith(tag, start):
            return start + len(tag), end_tag
    found = _TAG.match(text, start)
    if found is not None:
        return found.end(), f"</{found[1]}>"
    return None if _PARTIAL_TAG.match(text, start) else (start + 1, "")


def _read_other_tag(text: str, start: int) -> tuple[int, str] | None:
    for tag_pattern, end_tag in _OTHER_TAGS:
        found = tag_pattern.match(text, start)
        if found is not None:
            return found.end(), end_tag.format(found[1])
    return None if _PARTIAL_OTHER_TAG.match(text, start) else (start + 1, "")


def is_quoted_line(head: str) -> bool:
    """Return whether a line that begins with `head`, before a call, shows the call."""
    return _QUOTED_LINE.match(head) is not None


def may_be_location(head: str) -> bool:
    """Return whether a line whose first characters are `head` may begin like the output of `grep -n`."""
    return _MAY_BE_LOCATION.match(head) is not None


def is_found_line(head: str) -> bool:
    """Return whether a line that begins with `head`, before a call, is the output of `grep -n`."""
    return _LOCATION.match(head) is not None


def ends_in_hunk(lines: str, *, in_hunk: bool) -> bool:
    """Return whether the line after `lines` may belong to a hunk of a diff; `in_hunk`: whether the first one may."""
    if "@@" in lines and _HUNK.search(lines) is not None:
        return True
    return in_hunk and _HUNK_LINES.match(lines) is not None


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
