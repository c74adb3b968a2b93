"""A call that the reply shows instead of making is text, in every dialect: in elements, comments, code and quotations.

Rule: each quotation is tried with each dialect, as the one that was asked for and as another one.
"""

import json
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import parse
from fcshim.prompt.render import render_calls
from tests.parse.laws import executable, normalise

TOOL: dict[str, Any] = {
    "name": "find_file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}},
}
ARGUMENTS = {"path": "a.txt", "depth": 3}
DIALECTS_WITHOUT_FENCE = [dialect for dialect in DIALECTS.values() if not dialect.fenced]
TAB = "\t"


def _number(text: str, separator: str) -> str:
    return "\n".join(f"{number:6}{separator}{line}" for number, line in enumerate(text.splitlines(), 2))


QUOTATIONS: dict[str, Callable[[str], str]] = {
    "example": lambda call: f"It looks like this:\n<example>\n{call}\n</example>\nOk?",
    "example alone": lambda call: f"<example>\n{call}\n</example>",
    "example in upper case": lambda call: f'<EXAMPLE id="1">\n{call}\n</EXAMPLE>\nOk?',
    "example that is not closed": lambda call: f"The format:\n<example>\n{call}",
    "example inside a line": lambda call: f"Write <code>{call}</code> to call it.",
    "preformatted text": lambda call: f"It looks like this:\n\n<pre>{call}</pre>\nOk?",
    "thought": lambda call: f"<thought>\nMaybe\n{call}\nor not.\n</thought>\nNo.",
    "comment": lambda call: f"Hm.\n<!--\n{call}\n-->\nOk?",
    "indented code": lambda call: f"For example:\n\n{textwrap.indent(call, '    ')}\n\nThat is all.",
    "fence": lambda call: f"For example:\n\n~~~\n{call}\n~~~\n\nThat is all.",
    "block quote": lambda call: f"You wrote:\n{textwrap.indent(call, '> ')}\n\nWhy?",
    "BBCode": lambda call: f"[code=xml]\n{call}\n[/code]\nOk?",
    "BBCode inside a line": lambda call: f"See [CODE]{call}[/CODE].",
    "LaTeX": lambda call: f"In LaTeX:\n\\begin{{lstlisting}}[language=XML]\n{call}\n\\end{{lstlisting}}\nOk.",
    "LaTeX inside a line": lambda call: f"Write \\verb+{call}+ here.",
    "Org": lambda call: f"#+begin_src xml\n{call}\n#+end_src\nOk.",
    "CDATA": lambda call: f"<![CDATA[\n{call}\n]]>\nOk.",
    "three quotes": lambda call: f'The text:\n"""\n{call}\n"""',
    "comment of C": lambda call: f"/*\n{call}\n*/\nOk.",
    "wiki code": lambda call: f"{{{{{{\n{call}\n}}}}}}\nOk.",
    "struck out": lambda call: f"~~{call}~~ is not needed.",
    "quotation marks of TeX": lambda call: f"You wrote ``{call}'' there.",
    "announced example": lambda call: f"Example:\n{call}\nThis would read the file.",
    "heading of an example": lambda call: f"### Example 1: find a file\n\n{call}\n\n### Notes\nNone.",
    "line of an example": lambda call: f"--- BEGIN EXAMPLE ---\n{call}\n--- END EXAMPLE ---",
    "end of a sentence": lambda call: f"You can call the tool, for example:\n\n{call}\n\nThat is how.",
    "example of it": lambda call: f"Here's an example of a tool call:\n{call}\nShall I run it?",
    "announced format": lambda call: f"The format is:\n{call}\nReplace a.txt by your path.",
    "announced after a word": lambda call: f"Sure! Here's an example tool call:\n{call}\nShall I run it?",
    "announced in a last sentence": lambda call: f"A tool call has tags. Example:\n{call}\nPut your path there.",
    "what a call looks like": lambda call: f"A function call looks like this:\n{call}\nPut your path there.",
    "announced in German": lambda call: f"Zum Beispiel:\n{call}\nSo geht es.",
    "announced in Chinese": lambda call: f"例如：\n{call}\n就这样。",
    "announced inside a line": lambda call: f"Write a call (e.g. {call}) to read it.",
    "marked as wrong": lambda call: f"❌ {call}\nThe path is missing.",
    "directive": lambda call: f".. code-block:: text\n\n{textwrap.indent(call, '   ')}\n\nDone.",
    "turn of the user": lambda call: f"Sure.\n### User:\nFind it\n### Assistant:\n{call}",
    "removed lines of a diff": lambda call: f"--- a/x\n+++ b/x\n@@ -1,3 +1 @@\n z\n{textwrap.indent(call, '-')}\n+y\n",
    "other lines of a diff": lambda call: f"The patch:\n@@ -1 +1 @@ z\n-x\n+y\n{textwrap.indent(call, ' ')}\n\nOk.",
    "numbered file": lambda call: f"The file:\n     1\tx\n{_number(call, TAB)}\n    13\ty\n",
    "numbered file with arrows": lambda call: f"     1→x\n{_number(call, '→')}\n",
    "output of grep": lambda call: f"Found:\n{textwrap.indent(call, 'lib/prompts/system.txt:12:')}\nOk?",
    "three quotes after text": lambda call: f'The file:\n"""\nYou have tools.\n\n{call}\n"""\nOk.',
    "wiki code after text": lambda call: f"{{code}}\nx\n{call}\n{{code}}\nOk.",
    "edit": lambda call: f"<<<<<<< SEARCH\n{call}\n=======\n{call}\n>>>>>>> REPLACE\nOk.",
    "shell": lambda call: f"$ cat call.txt\n{call}\n$ ls\n",
    "Python prompt": lambda call: f">>> print(text)\n{call}\n>>> text\n",
    "line of a log": lambda call: f"The log:\n\n{textwrap.indent(call, '2024-05-01 10:00:03 DEBUG ')}\n\nOk.",
    "times in a log": lambda call: f"{textwrap.indent(call, '[10:00:03] reply: ')}\nOk.",
    "quotation marks": lambda call: f'You wrote "{call}" there.',
}


