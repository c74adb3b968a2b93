"""What shows calls instead of making them: comments of HTML, and elements such as `<example>`, `<pre>` and `<thought>`.

Rule: all between the tags of such an element is text, and so is the remainder of the reply if it is not closed: a lost
call is asked for again, a wrong one runs. A tag counts at the start of a line or directly before a call, because prose
mentions tags too ("add a <code> block").
"""

import re

_COMMENT = {"<!--": "-->"}
EXAMPLES = (
    *("example", "examples", "sample", "samples", "format", "template", "usage", "syntax", "schema", "details"),
    *("document", "documents", "documentation", "docs", "instructions", "description", "prompt", "context"),
    *("conversation", "history", "transcript", "log", "logs", "quote", "blockquote", "quotation", "cite"),
    *("code", "pre", "samp", "xmp", "kbd", "td", "th", "snippet", "file", "note", "notes"),
    *("test", "tests", "test_case", "testcase", "expected", "good", "bad", "wrong", "incorrect", "correct"),
    *("user", "human", "assistant", "model", "system", "turn", "dialog", "dialogue", "tool_result", "tool_results"),
)
"""Elements whose content is shown."""
THOUGHTS = (*("thought", "thoughts", "thinking", "reasoning", "reflection", "scratchpad", "scratch_pad"),)
"""Elements in which a model plans, and that are not reasoning tags of its template, or stand behind its answer."""
_NAMES = (*EXAMPLES, *THOUGHTS)
QUOTATION_STARTS = frozenset(
    (*_COMMENT, *(f"<{spell(name)}" for name in _NAMES for spell in (str.lower, str.title, str.upper)))
)
"""What is searched in text."""
QUOTING_LANGUAGES = frozenset(("diff", "patch", "udiff", "log", "logs", "output", "stdout", "transcript"))
"""Info strings of code fences whose content is shown, whatever it holds: changes of a file, what a program printed."""
_WORD = r"(?:[a-z0-9]{1,24}[-_.]){0,3}(?:examples?|samples?)(?:[-_.\d][\w.-]{0,32})?"
"""A name of several words: `good_example`, `example-1`."""
_NAME = rf"(?:{'|'.join(_NAMES)}|{_WORD})"
_TAG = re.compile(rf"<({_NAME})(?:\s[^<>]{{0,96}})?>", re.IGNORECASE)
_PARTIAL_TAG = re.compile(rf"<(?:[\w.-]{{0,64}}|{_NAME}\s[^<>]{{0,96}})\Z", re.IGNORECASE)


def read_quotation(text: str, start: int) -> tuple[int, str] | None:
    """Return the end of the tag at `start` and what ends the quotation, an empty string if the tag is of another name.

    None if more text is needed to decide.
    """
    for tag, end_tag in _COMMENT.items():
        if text.startswith(tag, start):
            return start + len(tag), end_tag
    found = _TAG.match(text, start)
    if found is not None:
        return found.end(), f"</{found[1]}>"
    return None if _PARTIAL_TAG.match(text, start) else (start + 1, "")
