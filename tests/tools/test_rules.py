"""Permission rules."""

import fnmatch
import re
from pathlib import Path

import pytest

from fcshim.agent import Sessions, SubAgents
from fcshim.chat.demo import demo_tool
from fcshim.errors import ConfigError
from fcshim.tools import FunctionTool, Permissions, Registry, Traits
from fcshim.tools.base import is_named, tool_category
from fcshim.tools.builtin import Control, Files, Search, SearchService, Shell, Skills, Web, Workspace
from fcshim.tools.command_subject import CommandSubject
from fcshim.tools.rule_patterns import SUBJECT_KINDS
from fcshim.tools.rules import PermissionRule, check_rules, judge, parse_rules
from fcshim.tools.subjects import PathSubject, TextSubject, UrlSubject


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


def verdict_of(verdict, written, name, subject):
    return judge(parse_rules(verdict, [written]), [name], subject)


@pytest.mark.security
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        *(("{a,b}/*", path) for path in ("a/k", "b/k")),
        *(("{a,b}", path) for path in ("a/k", "b/k")),
        ("{a,b}/*", "{a,b}/k"),
        ("**/{id_rsa,*.{pem,key}}", "deep/er/x.pem"),
        ("{a,b", "{a,b"),
        *((pattern, "a/k") for pattern in (" a/* ", "./", ".", "/", "//", "a//k", "*//k", "*/./k", "a/", "a/.")),
        *(("app/[id]/*", path) for path in ("app/[id]/page", "app/i/page")),
        ("app/[id]", "app/[id]/page"),
        *((pattern, "~/.ssh/id") for pattern in ("~", "~/.ssh", "~/.ssh/*", "~/{.ssh,.aws}/**")),
        ("//etc/passwd", "/etc/passwd"),
    ],
)
def test_usual_spellings_of_a_path_are_read(tmp_path, pattern, path):
    assert "deny" == verdict_of("deny", f"Read({pattern})", "Read", PathSubject(path, tmp_path.resolve()))


@pytest.mark.security
@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        *(
            (pattern, "rm -rf x")
            for pattern in ("rm:*", "rm -rf:*", " rm  * ", "{rm,mv} *", "rm", "/bin/rm *", "rm -rf")
        ),
        *(("git push:*", command) for command in ("git push", "git push --force", "git -C x push")),
        ("npm run test:*", "npm run test:unit"),
        *(("curl * | sh", command) for command in ("curl x | sh", "curl x|sh", "curl x | tee y | sh", "sh; curl x")),
        *(('psql -c "DROP *"', f"psql -c {quoted}") for quoted in ('"DROP TABLE x"', "'DROP TABLE x'")),
        ("rm *", "RM x"),
        ("echo {a,b}", "echo {a,b}"),
    ],
)
def test_usual_spellings_of_a_command_are_read(pattern, command):
    pytest.importorskip("tree_sitter_bash")

    assert "deny" == verdict_of("deny", f"Bash({pattern})", "Bash", CommandSubject(command))


@pytest.mark.security
@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        *(
            (pattern, "https://evil.com/x")
            for pattern in ("domain:evil.com", "evil.com", "evil.com/*", "https://evil.com")
        ),
        *(("https://evil.com/a", f"https://evil.com/a{rest}") for rest in ("", "/b", "?b", "#b")),
        *(
            (pattern, "https://a.evil.com/x")
            for pattern in ("domain:*.evil.com", "*.evil.com", "https://{a,b}.evil.com/*")
        ),
        *(
            ("https://evil.com/*", url)
            for url in ("https://evil.com:8443/x", "https://evil.com", "https://u@evil.com/")
        ),
        *((pattern, "https://evil.com/x") for pattern in ("https://evil.com:443/*", "https://me@EVIL.com/*")),
        *(("https://bücher.de/*", url) for url in ("https://xn--bcher-kva.de/x", "https://BÜCHER.de/x")),
        *(("https://evil.com/ü*", url) for url in ("https://evil.com/ü", "https://evil.com/%C3%BC")),
        ("http://[::1]/*", "http://[::1]:80/x"),
    ],
)
def test_usual_spellings_of_a_url_are_read(pattern, url):
    assert "deny" == verdict_of("deny", f"WebFetch({pattern})", "WebFetch", UrlSubject(url))


