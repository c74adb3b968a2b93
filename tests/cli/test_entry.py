"""The entry point: help, suggestions for unknown names, and the exit code of each kind of error."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fcshim.cli.entry import COMMANDS, exit_code_of, main
from fcshim.config import settings
from fcshim.config.values import OWN_TOOLS
from fcshim.errors import ConfigError, RequestError, UpstreamError
from fcshim.pipeline.backends import BACKENDS
from tests.cli.command import fcshim


def failing(error):
    def work():
        raise error

    return work


def test_help_names_every_command():
    outcome = fcshim("--help")

    assert 0 == outcome.code
    for name, summary in COMMANDS.items():
        assert name in outcome.out
        assert summary in outcome.out


def test_version_is_that_of_the_installed_package():
    assert f"fcshim {version('fcshim')}\n" == fcshim("--version").out


def test_without_a_command_the_help_is_shown_and_the_exit_code_is_2():
    outcome = fcshim()

    assert 2 == outcome.code
    assert "" == outcome.out
    assert "start here:" in outcome.err


@pytest.mark.parametrize("arguments", [("pars",), ("--nothing",), ("parse", "--nothing")])
def test_unknown_arguments_are_reported_in_one_line(arguments):
    outcome = fcshim(*arguments)

    assert 2 == outcome.code
    assert 1 == outcome.err.count("\n")
    assert "--help)" in outcome.err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_examples(name):
    outcome = fcshim(name, "--help")

    assert 0 == outcome.code
    assert f"usage: fcshim {name}" in outcome.out
    assert f"fcshim {name}" in outcome.out.partition("examples:")[2]


@pytest.mark.parametrize("name", ["serve", "models", "doctor", "eval"])
def test_a_command_with_an_endpoint_has_the_settings_of_upstreams(name):
    shown = fcshim(name, "--help").out

    assert all(flag in shown for flag in ("--upstream-api", "--upstream-key"))


def test_the_help_of_serve_is_short_and_help_all_has_every_setting():
    short, whole = (fcshim("serve", option).out for option in ("--help", "--help-all"))
    own = [setting for setting in settings() if setting.group != OWN_TOOLS]

    assert all(setting.flag in whole for setting in own)
    assert [setting.flag for setting in own if setting.common] == [
        each.flag for each in own if f"  {each.flag}" in short
    ]
    assert "usage: fcshim serve [options] [URL]\n" in short


def test_the_help_has_the_width_of_the_terminal():
    shown = fcshim("serve", "--help-all", env={**os.environ, "COLUMNS": "60"}).out

    lines = shown.partition("options:")[2].partition("examples:")[0].splitlines()

    assert all(len(line) <= 60 for line in lines if " " in line.strip() and not line.startswith("  -"))


def test_the_help_does_not_break_names_at_hyphens():
    shown = fcshim("serve", "--help-all").out

    assert all(name in shown for name in BACKENDS)


def test_options_cannot_be_abbreviated():
    assert 2 == fcshim("parse", "--dial", "function_call").code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("the dialect is unknown"), 2),
        (RequestError("the tool has no name"), 2),
        (UpstreamError("the upstream is gone"), 1),
        (OSError("no space left"), 1),
    ],
)
def test_an_error_becomes_one_line_on_stderr_and_an_exit_code(error, code, capsys):
    assert code == exit_code_of(failing(error))
    assert f"fcshim: {error}\n" == capsys.readouterr().err


def test_an_error_of_the_operating_system_names_the_file(capsys):
    assert 1 == exit_code_of(lambda: len(Path("/nowhere/run.jsonl").read_bytes()))
    assert "fcshim: /nowhere/run.jsonl: No such file or directory\n" == capsys.readouterr().err


def test_an_interrupt_has_its_own_exit_code():
    assert 130 == exit_code_of(failing(KeyboardInterrupt()))


def test_an_undocumented_error_is_not_caught():
    with pytest.raises(ZeroDivisionError):
        exit_code_of(failing(ZeroDivisionError()))


def test_the_arguments_of_the_process_are_the_default(monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "argv", ["fcshim", "dialects"])

    assert 0 == main()
    assert capsysbinary.readouterr().out.startswith(b"function_call\n")


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("serve", "--prot", "1"), "--port"),
        (("eval", "--dialects=hermes"), "--dialect"),
        (("pars",), "parse"),
    ],
)
def test_an_unknown_name_is_reported_with_the_most_similar_known_one(arguments, nearest):
    assert f"did you mean {nearest}?" in fcshim(*arguments).err


def test_a_name_without_a_similar_one_gets_no_suggestion():
    assert "did you mean" not in fcshim("serve", "--zzzzz").err


def test_a_missing_argument_is_reported_in_one_line_that_names_the_help():
    outcome = fcshim("completion")

    expected = "fcshim completion: the following arguments are required: SHELL (see fcshim completion --help)\n"
    assert (2, "", expected) == (outcome.code, outcome.out, outcome.err)


@pytest.mark.parametrize("name", ["fcshim.cli", "fcshim.cli.chat"])
def test_ctrl_c_ends_a_command_without_a_traceback_even_while_it_is_imported(name):
    program = f"""
import builtins, importlib, os, signal, sys
load = builtins.__import__
def interrupted(module, *rest):
    if module == {name!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return load(module, *rest)
from fcshim.__main__ import main
builtins.__import__ = interrupted
find = importlib.import_module
importlib.import_module = lambda module: interrupted(module) and find(module)
sys.argv = ["fcshim", "chat", "--demo"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (130, "") == (done.returncode, done.stderr)
