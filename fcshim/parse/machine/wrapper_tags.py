"""Tags that may surround a call although no dialect has them: `<tool>`, `[TOOL_REQUEST]`, `&lt;call&gt;`.

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
_TAG = re.compile(rf"(?P<open>\\?<|&lt;){_ANGLE}(?P<close>\\?>|&gt;)|(?P<backslash>\\?)\[(?P<square>{_NAME})\\?\]")
_PARTIAL_TAG = re.compile(
    rf"(?:(?:\\?<|&lt;)(?:{_PIPE}?+"
    rf"(?:(?P<name>{_NAME}){_PIPE}?+(?P<more>[ \t][^<>&\n]{{0,96}}+)?(?:\\|&|&g|&gt)?)?)?"
    rf"|\\|&|&l|&lt|\\?\[(?:{_NAME}\\?)?)?\Z"
)
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
FIRST_CHARS = "<[&\\"
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
            name, slash = found["square"], found["backslash"]
            names = (f"/{name}", f"END_{name}" if name.isupper() else f"end_{name}")
            spelled, plain = [f"{slash}[{each}{slash}]" for each in names], [f"[{each}]" for each in names]
        else:
            name, pipe = found["name"], found["pipe"]
            names = (f"{pipe}/{name}{pipe}", f"/{pipe}{name}{pipe}")
            left, right = found["open"], found["close"]
            spelled, plain = [f"{left}{each}{right}" for each in names], [f"<{each}>" for each in names]
        return tuple(dict.fromkeys((*spelled, *plain)))


def read_wrapper_tag(text: str, pos: int) -> WrapperTag | None:
    """Return the tag at `pos`, None if there is none. Raises `MoreNeeded`."""
    found = _TAG.match(text, pos)
    if found is None:
        partial = _PARTIAL_TAG.match(text, pos)
        if partial is not None and not (partial["more"] and partial["name"].lower() in _QUOTING_NAMES):
            raise MoreNeeded
        return None
    is_quoting = (found["square"] or found["name"]).lower() in _QUOTING_NAMES
    is_token = found["pipe"] and found["name"] in _TEMPLATE_TOKENS
    return None if is_quoting or is_token else WrapperTag(found)
