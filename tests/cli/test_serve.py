"""`fcshim serve`: its flags. `tests/server` tests the server."""

import argparse

import pytest

from fcshim.cli import chat, mcp, serve
from fcshim.cli.text import help_formatter
from fcshim.config import settings
from fcshim.config.values import OWN_TOOLS
from tests.cli.command import fcshim


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser(formatter_class=help_formatter)
    serve.configure_parser(parser)
    return parser


def test_every_setting_has_its_flag_and_its_variable_in_the_whole_help(parser, capsys):
    """The settings of fcshim's own tools are those of the commands that offer them."""
    with pytest.raises(SystemExit):
        parser.parse_args(["--help-all"])
    text = capsys.readouterr().out

    for setting in settings():
        assert (setting.group == OWN_TOOLS) != (f"{setting.flag} " in text or f"{setting.flag}," in text)
        assert (setting.group == OWN_TOOLS) != (setting.env in text)


@pytest.mark.parametrize("command", [chat, mcp])
def test_the_settings_of_fcshim_s_own_tools_are_in_the_help_of_the_commands_that_offer_them(command):
    made = argparse.ArgumentParser()
    command.configure_parser(made)
    text = made.format_help()

    for setting in settings():
        assert setting.group != OWN_TOOLS or (setting.flag in text and setting.env in text)


def test_flags_that_are_not_given_set_no_attribute(parser):
    assert {"url": None, "tune": False, "config": None} == vars(parser.parse_args([]))


def test_flags_have_the_names_of_the_settings(parser):
    given = ["--port", "9000", "--no-rescue", "--api-key", "a", "--api-key", "b", "--arguments", "validated"]

    assert {
        "url": None,
        "tune": False,
        "config": None,
        "port": "9000",
        "rescue": False,
        "api_keys": ["a", "b"],
        "arguments": "validated",
    } == vars(parser.parse_args(given))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--upstream", "localhost:8080"), "upstream"),
        (("--upstream", "http://127.0.0.1:1", "--port", "http"), "--port"),
        (("--dialect", "nonsense"), "unknown dialect 'nonsense'"),
        (("--config", "missing.toml"), "missing.toml"),
    ],
)
def test_a_mistake_in_the_settings_is_reported_in_one_line(arguments, message):
    outcome = fcshim("serve", *arguments)

    assert (2, "") == (outcome.code, outcome.out)
    assert message in outcome.err
    assert 1 == outcome.err.count("\n")


def test_an_invalid_choice_is_rejected():
    assert "invalid choice: 'some'" in fcshim("serve", "--arguments", "some").err


def test_the_file_can_be_named_by_an_environment_variable(tmp_path):
    path = tmp_path / "fcshim.toml"
    path.write_text("prot = 1\n", "utf-8")
    outcome = fcshim("serve", env={"FCSHIM_CONFIG": str(path)})

    assert 2 == outcome.code
    assert "did you mean 'port'?" in outcome.err


def test_watching_needs_a_file():
    outcome = fcshim("serve", "--watch", "--upstream", "http://127.0.0.1:9")

    assert 2 == outcome.code
    assert "--watch: expected a file of settings" in outcome.err
