"""Permission rules: `mcp__files__*`, `Write`, `Bash(git *)`.

Rule: deny takes precedence over ask, and ask over allow, in whatever order they are written. An allow rule with a
pattern in parentheses must match every command of a command line; a deny or ask rule applies if it matches any.
"""

import fnmatch
import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from fcshim.errors import ConfigError

Verdict: TypeAlias = Literal["deny", "ask", "allow"]

_RULE = re.compile(r"([^()\s]+)(?:\((.+)\))?", re.DOTALL)
_COMMAND_SEPARATOR = re.compile(r"\|\||&&|[;|&\n]")
_SUBSTITUTION = re.compile(r"[`<>\\]|\$[({]")
"""Shell syntax that can run or write something that the words of a command do not show."""
_PRECEDENCE: tuple[Verdict, ...] = ("deny", "ask", "allow")


class PermissionRule(msgspec.Struct, frozen=True):
    """One rule; `subject` is a pattern for the argument that matters (a command, a path, a URL)."""

    verdict: Verdict
    name: str
    subject: str | None = None

    def matches(self, name: str, subject: str) -> bool:
        """Return whether the rule applies to this call."""
        if not fnmatch.fnmatchcase(name, self.name):
            return False
        if self.subject is None:
            return True
        parts = [part.strip() for part in _COMMAND_SEPARATOR.split(subject)]
        if self.verdict == "allow":
            hidden = _SUBSTITUTION.search(subject) is not None
            return not hidden and all(part and fnmatch.fnmatchcase(part, self.subject) for part in parts)
        return any(fnmatch.fnmatchcase(part, self.subject) for part in (subject, *parts))


def parse_rules(verdict: Verdict, texts: Iterable[str]) -> tuple[PermissionRule, ...]:
    """Parse rules such as `Bash(git *)`. Raises `ConfigError`."""
    return tuple(_parse_rule(verdict, text) for text in texts)


def first_match(rules: Iterable[PermissionRule], name: str, subject: str) -> PermissionRule | None:
    """Return the applicable rule with the highest precedence, or None."""
    matching = [rule for rule in rules if rule.matches(name, subject)]
    return min(matching, key=lambda rule: _PRECEDENCE.index(rule.verdict), default=None)


def _parse_rule(verdict: Verdict, text: str) -> PermissionRule:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is no rule; expected a tool's name or pattern, like Write, mcp__* or Bash(git *)")
    return PermissionRule(verdict, found[1], found[2])