@pytest.mark.security
@pytest.mark.parametrize(
    ("verdict", "rule"),
    [
        *(
            ("deny", f"Read({each})")
            for each in ("'a/*'", '"a"', "!a/*", "a\\*", "C:\\a\\*", "*/../a", "a/*, b/*", " ")
        ),
        *(("deny", f"Read({each})") for each in ("$HOME/a", "${HOME}/a", "%USERPROFILE%/a", "file:///a", "{a,b}" * 7)),
        *(("deny", f"Bash({each})") for each in ("'rm *'", "rm *, mv *", "rm *|mv *", "rm|mv")),
        *(("allow", f"Bash({each})") for each in ("git status; git diff", "git log | head", "a && b")),
        *(("allow", f"WebFetch({each})") for each in ("*good.org*", "good.org", "good.org/*", "https://good.org*")),
        *(("deny", f"WebFetch({each})") for each in ("domain:", "domain:https://a.com", "domain:a.com/x", "//a.com")),
        ("deny", "Bash(:*)"),
        *(("deny", each) for each in ("mcp__files__write(a/*)", "mcp__*(a)", "Notify(x)", "list_skills(x)", "*(a/*)")),
    ],
)
def test_a_rule_that_could_never_apply_is_refused(verdict, rule):
    with pytest.raises(ConfigError, match="could never apply: expected"):
        parse_rules(verdict, [rule])


@pytest.mark.security
@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        ("Bash(git diff:*)", CommandSubject("git diff HEAD")),
        ("Bash({npm,yarn} test)", CommandSubject("yarn test")),
        ("Bash(jq '{a,b}' *)", CommandSubject("jq '{a,b}' f")),
        ("WebFetch(domain:good.org)", UrlSubject("https://good.org/x")),
        *((f"WebFetch({each})", UrlSubject("https://good.org/x")) for each in ("*", "https://*", "https://*/*")),
        *(("ReadMcpResource(docs://*)", UrlSubject(f"docs://a{rest}")) for rest in ("", "/b", "/b/c")),
        ("Write({src,lib}/**)", PathSubject("src/a/b", Path("/work"))),
        ("Write(src/)", PathSubject("src/a", Path("/work"))),
        ("Write(*.md)", PathSubject("src/a.md", Path("/work"))),
        ("Write(/tmp/x/*)", PathSubject("/tmp/x/a", Path("/work"))),
    ],
)
def test_usual_spellings_of_allow_rules_are_read(pattern, subject):
    assert "allow" == verdict_of("allow", pattern, pattern.partition("(")[0], subject)


@pytest.mark.security
@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        ("Bash(jq '{a,b}' *)", CommandSubject("jq a f")),
        ("Bash(git diff:*)", CommandSubject("git difftool x")),
        ("Bash(git diff:*)", CommandSubject("git diff x; rm y")),
        ("Write(*.md)", PathSubject("/etc/a.md", Path("/work"))),
        ("Write(*)", PathSubject("../a.md", Path("/work"))),
        ("Write(src)", PathSubject("src/../a", Path("/work"))),
        ("WebFetch(domain:good.org)", UrlSubject("https://good.org.evil.com/x")),
        ("WebFetch(domain:good.org)", UrlSubject("https://evil.com/?https://good.org/x")),
        ("WebFetch(https://good.org/*)", UrlSubject("https://good.org:8443/x")),
    ],
)
def test_an_allow_rule_covers_no_more_than_it_says(pattern, subject):
    assert verdict_of("allow", pattern, pattern.partition("(")[0], subject) is None


@pytest.mark.security
@pytest.mark.parametrize("name", ["mcp__files", "mcp__files__", "mcp__files__*", "mcp__{files,docs}", "mcp__f*"])
def test_the_name_of_a_server_stands_for_its_tools(name):
    assert "deny" == judge(parse_rules("deny", [name]), ["mcp__files__write"], TextSubject(""))
    assert judge(parse_rules("deny", [name]), ["mcp__git__write"], TextSubject("")) is None


def own_tool(text: str) -> str:
    """Do something."""
    return text


@pytest.mark.security
@pytest.mark.parametrize(
    "rule",
    [
        *("read", "read(a/*)", "Wirte", "Write,Edit", "Write|Edit", "files", "MCP__files__*", "mcp_files_x"),
        *("mcp__flies__x", "own_tool(x)", "owntool"),
    ],
)
def test_a_rule_that_names_no_tool_is_refused(rule):
    with pytest.raises(ConfigError, match="expected"):
        check_rules(parse_rules("deny", [rule]), [FunctionTool(own_tool)], ["mcp__files__"])


@pytest.mark.parametrize(
    "rule", ["*", "Read", "W*", "mcp__*", "mcp__files__write", "mcp__f*__x", "own_tool", "Bash(rm *)"]
)
def test_a_rule_that_names_a_tool_is_accepted(rule):
    check_rules(parse_rules("deny", [rule]), [FunctionTool(own_tool)], ["mcp__files__"])


