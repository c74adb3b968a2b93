"""Names of tools that are unique over all servers.

Rule: `mcp__server__tool` has only characters and a length that every provider accepts, and belongs to one tool. The
server's part never contains `__`, so the first `__` after the prefix ends it; a tool's name may contain it.
"""

import hashlib
import re
from collections.abc import Iterable

PREFIX = "mcp__"
SEPARATOR = "__"
_MAX_NAME = 64
"""Characters of a name that OpenAI, Anthropic and Gemini all accept."""
_MAX_SERVER_PART = 24
_DIGEST = 6
"""Characters of the digest at the end of a name that was changed."""
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_INVALID_IN_PATTERN = re.compile(r"[^A-Za-z0-9_*?[\]!{},-]")
_WILDCARD = re.compile(r"[*?[{]")
_QUALIFIED_RULE = re.compile(r"([^:()]+):(.+)", re.DOTALL)
_VALID_SERVER = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")


def full_name(server: str, tool: str) -> str:
    """Return the name that the model gets: `mcp__server__tool`."""
    return PREFIX + direct_name(server, tool)


def direct_name(server: str, tool: str) -> str:
    """Return the name without the prefix: `server__tool`."""
    head = server_prefix(server)
    max_length = _MAX_NAME - len(PREFIX) - len(head)
    if not 0 < len(tool) <= max_length or _INVALID_CHARACTER.search(tool):
        tool = _shorten(_INVALID_CHARACTER.sub("_", tool), tool, max_length)
    return head + tool


def server_prefix(server: str) -> str:
    """Return the prefix of the direct names of a server's tools."""
    if len(server) > _MAX_SERVER_PART or not _VALID_SERVER.fullmatch(server):
        readable = re.sub(r"_+", "_", _INVALID_CHARACTER.sub("_", server)).strip("_")
        server = _shorten(readable, server, _MAX_SERVER_PART)
    return server + SEPARATOR


def qualified_name(server: str, tool: str) -> str:
    """Return the name that people write: `server:tool`."""
    return f"{server}:{tool}"


def all_names(server: str, tool: str) -> tuple[str, str, str]:
    """Return every name of a tool, the model's first."""
    return full_name(server, tool), qualified_name(server, tool), direct_name(server, tool)


def full_rules(rules: Iterable[str]) -> list[str]:
    """Replace `server:tool` in permission rules by the names that the model has for the tools.

    A pattern stands for the names that servers' tools get: `docs:*.get` is `mcp__docs__*_get`, also with a digest.
    """
    return [full for rule in rules for full in _full_rule(rule)]


def _full_rule(rule: str) -> tuple[str, ...]:
    match = _QUALIFIED_RULE.fullmatch(rule)
    if match is None or "(" in match[2]:
        return (rule,)
    server, tool = match.groups()
    if not _WILDCARD.search(tool):
        return (full_name(server, tool),)
    pattern = PREFIX + server_prefix(server) + _INVALID_IN_PATTERN.sub("_", tool)
    return (pattern,) if pattern.endswith("*") else (pattern, f"{pattern}-{'[0-9a-f]' * _DIGEST}")


def _shorten(readable: str, original: str, max_length: int) -> str:
    """Shorten a readable name; append a digest of the original, so that different names stay different."""
    digest = hashlib.sha256(original.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{readable[: max_length - _DIGEST - 1].rstrip('_')}-{digest}"
