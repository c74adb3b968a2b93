"""Tags that may surround a call although no dialect has them: `<tool>`, `[TOOL_REQUEST]`, `&lt;call&gt;`, `**<call>**`.

Rule: a tag stands on one line and is short; its end marker follows from its spelling. A name does not begin with an
underscore: prompts escape markers so (`<_tool_call>`), and a model that shows one makes no call.
"""

import re
from dataclasses import dataclass

from fcshim.parse.machine.quotations import EXAMPLES, THOUGHTS
from fcshim.parse.scanner import MoreNeeded

_NAME = r"[^\W\d_][\w.:-]{0,47}+"
_PIPE = r"[|｜]"
_ANGLE = rf"(?P<pipe>{_PIPE}?)(?P<name>{_NAME})(?P=pipe)(?:[ \t][^<>&\n]{{0,96}})?"
_TAG = re.compile(
    rf"(?P<bold>\*{{2,3}}+)?(?:(?P<open>\\?<|&lt;){_ANGLE}(?P<close>\\?>|&gt;)"
    rf"|(?P<backslash>\\?)\[(?P<square>{_NAME})\\?\])(?(bold)(?:\*{{2,3}}+)?)"
)
_PARTIAL_TAG = re.compile(
    rf"\*{{0,3}}+(?:(?:\\?<|&lt;)(?:{_PIPE}?+"
    rf"(?:(?P<name>{_NAME}){_PIPE}?+(?P<more>[ \t][^<>&\n]{{0,96}}+)?(?:\\|&|&g|&gt)?)?)?"
    rf"|\\|&|&l|&lt|\\?\[(?:{_NAME}\\?)?)?\Z"
)
_MAX_ASTERISKS = 3
_OPPOSITES = (("start", "end"), ("begin", "end"), ("open", "close"))
_QUOTING_NAMES = frozenset(
    (
        # Elements of HTML, and words in whose tags a call is shown, not made.
        *("a", "b", "body", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "i", "li", "ol", "p"),
        *("q", "s", "small", "span", "strong", "summary", "table", "td", "th", "tr", "tt", "u", "ul", "var"),
        *("note", "comment", *EXAMPLES, *THOUGHTS),
    )
)
_TEMPLATE_TOKENS = frozenset(
    ("message", "channel", "constrain", "start", "end", "im_start", "im_end", "eom", "eot", "sep")
)
"""Tokens of chat templates, `<|message|>`, which surround nothing."""
FIRST_CHARS = "<[&*\\"
"""The characters with which a tag begins."""


@dataclass(frozen=True, slots=True)
class WrapperTag:
    """A tag in text."""

    found: re.Match[str]

    @property
    def text(self) -> str:
        """The tag as it is written."""
        return self.found[0]

    def closers(self) -> tuple[str, ...]:
        """Return the end markers that belong to the tag; the first is spelled like it."""
        found = self.found
        if found["square"]:
            names = _closing_square_names(found["square"])
            left, right = f"{found['backslash']}[", f"{found['backslash']}]"
            plain = [f"[{name}]" for name in names]
        else:
            names, left, right = _closing_names(found["name"], found["pipe"]), found["open"], found["close"]
            plain = [f"<{name}>" for name in names]
        bold = found["bold"] or ""
        spelled = [f"{bold}{left}{name}{right}{bold}" for name in names]
        return tuple(dict.fromkeys((*spelled, *plain)))


def read_wrapper_tag(text: str, pos: int) -> WrapperTag | None:
    """Return the tag at `pos`, None if there is none. Raises `MoreNeeded`."""
    found = _TAG.match(text, pos)
    if found is None:
        partial = _PARTIAL_TAG.match(text, pos)
        if partial is not None and not (partial["more"] and partial["name"].lower() in _QUOTING_NAMES):
            raise MoreNeeded
        return None
    if found["bold"] and len(text) - found.end() < _MAX_ASTERISKS and not text[found.end() :].strip("*"):
        raise MoreNeeded  # further asterisks may belong to the tag
    is_quoting = (found["square"] or found["name"]).lower() in _QUOTING_NAMES
    is_token = found["pipe"] and found["name"] in _TEMPLATE_TOKENS
    return None if is_quoting or is_token else WrapperTag(found)


def _closing_names(name: str, pipe: str) -> tuple[str, ...]:
    """Return what stands in the closing tag between its brackets: `/tool`, `|/tool|`, `|end_tool|`."""
    names = [f"{pipe}{other}{pipe}" for other in _opposites(name)]
    return (f"{pipe}/{name}{pipe}", *([f"/{pipe}{name}{pipe}"] if pipe else []), *names)


def _closing_square_names(name: str) -> tuple[str, ...]:
    return (f"/{name}", f"END_{name}" if name.isupper() else f"end_{name}", *_opposites(name))


def _opposites(name: str) -> list[str]:
    """Return the name of the end that belongs to a name of a start: `tool_start` has `tool_end`."""
    return [
        name.replace(spell(first), spell(last))
        for first, last in _OPPOSITES
        for spell in (str.lower, str.upper)
        if spell(first) in name
    ]
