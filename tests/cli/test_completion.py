"""`fcshim completion`: the script is run by the shell that it is for."""

import shutil
import subprocess

import pytest

from fcshim.cli.entry import COMMANDS
from tests.cli.command import fcshim

COMPLETE = """
COMP_WORDS=({words} "{current}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
_fcshim; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
needs = lambda shell: pytest.mark.skipif(shutil.which(shell) is None, reason=f"no {shell} here")  # noqa: E731


@pytest.fixture(scope="module")
def script():
    return fcshim("completion", "bash").out


def completions(script, *words):
    *before, current = words
    program = script + COMPLETE.format(words=" ".join(("fcshim", *before)), current=current)
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=20, check=False)

    assert "" == done.stderr
    return done.stdout.split()


@needs("bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("",), [*COMMANDS, "--help", "--version"]),
        (("s",), ["serve"]),
        (("serve", "--upstream-a"), ["--upstream-api"]),
        (("serve", "--port", "1", "--resc"), ["--rescue"]),
        (("serve", "--tools", ""), ["prompt", "native", "auto"]),
        (("serve", "--tools", "na"), ["native"]),
        (("config", ""), ["-h", "--help", "check", "schema"]),
        (("tools", "convert", "--to", "g"), ["gemini"]),
        (("completion", "z"), ["zsh"]),
        (("nonsense", "--"), []),
        (("serve", "--config", "x/"), []),
    ],
)
def test_bash_completes_commands_options_and_choices(words, expected, script):
    assert sorted(expected) == sorted(completions(script, *words))


@pytest.mark.parametrize("shell", [pytest.param(each, marks=needs(each)) for each in ("zsh", "fish")])
def test_other_shells_accept_the_script(shell, tmp_path):
    file = tmp_path / "script"
    file.write_text(fcshim("completion", shell).out, "utf-8")
    done = subprocess.run([shell, "-n", str(file)], capture_output=True, timeout=20, check=False)

    assert (0, b"") == (done.returncode, done.stderr)


def test_fish_gets_every_command_with_its_summary_and_every_choice():
    out = fcshim("completion", "fish").out

    assert all(f"-a {name} -d " in out for name in COMMANDS)
    assert "-n '__fish_seen_subcommand_from serve' -l tools -x -a 'prompt native auto'" in out


def test_an_unknown_shell_is_refused():
    assert "invalid choice: 'csh'" in fcshim("completion", "csh").err
