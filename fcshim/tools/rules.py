"""Permission rules: `mcp__files__*`, `Write`, `Bash(git *)`, `Read(secrets/*)`.

Rule: deny takes precedence over ask, and ask over allow, in whatever order they are written. An allow rule with a
pattern in parentheses must cover all of the subject; a deny or ask rule applies if it matches any of it. Where that
cannot be known, the user is asked.
"""

import fnmatch
import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from fcshim.errors import ConfigError
from fcshim.tools.subjects import Subject

Verdict: TypeAlias = Literal["deny", "ask", "allow"]

_RULE = re.compile(r"([^()\s]+)(?:\((.+)\))?", re.DOTALL)


class PermissionRule(msgspec.Struct, frozen=True):
    """One rule; `subject` is a pattern for the argument that matters (a command, a path, a URL)."""

    verdict: Verdict
    name: str
    subject: str | None = None

    def applies(self, names: Iterable[str], subject: Subject) -> bool | None:
        """Return whether the rule applies to a call; None if that cannot be known.

        `names` are the tool's own name, then those of tools whose deny and ask rules with a pattern hold for it too.
        """
        own, *others = names
        matches = fnmatch.fnmatchcase(own, self.name)
        if self.subject is None:
            return matches
        if self.verdict == "allow":
            return matches and subject.covered_by(self.subject)
        if not matches and not any(fnmatch.fnmatchcase(other, self.name) for other in others):
            return False
        return subject.touched_by(self.subject)


def parse_rules(verdict: Verdict, texts: Iterable[str]) -> tuple[PermissionRule, ...]:
    """Parse rules such as `Bash(git *)`. Raises `ConfigError`."""
    return tuple(_parse_rule(verdict, text) for text in texts)


def judge(rules: Iterable[PermissionRule], names: Iterable[str], subject: Subject) -> Verdict | None:
    """Return the verdict of the applicable rule with the highest precedence; None if no rule applies."""
    names = tuple(names)
    found = {(rule.verdict, rule.applies(names, subject)) for rule in rules}
    if ("deny", True) in found:
        return "deny"
    if not found.isdisjoint({("deny", None), ("ask", None), ("ask", True)}):
        return "ask"
    return "allow" if ("allow", True) in found else None


def _parse_rule(verdict: Verdict, text: str) -> PermissionRule:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"{text!r} is not a rule; expected a tool's name or pattern, like Write, mcp__* or Bash(git *)"
        )
    return PermissionRule(verdict, found[1], found[2])
