"""Reads the patterns of permission rules, and refuses those that could never match.

Rule: a rule that silently never applies is worse than an error. Every usual spelling is either read, in each of its
meanings, or refused with what was expected.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping

from fcshim.errors import ConfigError
from fcshim.tools.base import SubjectKind

SUBJECT_KINDS: Mapping[str, SubjectKind | None] = {
    **dict.fromkeys(("Read", "Write", "Edit", "ListDir", "Glob", "Grep"), "path"),
    **dict.fromkeys(("Bash",), "command"),
    **dict.fromkeys(("WebFetch", "ReadMcpResource"), "url"),
    **dict.fromkeys(("WebSearch", "slash_command", "spawn_agent", "skillhub_install"), "text"),
    **dict.fromkeys(("Notify", "ListMcpResources", "list_skills", "read_skill", "skillhub_search")),
    **dict.fromkeys(("subagent_list", "subagent_status", "SessionsSpawn", "SessionsList", "SessionsSend")),
    **dict.fromkeys(("SessionsHistory", "SessionsYield", "add_numbers")),
}
"""The subject that rules about a built-in tool compare; None: a rule about that tool has no pattern."""

_MAX_ALTERNATIVES = 64
"""Rules that the braces of one rule may stand for: their numbers multiply."""
_WILDCARD = re.compile(r"[*?[]")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")
_SHELL_BRACES = re.compile(r"""'[^']*'|"[^"]*"|\{([^{}\s'"$,]*,[^{}\s'"$]*)\}""")
_LIST = re.compile(r"[*/],\s")
_VARIABLE = re.compile(r"\$\{?\w+\}?(?:/|$)|%\w+%")
_SERVER_ONLY = re.compile(r"mcp__((?:(?!__)[^*?[])+)(?:__)?")
_SURROUNDED = re.compile(r"""(['"])[^'"]*\1""")
_PREFIX_FORM = re.compile(r"(.+):(\*\*?)", re.DOTALL)
_ALTERNATIVE_SIGN = re.compile(r"[^\s|&]\|[^\s|&]")
_HOST = re.compile(r"[^\s/:@]+(?::\d+)?|\[[0-9A-Fa-f:]+\](?::\d+)?")
_SEPARATORS = re.compile(r"[|;&\n]")


def name_patterns(name: str) -> list[str]:
    """Return the patterns of names that a rule's name stands for: `mcp__files` has all tools of that server."""
    return [
        f"mcp__{found[1]}__*" if (found := _SERVER_ONLY.fullmatch(each)) else each for each in _expand(name, _BRACES)
    ]


def subject_patterns(verdict: str, name: str, pattern: str) -> list[str]:
    """Return the patterns that a rule's pattern stands for. Raises `ConfigError` if none could ever match."""
    pattern = pattern.strip()
    if not pattern or _SURROUNDED.fullmatch(pattern):
        raise ConfigError("expected a pattern without quotes around it")
    if _LIST.search(_QUOTED.sub("", pattern)):
        raise ConfigError("expected one pattern; give another rule for each further one")
    match _kind_of(name):
        case "path":
            return _path_patterns(pattern)
        case "command":
            return _command_patterns(verdict, pattern)
        case "url":
            return _unique(form for each in _expand(pattern, _BRACES) for form in _url_forms(verdict, each))
        case _:
            return [pattern]


def _kind_of(name: str) -> SubjectKind | None:
    """Return how the tools of a name compare a rule's pattern. Raises `ConfigError` where none does."""
    named = {kind for tool, kind in SUBJECT_KINDS.items() if fnmatch.fnmatchcase(tool, name)}
    if not named and not name.startswith("mcp__"):
        return "text"  # a tool of the user's own
    kinds = named - {None}
    if len(kinds) != 1:
        expected = "one tool's name before the parentheses" if kinds else "a name alone: it has nothing to compare"
        raise ConfigError(f"expected {expected}")
    return kinds.pop()


def _path_patterns(pattern: str) -> list[str]:
    if pattern.startswith("!"):
        raise ConfigError("expected no `!`: rules have no negation")
    if "\\" in pattern:
        raise ConfigError("expected `/` between folders, and no escapes")
    if "://" in pattern:
        raise ConfigError("expected a path, not a URL")
    if _VARIABLE.match(pattern):
        raise ConfigError("expected `~` or a path: variables are not replaced")
    return _unique(_normal_path(each) for each in [pattern, *_expand(pattern, _BRACES)])


def _normal_path(pattern: str) -> str:
    """Return a pattern without `//` and `.`; `a/` means all that is in it. Raises `ConfigError` for `*/..`."""
    wildcard, parts = False, pattern.split("/")
    for part in parts:
        if wildcard and part == "..":
            raise ConfigError("expected no `..` after a wildcard")
        wildcard |= _WILDCARD.search(part) is not None
    start, inner = "/" if pattern.startswith("/") else "", "/".join(part for part in parts if part not in ("", "."))
    if not inner:
        return f"{start}*" if start else "."
    return f"{start}{inner}/*" if pattern.endswith("/") else start + inner


def _command_patterns(verdict: str, pattern: str) -> list[str]:
    bare = _QUOTED.sub("", pattern)
    if bare.startswith(":"):
        raise ConfigError("expected a command before `:`")
    if _ALTERNATIVE_SIGN.search(bare):
        raise ConfigError("expected one command; give another rule for each further one")
    if verdict == "allow" and _SEPARATORS.search(bare):
        raise ConfigError("expected one command: each command of a line must be covered by itself")
    if bare == pattern:
        pattern = " ".join(pattern.split())
    forms = [pattern, *_expand(pattern, _SHELL_BRACES)]
    return _unique(
        [*forms, *(f"{found[1].rstrip()} {found[2]}" for each in forms if (found := _PREFIX_FORM.fullmatch(each)))]
    )


def _url_forms(verdict: str, pattern: str) -> list[str]:
    """Return what one pattern means. Raises `ConfigError` for one that is neither a URL nor a host."""
    if not pattern.strip("*"):
        return [pattern]
    domain = pattern.startswith("domain:")
    if "://" in pattern and not domain:
        return _full_url_forms(verdict, pattern)
    host, _, path = pattern.removeprefix("domain:").strip().partition("/")
    if not _HOST.fullmatch(host) or (domain and path) or (verdict == "allow" and not domain):
        raise ConfigError("expected a URL such as https://example.com/*, or domain:example.com")
    full = f"*://{host}/{path or '*'}"
    return [full] if domain else [pattern, full]


def _full_url_forms(verdict: str, pattern: str) -> list[str]:
    scheme, _, rest = pattern.partition("://")
    if verdict != "allow" or "/" in rest:
        return [pattern]
    if rest.strip("*") and scheme in ("*", "http", "https", "http*"):
        raise ConfigError(f"expected a path after the host, such as {pattern.rstrip('*')}/*")
    return [pattern, f"{pattern}/*"]


def _expand(pattern: str, braces: re.Pattern[str]) -> list[str]:
    """Return the patterns that braces stand for: `{a,b}/*` is `a/*` and `b/*`. Raises `ConfigError` for too many."""
    pending, done = [pattern], []
    while pending:
        text = pending.pop()
        found = next((each for each in braces.finditer(text) if each[1] is not None), None)
        if found is None:
            done.append(text)
        else:
            pending += [text[: found.start()] + each + text[found.end() :] for each in found[1].split(",")]
        if len(pending) + len(done) > _MAX_ALTERNATIVES:
            raise ConfigError(f"expected braces that stand for at most {_MAX_ALTERNATIVES} patterns")
    return _unique(reversed(done))


def _unique(patterns: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(patterns))
