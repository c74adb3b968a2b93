"""The sources of settings, their precedence, the errors; finding all mistakes in a file."""

import asyncio
import os
from pathlib import Path

import pytest

from fcshim.config import Config, ModelConfig, check_file, load_config
from fcshim.errors import ConfigError


def written(folder: Path, text: str) -> Path:
    file = folder / "fcshim.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_any_source_every_setting_has_its_default():
    assert load_config() == Config()


def test_the_file_wins_over_defaults_the_environment_over_the_file_and_flags_over_all(tmp_path):
    file = written(tmp_path, 'port = 1\nhost = "::1"\nlog_level = "error"\nping = 1')
    config = load_config({"port": "3"}, env={"FCSHIM_PORT": "2", "FCSHIM_HOST": "localhost"}, file=file)

    assert (3, "localhost", "error", 1.0) == (config.port, config.host, config.log_level, config.ping)


@pytest.mark.security
async def test_a_file_that_became_a_fifo_is_an_error_and_stops_nothing(tmp_path):
    file = tmp_path / "fcshim.toml"
    os.mkfifo(file)
    kept_open = os.open(file, os.O_RDWR)  # otherwise a reader that waits could not be ended
    try:
        with pytest.raises(ConfigError, match=r"cannot read .*: expected a regular file"):
            await asyncio.wait_for(asyncio.to_thread(load_config, file=file), 20)
    finally:
        os.close(kept_open)


def test_lists_come_separated_by_commas_repeated_or_as_arrays(tmp_path):
    file = written(tmp_path, 'allowed_hosts = ["a", "b"]')

    assert ("a", "b") == load_config(file=file).allowed_hosts
    assert ("a", "b") == load_config(env={"FCSHIM_ALLOWED_HOSTS": "a, b"}).allowed_hosts
    assert ("a", "b") == load_config({"allowed_hosts": ["a", "b"]}).allowed_hosts


def test_the_servers_of_tools_that_run_here_come_from_every_source(tmp_path):
    file = written(tmp_path, 'mcp = "a.json"\nallow = ["f:*"]\nmax_rounds = 3')

    config = load_config(file=file)

    assert ("a.json", ("f:*",), 3) == (config.mcp, config.allow, config.max_rounds)

    config = load_config({"allow": ["*"]}, env={"FCSHIM_MCP": "b.json", "FCSHIM_ALLOW": "f:*, g:h"}, file=file)

    assert ("b.json", ("*",)) == (config.mcp, config.allow)


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("on", True), ("false", False), ("0", False)])
def test_a_switch_accepts_the_usual_words(text, value):
    assert value == load_config(env={"FCSHIM_RESCUE": text}).rescue


def test_an_empty_variable_counts_as_unset():
    assert Config().port == load_config(env={"FCSHIM_PORT": ""}).port


def test_the_variable_that_names_the_file_is_not_a_setting():
    assert load_config(env={"FCSHIM_CONFIG": "x.toml", "HOME": "/"}) == Config()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"prt": "1"}, "flags: there is no setting 'prt', did you mean 'port'?"),
        ({"memory_lifetime": "1d"}, "--memory-lifetime: expected a whole number above 0 up to 315360000, got '1d'"),
        ({"port": "x"}, "--port: expected a whole number from 0 up to 65535, got 'x'"),
        ({"port": "70000"}, "--port: expected a whole number from 0 up to 65535, got '70000'"),
        ({"ping": "-1"}, "--ping: expected a number from 0 up to 86400, got '-1'"),
        ({"reasoning": "maybe"}, "--reasoning: expected one of ignore, recover, promote, got 'maybe'"),
        ({"rescue": "maybe"}, "--rescue: expected true or false, got 'maybe'"),
        ({"upstream": "8080"}, "upstream: expected a URL such as http://127.0.0.1:8080, got '8080'"),
        ({"upstream": "http://h:x"}, "upstream: expected a URL such as http://127.0.0.1:8080, got 'http://h:x'"),
        ({"dialect": "functioncall"}, "unknown dialect 'functioncall', did you mean 'function_call'?"),
        ({"open_reasoning_tag": "<thinks>"}, "unknown reasoning tag '<thinks>': expected one of <think>, <thinking>"),
        ({"profile": "no-sytem"}, "unknown profile 'no-sytem', did you mean 'no-system'?"),
    ],
)
def test_an_error_names_the_setting_with_a_wrong_value(flags, message):
    with pytest.raises(ConfigError) as caught:
        load_config(flags)

    assert caught.value.message.startswith(message)


