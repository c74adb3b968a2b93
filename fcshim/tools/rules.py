"""Permission rules: `mcp__files__*`, `Write`, `Bash(git *)`, `Read(secrets/*)`, `@web` for a category.

Rule: deny takes precedence over ask, and ask over allow, in whatever order they are written. The allow rules with a
pattern in parentheses must together cover all of the subject; a deny or ask rule applies if it matches any of it. Where
that cannot be known, the user is asked. A rule that could never apply is refused.
"""

import difflib
import fnmatch
import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from fcshim.errors import ConfigError
from fcshim.tools.base import BUILTIN_CATEGORIES, MCP_CATEGORY, AnyTool, tool_category
from fcshim.tools.command_subject import pattern_note, unlimited_pattern
from fcshim.tools.rule_patterns import SUBJECT_KINDS, name_patterns, subject_patterns
from fcshim.tools.subjects import Subject

Verdict: TypeAlias = Literal["deny", "ask", "allow"]

_RULE = re.compile(r"([^()\s]+)(?:\((.+)\))?", re.DOTALL)
_WILDCARD = re.compile(r"[*?[]")
_MCP_PREFIX = "mcp__"


class PermissionRule(msgspec.Struct, frozen=True):
    """One rule; `subject` is a pattern for the argument that matters (a command, a path, a URL).

    `name` is a pattern of tools' names, or `@` and one of categories.
    """

    verdict: Verdict
    name: str
    subject: str | None = None

    def is_about(self, name: str, category: str) -> bool:
        """Return whether the rule is about a tool of this name and category, whatever its arguments."""
        if self.name.startswith("@"):
            return fnmatch.fnmatchcase(category, self.name[1:])
        return fnmatch.fnmatchcase(name, self.name)

    def applies(self, names: Iterable[str], subject: Subject, category: str = "") -> bool | None:
        """Return whether the rule applies to a call of a tool; None if that cannot be known.

        `names` are the tool's own name, then those of tools whose deny and ask rules with a pattern hold for it too.
        """
        own, *others = names
        matches = self.is_about(own, category)
        if self.subject is None:
            return matches
        if self.verdict == "allow":
            return matches and subject.covered_by(self.subject)
        if not matches and not any(fnmatch.fnmatchcase(other, self.name) for other in others):
            return False
        return subject.touched_by(self.subject)


def parse_rules(verdict: Verdict, texts: Iterable[str]) -> tuple[PermissionRule, ...]:
    """Parse rules such as `Bash(git *)`; one with braces becomes several. Raises `ConfigError`."""
    return tuple(rule for text in texts for rule in _parse_rule(verdict, text))


def check_rules(
    rules: Iterable[PermissionRule],
    tools: Iterable[AnyTool],
    prefixes: Iterable[str] = (),
    categories: Iterable[str] = (),
) -> None:
    """Refuse rules for tools that do not exist, and patterns for tools of the user's own that compare nothing.

    `prefixes` begin the names of the servers' tools, which come later; none: no servers. `categories`: those of the
    servers. Raises `ConfigError`.
    """
    tools = tuple(tools)
    subjects = {tool.definition.name: tool.traits.subject for tool in tools}
    groups = {*BUILTIN_CATEGORIES, MCP_CATEGORY, *categories, *map(tool_category, tools)} - {""}
    known, begins = {*SUBJECT_KINDS, *subjects}, tuple(prefixes)
    for rule in rules:
        if rule.name.startswith("@"):
            _check_category(rule, groups)
            continue
        named = fnmatch.filter(known, rule.name)
        if not named and not _names_server(rule.name, begins):
            raise ConfigError(
                f"the rule for {rule.name!r} names no tool; expected {_expected(rule.name, known, begins)}"
            )
        if rule.subject is not None and not any(subjects.get(each, "any") for each in named):
            raise ConfigError(
                f"the rule for {rule.name!r} has a pattern; expected none: the tool has nothing to compare"
            )


def _check_category(rule: PermissionRule, categories: set[str]) -> None:
    """Raise `ConfigError` for a rule about a category that no tool has, or with a pattern."""
    if not fnmatch.filter(categories, rule.name[1:]):
        expected = ", ".join(f"@{each}" for each in sorted(categories))
        raise ConfigError(f"the rule for {rule.name!r} names no category; expected one of {expected}")
    if rule.subject is not None:
        raise ConfigError(
            f"the rule for {rule.name!r} has a pattern; expected none: it is about all tools of a category"
        )


def rule_notes(rules: Iterable[PermissionRule]) -> list[str]:
    """Return what allow rules for commands cover, where that is less or more than they seem to say."""
    return [
        f"{rule.name}({rule.subject}) {note}"
        for rule in rules
        if rule.verdict == "allow" and rule.subject is not None and SUBJECT_KINDS.get(rule.name) == "command"
        if (note := pattern_note(rule.subject, f"--allow '{rule.name}({unlimited_pattern(rule.subject)})'"))
    ]


def judge(
    rules: Iterable[PermissionRule], names: Iterable[str], subject: Subject, category: str = ""
) -> Verdict | None:
    """Return the verdict of the applicable rule with the highest precedence; None if no rule applies."""
    names = tuple(names)
    rules = tuple(rules)
    found = {(rule.verdict, rule.applies(names, subject, category)) for rule in rules if rule.verdict != "allow"}
    if ("deny", True) in found:
        return "deny"
    if not found.isdisjoint({("deny", None), ("ask", None), ("ask", True)}):
        return "ask"
    allowing = [each for each in rules if each.verdict == "allow" and each.is_about(names[0], category)]
    patterns = [each.subject for each in allowing if each.subject is not None]
    return "allow" if len(patterns) < len(allowing) or (patterns and subject.covered_by(*patterns)) else None


def _parse_rule(verdict: Verdict, text: str) -> list[PermissionRule]:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"{text!r} is not a rule; expected a tool's name or pattern, like Write, mcp__* or Bash(git *)"
        )
    try:
        return [
            PermissionRule(verdict, name, subject)
            for name in name_patterns(found[1])
            for subject in ((None,) if found[2] is None else subject_patterns(verdict, name, found[2]))
        ]
    except ConfigError as error:
        raise ConfigError(f"the rule {text!r} could never apply: {error.message}") from error


def _expected(name: str, known: Iterable[str], prefixes: tuple[str, ...]) -> str:
    """Return the tools that a name may mean, else all of them."""
    by_case = {each.casefold(): each for each in (*known, *(f"{prefix}*" for prefix in prefixes))}
    similar = difflib.get_close_matches(name.casefold(), by_case, n=3)
    return " or ".join(by_case[each] for each in similar) or f"one of {', '.join(sorted(by_case.values()))}"


def _names_server(name: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a rule's name may match a tool of a server; without servers, of any."""
    found = _WILDCARD.search(name)
    literal = name[: found.start()] if found else name
    starts = prefixes or (_MCP_PREFIX,)
    return any(literal.startswith(each) or (found and each.startswith(literal)) for each in starts)
