"""`fcshim config`."""

import json

from fcshim.config import config_schema
from tests.cli.command import fcshim


def test_check_lists_the_mistakes_and_exits_with_1(tmp_path):
    file = tmp_path / "fcshim.toml"
    file.write_text('port = 1\n"\\u001b[2J" = 2\nping = "x"\n', "utf-8")
    outcome = fcshim("config", "check", file)
    first, second = outcome.out.splitlines()

    assert (1, "") == (outcome.code, outcome.err)
    assert first.startswith(f"{file}:2: ")
    assert "\x1b" not in outcome.out
    assert f"{file}:3: ping: expected a number from 0 up to 86400, got 'x'" == second


def test_check_of_a_valid_file_exits_with_0(tmp_path):
    file = tmp_path / "fcshim.toml"
    file.write_text("port = 1\n", "utf-8")
    outcome = fcshim("config", "check", file)

    assert (0, f"{file}: valid\n", "") == (outcome.code, outcome.out, outcome.err)


def test_check_finds_settings_that_exclude_each_other(tmp_path):
    file = tmp_path / "fcshim.toml"
    file.write_text("inspect = true\nworkers = 2\n", "utf-8")
    outcome = fcshim("config", "check", file)
    file.write_text('workers = 2\n[upstreams.a]\nurl = "http://127.0.0.1"\nmax_concurrent = 1\n', "utf-8")
    divided = fcshim("config", "check", file)

    assert f"{file}: inspect shows the requests of one process: expected workers = 1 beside it, got 2\n" == outcome.out
    assert f"{file}: [upstreams.a]: max_concurrent: expected at least one for each of the 2 workers\n" == divided.out
    assert (1, 1) == (outcome.code, divided.code)


def test_a_missing_file_is_a_mistake_of_the_caller(tmp_path):
    assert 2 == fcshim("config", "check", tmp_path / "none.toml").code


def test_the_schema_is_written():
    assert config_schema() == json.loads(fcshim("config", "schema").out)
