"""Permission rules for shell commands: everyday lines run unasked, attacks never (data in `shell_rules/`)."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from fcshim.events import ToolCallEnd
from fcshim.tools import Executor, Permissions, parse_rules
from fcshim.tools.builtin import Shell, Workspace
from fcshim.tools.command_subject import CommandSubject, unlimited_pattern
from fcshim.tools.commands import usage
from fcshim.tools.commands.harmless import GENERAL
from fcshim.tools.commands.harmless_development import DEVELOPMENT
from fcshim.tools.rules import judge, rule_notes

pytestmark = pytest.mark.security

LINES = Path(__file__).parent / "shell_rules"


def load(name):
    return tomllib.loads((LINES / f"{name}.toml").read_text())


EVERYDAY = load("everyday")
ATTACKS = [attack for listed in load("allow_attacks").values() for attack in listed]
EVASIONS = load("deny_evasions")["lines"]


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path)
    return tmp_path


def write_files(folder):
    texts = {"l": "x\n", "names": "l\n", "data.json": "{}\n", "evil.sh": "touch pwned\n", "evil.sed": "1etouch pwned\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)


async def run(folder, mode, command, **rules):
    given = [rule for verdict, texts in rules.items() for rule in parse_rules(verdict, texts)]
    executor = Executor(Shell(Workspace(folder)).tools(), permissions=Permissions(mode, rules=given))
    return (await executor.call(ToolCallEnd("1", "Bash", json.dumps({"command": command}), 0))).flat_text


def verdict(command, **rules):
    given = [rule for kind, texts in rules.items() for rule in parse_rules(kind, texts)]
    return judge(given, ["Bash"], CommandSubject(command))


@pytest.mark.parametrize("command", EVERYDAY["lines"] + EVERYDAY["further"])
def test_an_everyday_line_is_not_asked_about(command):
    assert "allow" == verdict(command, allow=EVERYDAY["allow"])


@pytest.mark.parametrize("command", EVERYDAY["asked"])
def test_an_everyday_line_with_effects_is_asked_about(command):
    assert verdict(command, allow=EVERYDAY["allow"]) is None


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack['rule']} {attack['command']}")
async def test_an_allow_rule_does_not_run_an_attack(folder, attack):
    text = await run(folder, "ask", attack["command"], allow=[attack["rule"], "Bash(echo *)", "Bash(printf *)"])

    assert "no user to ask" in text
    assert not (folder / "pwned").exists()


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("command", EVASIONS)
async def test_a_deny_rule_is_not_evaded(folder, command):
    text = await run(folder, "allow", command, deny=["Bash(touch *)"])

    assert "was not executed" in text
    assert not (folder / "pwned").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    "commands", [EVASIONS, [attack["command"] for attack in ATTACKS if attack.get("runs", True)]], ids=["deny", "allow"]
)
def test_most_attacks_do_work_in_bash(tmp_path, commands):
    """Otherwise the lists would prove nothing. Some machines lack some programs."""
    worked = 0
    for number, command in enumerate(commands):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_files(folder)
        given = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 20}
        subprocess.run(["bash", "-c", command], cwd=folder, check=False, **given)
        worked += (folder / "pwned").exists()

    assert worked >= 0.85 * len(commands)


@pytest.mark.parametrize(
    "command",
    [
        'for f in *.py; do wc -l "$f"; done',
        "i=0; while ((i < 3)); do echo $((i + 1)); i=$((i + 1)); done",
        "for i in 1 2 3; do echo ${a[$i]}; done",
        "for ((i = 0; i < 3; i++)); do echo $i; done",
        'name="a b"; echo "${name%% *} ${#name} ${name:0:1} ${name/a/b}"',
        'files=(a b); echo "${files[@]}" ${#files[@]} "${files[0]}" "${!files[@]}"',
        '[ $# -gt 1 ] && [ -n "$x" ] && [ "$x" = y ] || [[ -f l && $x == a* ]]',
        'if test -f l; then read -r line < l; printf "%s\\n" "$line"; fi',
        "export NAME=value; unset NAME; local_copy=$NAME",
        "git -c core.pager=cat log; git push origin main; docker run --rm image ls",
        "find . -name '*.py' | xargs grep -n x | sort -u",
        'git commit -m "$message"',
    ],
)
def test_ordinary_scripts_pass_a_deny_rule(command):
    pytest.importorskip("tree_sitter_bash")

    assert verdict(command, deny=["Bash(touch *)"]) is None


@pytest.mark.parametrize(
    "command",
    [
        "timeout 60 git status",
        "timeout -k 5 -s KILL 60 git diff --stat",
        "nice -n 5 git log",
        "nohup git status",
        "time -p git status",
        "stdbuf -oL git log --oneline",
        "env CI=1 git status",
        "NO_COLOR=1 git status",
        "command git status",
        "timeout 5 nice env -u X git status",
        "git status 2>&1 >/dev/null",
    ],
)
def test_a_harmless_wrapper_is_covered_with_its_command(command):
    assert verdict(command, allow=["Bash(git *)"]) == "allow"


@pytest.mark.parametrize(
    ("rule", "covered", "asked"),
    [
        ("sudo git *", "sudo git status", "sudo git push"),
        ("timeout 5 git *", "timeout 5 git log", "timeout 5 git gc"),
        ("env A=1 git *", "env A=1 git status", "env B=1 git status"),
        ("A=1 git *", "A=1 git status", "A=2 git status"),
        ("xargs grep *", "xargs grep -l x", "xargs sed p"),
        ("xargs -a names wc *", "xargs -a names wc -l", "xargs -a names git"),
        ("python -m pytest *", "python -m pytest -q", "python -m evil"),
        ("uv run pytest *", "uv run pytest -q tests", "uv run evil"),
        ("git -c core.pager=cat *", "git -c core.pager=cat log", "git -c core.pager=sh log"),
        ("cargo test *", "cargo test x -- --nocapture", "cargo test -- --logfile x"),
    ],
)
def test_a_rule_for_a_wrapper_is_judged_by_its_command(rule, covered, asked):
    assert verdict(covered, allow=[f"Bash({rule})"]) == "allow"
    assert verdict(asked, allow=[f"Bash({rule})"]) is None


def test_a_rule_for_a_command_does_not_cover_other_rights():
    assert verdict("sudo git status", allow=["Bash(git *)"]) is None
    assert verdict("git status; sudo git status", allow=["Bash(git *)", "Bash(sudo git *)"]) == "allow"


@pytest.mark.parametrize("rule", ["Bash(git **)", "Bash(git:**)"])
def test_two_stars_allow_all_that_a_program_can_do_and_nothing_else(rule):
    allowed = ["git push", "git -c alias.x='!touch x' x", "timeout 5 git gc", "git status && git clean -fdx"]
    asked = ["git status; rm x", "git log > x", "git log $(rm x)", "sudo git gc", "gitk", "X=1 git gc"]

    assert ["allow"] * len(allowed) == [verdict(each, allow=[rule]) for each in allowed]
    assert [None] * len(asked) == [verdict(each, allow=[rule]) for each in asked]


@pytest.mark.parametrize("command", ["git status", "git", "git diff --stat", "git gc", "git -c a=b x", "git x; ls"])
def test_a_colon_means_a_blank(command):
    assert verdict(command, allow=["Bash(git:*)"]) == verdict(command, allow=["Bash(git *)"])


def test_a_rule_without_a_wildcard_allows_that_very_line():
    assert verdict("make -f other.mk test", allow=["Bash(make -f other.mk test)"]) == "allow"
    assert verdict("make -f other.mk test2", allow=["Bash(make -f other.mk test)"]) is None


def test_several_rules_cover_a_line_together():
    assert verdict("ls | sort | uniq", allow=["Bash(ls *)", "Bash(sort *)"]) is None
    assert verdict("ls | sort | uniq", allow=["Bash(ls *)", "Bash(sort *)", "Bash(uniq *)"]) == "allow"
    assert verdict("ls | sort", allow=["Bash(ls *)", "Bash(sort *)"], deny=["Bash(sort *)"]) == "deny"


def test_a_chain_of_wrappers_is_bounded():
    assert verdict("nice " * 3_000 + "git status", allow=["Bash(git *)"]) is None


def test_the_start_says_what_rules_cover():
    rules = ["Bash(git *)", "Bash(git log:*)", "Bash(tar *)", "Bash(ls *)", "Bash(make **)", "Bash(npm test)", "Write"]

    narrow = "covers its harmless uses, and asks about every other line;"
    unknown = narrow.replace("its harmless uses", "nothing, as its options are not known")
    expected = [
        f"Bash(git *) {narrow} --allow 'Bash(git **)' allows all that git can do.",
        f"Bash(git log *) {narrow} --allow 'Bash(git log **)' allows all that git log can do.",
        f"Bash(tar *) {unknown} --allow 'Bash(tar **)' allows all that tar can do.",
        "Bash(make **) allows all that make can do, such as running other programs and writing files.",
    ]

    assert expected == rule_notes(parse_rules("allow", rules))
    assert [] == rule_notes(parse_rules("deny", ["Bash(git *)"]))


@pytest.mark.parametrize(
    ("pattern", "restoring"),
    [
        ("git *", "git **"),
        ("git log*", "git log **"),
        ("cat src/*", "cat **"),
        ("git * main", "git **"),
        ("ls*", "ls **"),
        ("*", "**"),
    ],
)
def test_a_note_names_the_rule_without_limits(pattern, restoring):
    assert restoring == unlimited_pattern(pattern)


@pytest.mark.parametrize("rule", ["Bash(find . -name '**/x' *)", "Bash(cat src/**)", "Bash(g**)"])
def test_two_stars_inside_a_word_are_a_wildcard(rule):
    lines = ["find . -name '**/x' -delete", "cat src/../x", "git -c a=b x"]

    assert [None] * len(lines) == [verdict(each, allow=[rule]) for each in lines]


def test_the_line_that_a_note_names_restores_the_rule():
    (rule,) = parse_rules("allow", ["Bash(tar *)"])
    (note,) = rule_notes([rule])
    restoring = note.split("'")[1]

    assert verdict("tar -xzf a.tgz", allow=["Bash(tar *)"]) is None
    assert verdict("tar -xzf a.tgz", allow=[restoring]) == "allow"


def rows(table):
    for row in table.values():
        yield row
        yield from rows(row.subcommands)


def test_every_row_is_well_formed():
    listed = [*rows(GENERAL), *rows(DEVELOPMENT)]
    options = [option for row in listed for option in row.options.split()]

    assert {row.operands for row in listed} <= set(usage.OPERANDS)
    assert all(option == "*" or option.startswith("-") for option in options)
    assert sum(len(names.split()) for names in (*GENERAL, *DEVELOPMENT)) >= 40