def test_an_unknown_variable_is_a_warning_with_the_nearest_known_one(caplog):
    assert 2 == load_config(env={"FCSHIM_PROT": "1", "FCSHIM_PORT": "2", "FCSHIM_MCP_KEY": "x"}).port

    (record,) = caplog.records

    assert "WARNING" == record.levelname
    assert "environment: there is no setting 'FCSHIM_PROT', did you mean 'FCSHIM_PORT'?" == record.getMessage()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = '1'", "port: expected a whole number from 0 up to 65535, got '1'"),
        ("prot = 1", "there is no setting 'prot', did you mean 'port'?"),
        ("port = ", "is not TOML"),
        ("models = 1", "models: expected tables"),
        ("[models.a]\ndialekt = 'x'", "[models.\"a\"]: there is no setting 'dialekt', did you mean 'dialect'?"),
        ("[models.a]\nrescue = 'x'", "[models.\"a\"]: rescue: expected true or false, got 'x'"),
        ("[models.a]\nmax_retries = 9", '[models."a"]: max_retries: expected a whole number from 0 up to 5, got 9'),
        ("[models.a]\nupstream_model = 1", '[models."a"]: Expected `str | null`, got `int` - at `$.upstream_model`'),
        ("[models.a]\ndialect = 'x'", "[models.\"a\"]: unknown dialect 'x'"),
        ("[models]\na = 1", '[models."a"]: expected a table, got 1'),
    ],
)
def test_an_error_names_the_wrong_line_of_the_file(tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        load_config(file=written(tmp_path, text))

    assert message in caught.value.message


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere.toml: No such file"):
        load_config(file=tmp_path / "nowhere.toml")


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(file=tmp_path / "x")


@pytest.mark.parametrize("key", [" ", "clé", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError) as caught:
        load_config({"upstream_key": key})

    assert "printable ASCII" in caught.value.message
    assert repr(key)[1:-1] not in caught.value.message.replace("expected a key", "") or key == " "


def test_a_key_in_the_upstream_url_is_refused_and_not_shown():
    with pytest.raises(ConfigError) as caught:
        load_config({"upstream": "http://user:canary@host"})

    assert "canary" not in caught.value.message


def test_secrets_do_not_show_in_the_configuration():
    config = load_config({"upstream_key": "canary", "api_keys": ["canary2"]})

    assert "canary" not in f"{config!r} {config} {config.upstream_key} {config.api_keys!r:s}"
    assert ("canary", "canary2") == (config.upstream_key.reveal(), config.api_keys[0].reveal())


def test_an_exact_model_name_wins_over_patterns_and_the_first_pattern_over_later_ones(tmp_path):
    rows = '[models."q*"]\nrescue = false\n[models."qw*"]\nreasoning = "promote"\n[models.qwen]\nprofile = "free"'
    config = load_config({"reasoning": "recover"}, file=written(tmp_path, rows))

    def row(profile="auto", *, rescue=True):
        return ModelConfig(dialect="auto", profile=profile, rescue=rescue, reasoning="recover", arguments="stream")

    assert [row("free"), row(rescue=False), row()] == [config.for_model(name) for name in ("qwen", "qwen2", "llama")]


def test_limits_of_the_prompt_may_be_set_for_one_model(tmp_path):
    config = load_config({"max_tools": 8}, file=written(tmp_path, "[models.small]\nmax_tools = 2\nprompt_budget = 900"))
    rows = [config.for_model(name) for name in ("small", "large")]

    assert [(2, 900, 65_536), (8, 0, 65_536)] == [(row.max_tools, row.prompt_budget, row.max_result) for row in rows]


def test_a_model_may_have_another_name_upstream(tmp_path):
    config = load_config(file=written(tmp_path, '[models.gpt-4]\nupstream_model = "qwen3"'))

    assert ["qwen3", None] == [config.for_model(name).upstream_model for name in ("gpt-4", "qwen3")]


def mistakes(folder, text):
    """Return each mistake without the name of its file."""
    file = folder / "fcshim.toml"
    file.write_text(text, encoding="utf-8")
    return [line.removeprefix(f"{file}:") for line in check_file(file, {"LOCAL_KEY": "k"})]


def test_a_valid_file_has_none(tmp_path):
    text = 'port = 1\nupstream = "http://h"\n[models."q*"]\ntools = "native"\n[models.b]\nupstream_model = "q"\n'

    assert [] == mistakes(tmp_path, text)


SECTIONS = '[upstreams.local]\nurl = "http://h"\nkey = "env:LOCAL_KEY"\n\n[upstreams.spare]\nurl = "http://i"\n'


def test_several_upstreams_are_valid(tmp_path):
    text = SECTIONS + '[models."q*"]\nupstream = ["local", "spare"]\n[models.fast]\nupstream = "spare"\n'

    assert [] == mistakes(tmp_path, text)


def test_mistakes_in_sections_of_upstreams_have_their_lines(tmp_path):
    found = mistakes(tmp_path, SECTIONS.replace("LOCAL_KEY", "OTHER") + '[models.fast]\nupstream = "none"\n')

    assert [
        "1: [upstreams.local]: key: expected the environment variable 'OTHER' to be set",
        '8: [models."fast"]: upstream: there is no section [upstreams.none]. Known are: local, spare',
    ] == found


def test_an_upstream_beside_sections_is_a_mistake_of_the_file(tmp_path):
    (found,) = mistakes(tmp_path, 'upstream = "http://h"\n' + SECTIONS)

    assert "expected it in the sections [upstreams.NAME]" in found


def test_every_mistake_has_its_line_and_its_field(tmp_path):
    found = mistakes(
        tmp_path,
        'prot = 1\n\n# port = 0\nport = "x"\nallowed_hosts = [\n  "a",\n  3,\n]\nupstream_key = ""\ndialect = "nope"\n'
        'upstream = "127.0.0.1"\nping = -1\n'
        '[models."q*"]\nmax_retries = 9\n\nfoo = 1\nopen_reasoning_tag = "x"\nupstream_model = ""\n',
    )
    expected = [
        "1: prot: there is no setting 'prot', did you mean 'port'?",
        "4: port: expected a whole number from 0 up to 65535, got 'x'",
        "5: allowed_hosts: expected a list of strings, got ['a', 3]",
        "9: upstream_key: expected a key",
        "10: dialect: unknown dialect 'nope'",
        "11: upstream: expected a URL such as",
        "12: ping: expected a number from 0 up to 86400, got -1",
        """14: [models."q*"]: max_retries: expected a whole number from 0 up to 5, got 9""",
        """16: [models."q*"]: foo: there is no setting 'foo'""",
        """17: [models."q*"]: open_reasoning_tag: unknown reasoning tag 'x'""",
        """18: [models."q*"]: upstream_model: """,
    ]

    assert len(expected) == len(found)
    for wanted, line in zip(expected, found, strict=True):
        assert line.startswith(wanted)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('open_reasoning_tag = """\nport = 1\n"""\nport = "x"\n', 4),
        ("models.a.max_retries = 1\nmodels.a.max_tools = -1\n", 2),
        ("[models]\na = {max_retries = 9}\n", 2),
        ('[models."[b]"]\n"max_retries" = 9 # = 1', 2),
        ("models = 3", 1),
        ("[models]\n\na = 3", 3),
        ("port\\\n = 3", None),
    ],
)
def test_lines_are_those_of_the_statement_however_it_is_written(text, line, tmp_path):
    found = mistakes(tmp_path, text)

    if line is None:
        assert "is not TOML" in found[0]
        assert "at line 1" in found[0]
    else:
        assert f"{line}:" == found[-1].partition(" ")[0]


def test_secrets_are_not_shown(tmp_path):
    assert "hunter2" not in "".join(mistakes(tmp_path, 'api_keys = ["hunter2\\u00e9"]\nupstream_key = ["hunter2"]\n'))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        check_file(tmp_path / "missing.toml", {})


@pytest.mark.security
@pytest.mark.parametrize("number", ["9" * 5_000, "0x" + "f" * 50_000, str(2**64), "[1, {a = 0x" + "f" * 50_000 + "}]"])
def test_a_number_beyond_64_bits_is_a_mistake(tmp_path, number):
    (found,) = check_file(written(tmp_path, f"max_retries = {number}\n"), {})

    assert "is not TOML: " in found


@pytest.mark.security
def test_a_file_without_end_is_an_error():
    with pytest.raises(ConfigError) as caught:
        check_file(Path("/dev/zero"), {})

    assert "expected at most 1048576 bytes" in caught.value.message


@pytest.mark.security
def test_of_very_many_mistakes_the_first_hundred_are_listed(tmp_path):
    file = written(tmp_path, "".join(f"a{number:05} = 1\n" for number in range(5_000)))

    assert 100 == len(check_file(file, {}))
