"""Names of tools that are unique over all servers.

Rule: `mcp__server__tool` has only characters and a length that every provider accepts, and belongs to one tool. The
server's part never contains `__`, so the first `__` after the prefix ends it; a tool's name may contain it.
"""

import hashlib
import re

PREFIX = "mcp__"
SEPARATOR = "__"
_MAX_NAME = 64
"""Characters of a name that OpenAI, Anthropic and Gemini all accept."""
_MAX_SERVER_PART = 24
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_QUALIFIED_RULE = re.compile(r"([^:()]+):(.+)", re.DOTALL)
_VALID_SERVER = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")


def full_name(server: str, tool: str) -> str:
    """Return the name that the model gets: `mcp__server__tool`."""
    return PREFIX + direct_name(server, tool)


def direct_name(server: str, tool: str) -> str:
    """Return the name without the prefix: `server__tool`."""
    head = server_prefix(server)
    return head + _tool_part(tool, _MAX_NAME - len(PREFIX) - len(head))


def server_prefix(server: str) -> str:
    """Return the prefix of the direct names of a server's tools."""
    return _server_part(server) + SEPARATOR


def qualified_name(server: str, tool: str) -> str:
    """Return the name that people write: `server:tool`."""
    return f"{server}:{tool}"


def all_names(server: str, tool: str) -> tuple[str, str, str]:
    """Return every name of a tool, the model's first."""
    return full_name(server, tool), qualified_name(server, tool), direct_name(server, tool)


def full_rule(rule: str) -> str:
    """Replace `server:tool` in a permission rule by the name that the model has for the tool."""
    match = _QUALIFIED_RULE.fullmatch(rule)
    return rule if match is None else PREFIX + server_prefix(match[1]) + match[2]


def _server_part(server: str) -> str:
    if len(server) <= _MAX_SERVER_PART and _VALID_SERVER.fullmatch(server):
        return server
    return _shorten(re.sub(r"_+", "_", _INVALID_CHARACTER.sub("_", server)).strip("_"), server, _MAX_SERVER_PART)


def _tool_part(tool: str, max_length: int) -> str:
    if 0 < len(tool) <= max_length and not _INVALID_CHARACTER.search(tool):
        return tool
    return _shorten(_INVALID_CHARACTER.sub("_", tool), tool, max_length)


def _shorten(readable: str, original: str, max_length: int) -> str:
    """Shorten a readable name; append a digest of the original, so that different names stay different."""
    digest = hashlib.sha256(original.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{readable[: max_length - 7].rstrip('_')}-{digest}"
