"""Judges the text of a reply: whether it states the expected facts, and whether it contains markup of calls or results.

Rule: a fact is a text, found in any letter case, or a number, which must be equal by value to a number of the text.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TypeAlias

from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.escape import own_markers

Fact: TypeAlias = tuple[str, ...]
"""Spellings of one fact, of which a text has at least one."""

_NUMERIC_FACT = re.compile(r"-?\d+(?:\.\d+)?")
_NUMBER = re.compile(r"(?<![^\W_])(?<![.:/-])[-−]?\d+(?:\.\d+)?(?![\d:/]|-\d|\.\d)")
"""A number that is not a part of a date, a time or the number of an article."""
_THOUSANDS_SEPARATOR = re.compile(r"(?<=\d)[,\u00a0\u202f](?=\d{3}(?!\d))")
_SHORTEST_MARKER = 6
"""Characters of the shortest marker; shorter ones (`>>>`) and code fences stand in ordinary text."""
_ORDINARY = frozenset({"functools", "function call", "Action:", "**Action:**", "**Action**:", "<![CDATA[", "<param"})
"""Markers of dialects that are words of ordinary text, or markup of other things."""
_LOOKALIKE = (
    r"</?\|?(?:\w+[:_ -])?(?:function|tool|call|result|response|output|observation)s?"
    r"(?:[_ -]?(?:call|result|response|output)s?)?(?=[\s>|=/]|$)"
    r"|^\**Action Input\**:"
)
"""Tags that no dialect has, but that a model writes in place of one: `<result>`, `<tool_results>`, `</call>`; and the
line of a call in ReAct, whose other marker, `Action:`, is ordinary text."""


def missing_facts(facts: Iterable[Fact], text: str) -> list[Fact]:
    """Return the facts that a text does not state."""
    joined = _THOUSANDS_SEPARATOR.sub("", text)
    numbers = {Decimal(found.replace("−", "-")) for found in _NUMBER.findall(joined)}
    return [fact for fact in facts if not any(_is_stated(spelling, text, numbers) for spelling in fact)]


def _is_stated(spelling: str, text: str, numbers: set[Decimal]) -> bool:
    if _NUMERIC_FACT.fullmatch(spelling):
        return Decimal(spelling) in numbers
    return re.search(rf"(?<!\d){re.escape(spelling)}(?!\d)", text, re.IGNORECASE) is not None


def markup_in(texts: Sequence[str]) -> str:
    """Return the first marker of a call or a result in any of the texts, or an empty string."""
    return next((found[0].strip() for text in texts if (found := _markup().search(text))), "")


@functools.cache
def _markup() -> re.Pattern[str]:
    """Compile the markers of all dialects, and their lookalikes, into one search."""
    markers = {marker for dialect in DIALECTS.values() for marker in own_markers(dialect)}
    known = sorted(
        (each for each in markers if len(each) >= _SHORTEST_MARKER and each[0] != "`" and each not in _ORDINARY),
        key=len,
        reverse=True,
    )
    # A marker that begins with a newline counts at the start of a line, the first one included.
    patterns = [re.escape(each) if each[0] != "\n" else f"^{re.escape(each[1:])}" for each in known]
    return re.compile("|".join([*patterns, _LOOKALIKE]), re.IGNORECASE | re.MULTILINE)
