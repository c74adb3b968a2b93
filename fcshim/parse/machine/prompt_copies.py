"""What a reply copies from the prompt instead of an answer: a call's placeholder, a tool's definition, a result.

Rule: only what begins the reply is a copy; what stands after other text, or a definition in a fence, is shown.
"""

import re
from collections.abc import Callable
from typing import Literal

CopyKind = Literal["result", "copied"]

_NAME = re.compile(
    r"""(?:<tools>\s{0,4})?(?:\[\s{0,8})?                                               # around a list of tools
    (?:\{\s{0,8}"type"\s{0,8}:\s{0,8}"function",\s{0,8}"function"\s{0,8}:\s{0,8})?      # around a tool in the API
    \{\s{0,32}"(?:name|tool|tool_name|function_name|function|action)"\s{0,8}:\s{0,8}
    "(?P<name>[^"\\\n]{1,128})"\s{0,8},\s{0,32}""",
    re.VERBOSE,
)
_KEY = re.compile(
    r'"(?:(?P<definition>description"|input_schema"|parameters"\s{0,8}:\s{0,8}\{\s{0,32}"type"\s{0,8}:)'
    r'|(?P<arguments>(?:arguments|parameters|args|input|action_input)")'
    r'|(?P<result>(?:content|error|result|output|response)"))'
)
"""The key after the name: of a definition of the tool, of a call, or of a result."""
_PLACEHOLDER = re.compile(
    r"<[^<>]{1,40}>|\{{1,2}[\w .-]{1,40}\}{1,2}|\[[\w .-]{1,40}\]"
    r"|(?:(?:the|your|some|an?)[ _-])?(?:tool|function)[ _-]?name|name[ _-]of[ _-](?:the[ _-])?(?:tool|function)",
    re.IGNORECASE,
)
"""What stands in the place of a tool's name in instructions: `<function name>`, `tool_name`."""


def is_placeholder(name: str) -> bool:
    """Return whether a name that is not that of an offered tool is the instructions' placeholder."""
    return _PLACEHOLDER.fullmatch(name.strip()) is not None


def kind_of_copy(text: str, offers: Callable[[str], bool], *, fenced: bool) -> CopyKind | None:
    """Return what an object is that turned out not to be a call; None if nothing shows that it is a copy."""
    found = _NAME.match(text)
    key = _KEY.match(text, found.end()) if found else None
    if found is None or key is None:
        return None
    if not offers(found["name"]):
        return "copied" if is_placeholder(found["name"]) and key["result"] is None else None
    if key["result"]:
        return "result"
    return "copied" if key["definition"] and not fenced else None