@pytest.mark.parametrize("quotation", QUOTATIONS)
def test_a_quoted_call_is_text_in_every_dialect(quotation: str) -> None:
    ran = [
        (dialect.name, asked)
        for dialect in DIALECTS_WITHOUT_FENCE
        for asked in (dialect.name, "auto", "function_call")
        if _runs(QUOTATIONS[quotation](_render(dialect)), asked)
    ]

    assert ran == []


ANNOUNCED: dict[str, Callable[[str], str]] = {
    "the end of the reply": lambda call: f"Example:\n{call}",
    "a line that announces a call": lambda call: f"I will call the tool:\n{call}\nPlease wait.",
    "a sentence": lambda call: f"For example, I can look.\n{call}\nPlease wait.",
    "an example file": lambda call: f"Let me look at the example file:\n{call}\nPlease wait.",
    "an example to look for": lambda call: f"Sure! Let me look for an example:\n{call}\nPlease wait.",
    "the format": lambda call: f"I will use the following format:\n{call}\nPlease wait.",
    "text after an example": lambda call: f"Example:\nfoo\n\nNow I call:\n{call}\nPlease wait.",
    "the end of a text in quotes": lambda call: f'x = """\nfoo\n"""\n{call}\nPlease wait.',
    "tags inside a line": lambda call: f"The [code] tag is odd, so is \\begin{{x}}.\n{call}\nPlease wait.",
    "rules": lambda call: f"---\n{call}\n---\nPlease wait.",
}
"""What makes no example of a call."""


@pytest.mark.parametrize("context", ANNOUNCED)
def test_a_call_that_nothing_shows_runs_in_every_dialect(context: str) -> None:
    replies = {dialect.name: ANNOUNCED[context](_render(dialect)) for dialect in DIALECTS.values()}
    lost = [dialect for dialect, reply in replies.items() if _runs(reply, dialect) != 1]

    assert lost == []


def test_a_call_after_a_quoted_one_runs_in_every_dialect() -> None:
    replies = [f"<example>\n{_render(dialect)}\n</example>\nNow:\n{_render(dialect)}" for dialect in DIALECTS.values()]
    counts = [_runs(reply, dialect) for reply, dialect in zip(replies, DIALECTS, strict=True)]

    assert counts == [1] * len(DIALECTS)


def _render(dialect: Dialect) -> str:
    return render_calls(dialect, [("find_file", json.dumps(ARGUMENTS))]).strip("\n")


def _runs(reply: str, dialect: str) -> int:
    events = parse(reply, dialect, [TOOL], rescue=True)
    return len(executable(normalise(events)))
