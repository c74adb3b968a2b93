"""Several upstreams in the settings file: what their sections may say, and what one of them sees of the settings."""

import pytest

from fcshim.config import Secret, load_config, scoped_config
from fcshim.errors import ConfigError

FILE = """
chunk_timeout = 50
[upstreams.local]
url = "http://127.0.0.1:8080"
first_chunk_timeout = 900
max_concurrent = 2
[upstreams.claude]
url = "https://api.anthropic.com"
api = "anthropic"
key = "env:CLAUDE_KEY"
tools = "native"
headers = {x-team = "blue", x-secret = "env:TEAM"}
[models."claude-*"]
upstream = "claude"
[models.fast]
upstream = ["local", "claude"]
upstream_model = "qwen3"
dialect = "hermes"
[models."f*"]
upstream = "claude"
"""
ENV = {"CLAUDE_KEY": "sk-claude-0123", "TEAM": "red"}


def load(tmp_path, text=FILE, env=ENV, **flags):
    file = tmp_path / "fcshim.toml"
    file.write_text(text)
    return load_config(flags, env=env, file=file)


def test_sections_hold_everything_that_is_of_one_upstream(tmp_path):
    config = load(tmp_path)
    claude = config.upstreams["claude"]

    assert ["local", "claude"] == list(config.upstreams)
    assert ("anthropic", Secret("sk-claude-0123"), "native") == (claude.api, claude.key, claude.tools)
    assert {"x-team": Secret("blue"), "x-secret": Secret("red")} == claude.headers
    assert "sk-claude" not in repr(config)


def test_an_upstream_sees_the_general_settings_and_its_own(tmp_path):
    config = load(tmp_path)
    local, claude = scoped_config(config, "local"), scoped_config(config, "claude")

    assert ("http://127.0.0.1:8080", "openai", None) == (local.upstream, local.upstream_api, local.upstream_key)
    assert (900, 50) == (local.first_chunk_timeout, local.chunk_timeout)
    assert ("native", "auto") == (claude.for_model("x").tools, local.for_model("x").tools)
    assert ("qwen3", "hermes") == (local.for_model("fast").upstream_model, local.for_model("fast").dialect)
    assert "qwen" == local.for_model("local/qwen").upstream_model
    assert None is local.for_model("other/qwen").upstream_model
    assert ("qwen3", "hermes") == (local.for_model("local/fast").upstream_model, local.for_model("local/fast").dialect)


def test_the_own_row_of_a_model_comes_before_patterns(tmp_path):
    config = load(tmp_path)

    assert ("local", "claude") == config.upstreams_of("fast")
    assert ("claude",) == config.upstreams_of("foo")
    assert () == config.upstreams_of("other")


def test_a_row_without_an_upstream_leaves_the_choice_to_the_next(tmp_path):
    config = load(
        tmp_path, '[upstreams.a]\nurl = "http://h"\n[models.m]\ndialect = "hermes"\n[models."*"]\nupstream = "a"'
    )

    assert ("a",) == config.upstreams_of("m")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[upstreams]", "expected sections such as"),
        ("[upstreams.a]", "missing required field `url`"),
        ("upstreams = 3", "expected sections such as"),
        ("[upstreams]\na = 3", "expected a table"),
        ('[upstreams."a/b"]\nurl = "http://h"', "expected a name of letters"),
        ('[upstreams.a]\nurl = "ftp://h"', "expected a URL such as"),
        ('[upstreams.a]\nurl = "http://h"\nkeys = "x"', "unknown field `keys`"),
        ('[upstreams.a]\nurl = "http://h"\nkey = "env:NOT_SET"', "environment variable 'NOT_SET' to be set"),
        ('[upstreams.a]\nurl = "http://h"\ntools = "magic"', "one of prompt, native, auto"),
        ('[upstreams.a]\nurl = "http://h"\nconstrain = "magic"', "magic"),
        ('[upstreams.a]\nurl = "http://h"\nmax_concurrent = -1', ">= 0"),
        ('[upstreams.a]\nurl = "http://h"\nheaders = {"Content-Length" = "1"}', "cannot be set"),
        ('[upstreams.a]\nurl = "http://h"\nheaders = {"x" = "a\\nb"}', "printable ASCII"),
        ('[upstreams.a]\nurl = "http://h"\n[models.m]\nupstream = "b"', "no section [upstreams.b]. Known are: a"),
        ('[models.m]\nupstream = "b"', "Known are: none"),
        ('upstream = "http://x"\n[upstreams.a]\nurl = "http://h"', "expected it in the sections"),
        ('upstream_api = "gemini"\n[upstreams.a]\nurl = "http://h"', "expected it in the sections"),
    ],
)
def test_a_wrong_section_says_what_was_expected(tmp_path, text, problem):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert problem in caught.value.message


def test_an_upstream_on_the_command_line_takes_the_place_of_the_sections(tmp_path):
    config = load(tmp_path, upstream="http://127.0.0.1:9999")

    assert ({}, "http://127.0.0.1:9999") == (config.upstreams, config.upstream)


def test_a_wrong_key_is_not_shown(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, '[upstreams.a]\nurl = "http://h"\nkey = "sk-secret-ü"')

    assert "sk-secret" not in caught.value.message