def test_the_kinds_of_subjects_are_those_of_the_tools(tmp_path):
    workspace = Workspace(tmp_path)
    tools = [*Files(workspace).tools(), *Search(workspace).tools(), *Shell(workspace).tools()]
    tools += Web(service=SearchService("searxng", url="http://a")).tools()
    tools += Skills(tmp_path, index="https://skills.example/", load=own_tool).tools()
    tools += [*Control(commands=tmp_path).tools(), *Sessions(own_tool).tools(), demo_tool()]
    tools += SubAgents(own_tool, Registry(), permissions=own_tool, mode=own_tool).tools()
    kinds = {tool.definition.name: tool.traits.subject_kind if tool.traits.subject else None for tool in tools}

    assert {**kinds, "ListMcpResources": None, "ReadMcpResource": "url"} == SUBJECT_KINDS


def test_without_servers_a_rule_for_any_is_accepted():
    check_rules(parse_rules("deny", ["mcp__files__write", "mcp__*"]), [])


@pytest.mark.parametrize(
    ("rule", "meant"),
    [
        *(("Wirte", "Write"), ("read(a/*)", "Read"), ("mcp__flies__*", "mcp__files__*"), ("owntool", "own_tool")),
        ("zzzz", "one of Bash, "),
    ],
)
def test_the_error_says_which_tool_may_be_meant(rule, meant):
    with pytest.raises(ConfigError) as raised:
        check_rules(parse_rules("deny", [rule]), [FunctionTool(own_tool)], ["mcp__files__"])

    assert f"expected {meant}" in raised.value.message


def print_nothing():
    """Do nothing."""


CATEGORIES = [
    (FunctionTool(print_nothing, name="Fetch", traits=Traits(source="builtin:web")), "web"),
    (FunctionTool(print_nothing, name="mcp__f__x", traits=Traits(source="mcp:f")), "mcp"),
    (FunctionTool(print_nothing, name="mcp__g__x", traits=Traits(source="mcp:g", category="media")), "media"),
    (FunctionTool(print_nothing, name="mine", traits=Traits(source="custom:a")), "custom"),
    (FunctionTool(print_nothing, name="own"), ""),
]


@pytest.mark.parametrize(("tool", "category"), CATEGORIES)
def test_a_tool_has_a_category(tool, category):
    """Requirement 33."""
    assert category == tool_category(tool)
    assert is_named(tool, f"@{category}") == is_named(tool, "@*") or not category
    assert not is_named(tool, "@other")


@pytest.mark.parametrize("rule", ["@web", "@m*", "@media", "@custom", "@*"])
async def test_a_rule_about_a_category_decides_about_its_tools(rule):
    """Requirement 33."""
    tools = [tool for tool, category in CATEGORIES if category]
    about = [tool for tool, category in CATEGORIES if category and fnmatch.fnmatchcase(category, rule[1:])]
    allowing, denying = (Permissions(rules=parse_rules(verdict, [rule])) for verdict in ("allow", "deny"))
    restricted = Permissions("allow", restrictions=(parse_rules("allow", [rule]),))
    ran = [tool for tool in tools if await allowing.refusal_reason(tool, {}) is None]
    refused = [tool for tool in tools if "forbids" in str(denying.forbidden_reason(tool))]

    assert about == ran == refused
    assert about == [tool for tool in tools if allowing.may_run_unasked(tool)]
    assert about == [tool for tool in tools if restricted.offers(tool)]
    assert about == [tool for tool in tools if await restricted.refusal_reason(tool, {}) is None]
    assert about == Registry(tools).create_filtered([rule]).get_all()
    check_rules(parse_rules("deny", [rule]), tools)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("@wbe", "names no category; expected one of @agents, @control, @custom, @files"),
        ("@", "names no category"),
        ("@web(https://a.com)", "has a pattern; expected none"),
    ],
)
def test_a_rule_about_a_category_that_could_not_apply_is_refused(rule, fault):
    with pytest.raises(ConfigError, match=re.escape(fault)):
        check_rules(parse_rules("deny", [rule]), [tool for tool, _ in CATEGORIES])


def test_a_file_is_not_read_where_its_category_is_denied(tmp_path):
    assert Permissions(rules=parse_rules("deny", ["@files"])).forbids_reading(tmp_path / "a", tmp_path)
    assert not Permissions(rules=parse_rules("deny", ["@web"])).forbids_reading(tmp_path / "a", tmp_path)
