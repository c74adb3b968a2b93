"""Rules about tools: `mcp__files__*`, `Write`, `Bash(git *)`.

Rule: refusing goes before asking, asking before allowing, whatever the order in which they are written. What a rule in
brackets allows, it allows for each command of a line; what it refuses, it refuses for the line if any command is it.
Neighbours: `permission` decides by them.
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
"""Ways to run or write something that the words of a command do not show."""
_PRECEDENCE: tuple[Verdict, ...] = ("deny", "ask", "allow")


class PermissionRule(msgspec.Struct, frozen=True):
    """One rule; `subject` is a pattern for the argument that matters (a command, a path, a URL)."""

    verdict: Verdict
    name: str
    subject: str | None = None

    def matches(self, name: str, subject: str) -> bool:
        """Tell whether the rule is about this call."""
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
    """Read rules as people write them. Raises `ConfigError`."""
    return tuple(_parse_rule(verdict, text) for text in texts)


def first_match(rules: Iterable[PermissionRule], name: str, subject: str) -> PermissionRule | None:
    """Give the rule that counts for this call, if one is about it."""
    matching = [rule for rule in rules if rule.matches(name, subject)]
    return min(matching, key=lambda rule: _PRECEDENCE.index(rule.verdict), default=None)


def _parse_rule(verdict: Verdict, text: str) -> PermissionRule:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is no rule; expected a tool's name or pattern, like Write, mcp__* or Bash(git *)")
    return PermissionRule(verdict, found[1], found[2])
