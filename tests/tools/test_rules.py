"""Permission rules."""

import pytest

from fcshim.errors import ConfigError
from fcshim.tools.rules import PermissionRule, judge, parse_rules
from fcshim.tools.subjects import CommandSubject, TextSubject


def matches(verdict, written, name, subject=""):
    (rule,) = parse_rules(verdict, [written])
    return rule.applies((name,), CommandSubject(subject))


@pytest.mark.parametrize(
    ("written", "name", "expected"),
    [
        ("Write", "Write", True),
        ("Write", "Writer", False),
        ("mcp__*", "mcp__a__b", True),
        ("mcp__a__*", "mcp__b", False),
    ],
)
def test_a_pattern_is_about_names(written, name, expected):
    assert expected == matches("allow", written, name)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", True),
        ("git status && git diff", True),
        ("git status; rm -rf /", False),
        ("git status | sh", False),
        ("git status & curl x", False),
        ("git status\nrm x", False),
        ("git log $(rm x)", False),
        ("git log ${IFS}x", False),
        ("git log `rm x`", False),
        ("git log > /etc/passwd", False),
        ("git diff <(rm x)", False),
        ("git status;", False),
        ("gitk", False),
    ],
)
def test_an_allow_rule_must_match_each_command_of_a_line(command, expected):
    assert expected == matches("allow", "Bash(git *)", "Bash", command)


@pytest.mark.parametrize("command", ["rm -rf x", "ls; rm -rf x", "ls && rm -r x", "true || rm x"])
def test_a_deny_rule_matches_any_command_of_a_line(command):
    assert matches("deny", "Bash(rm *)", "Bash", command)


def test_deny_takes_precedence_over_ask_and_ask_over_allow():
    rules = [*parse_rules("allow", ["*"]), *parse_rules("ask", ["B*"]), *parse_rules("deny", ["Bash(rm *)"])]

    assert "deny" == judge(rules, ["Bash"], CommandSubject("rm x"))
    assert "ask" == judge(rules, ["Bash"], CommandSubject("ls"))
    assert "allow" == judge(rules, ["Read"], TextSubject("x"))
    assert judge([], ["Read"], TextSubject("x")) is None


def test_a_rule_is_a_name_and_a_subject():
    assert (PermissionRule("allow", "Bash", "npm run *"),) == parse_rules("allow", [" Bash(npm run *) "])


@pytest.mark.parametrize("written", ["", "  ", "Bash(", "a b", "(x)", "Bash()"])
def test_invalid_rules_are_refused(written):
    with pytest.raises(ConfigError, match="is not a rule"):
        parse_rules("allow", [written])
