"""The settings file: it parses to the same values, whatever text of a server it contains."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.config import load_config
from fcshim.errors import ConfigError
from fcshim.evaluate.recommendations import Recommendation
from fcshim.evaluate.settings_file import render_settings, save_settings

ANY = st.text(st.characters(exclude_categories=["Cs"]))


@given(table=ANY, value=ANY, reason=ANY, about=ANY, switch=st.booleans())
def test_any_value_and_any_comment_round_trip(table, value, reason, about, switch):
    general = Recommendation(setting="upstream", value=value, reason=reason)
    own = Recommendation(setting="rescue", value=switch, reason=reason, of_model=True)

    expected = {"upstream": value, "models": {table: {"rescue": switch}}}

    assert expected == tomllib.loads(render_settings([general, own], table, about))


def test_the_file_can_be_loaded_as_configuration(tmp_path):
    choices = [
        Recommendation(setting="upstream", value="http://127.0.0.1:8080", reason="it is there"),
        Recommendation(setting="constrain", value="llama-server", reason="a\nb"),
        Recommendation(setting="profile", value="no-system+text-only", reason="", of_model=True),
        Recommendation(setting="open_reasoning_tag", value="<think>", reason="", of_model=True),
    ]
    file = tmp_path / "found.toml"
    save_settings(render_settings(choices, 'a"b\\c', "about"), file)
    config = load_config(file=file)

    assert ("http://127.0.0.1:8080", "llama-server") == (config.upstream, config.constrain)
    assert ("no-system+text-only", "<think>") == (
        config.for_model('a"b\\c').profile,
        config.for_model('a"b\\c').open_reasoning_tag,
    )


def test_a_file_is_replaced_only_on_request(tmp_path):
    file = tmp_path / "found.toml"
    save_settings("a = 1", file)

    with pytest.raises(ConfigError, match="--force"):
        save_settings("a = 2", file)
    assert "a = 1" == file.read_text()

    save_settings("a = 3", file, replace=True)
    assert "a = 3" == file.read_text()
    with pytest.raises(ConfigError, match="cannot write"):
        save_settings("a = 1", tmp_path / "missing" / "found.toml")
