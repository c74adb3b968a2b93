"""The table from which flags, variables and help are made; its JSON Schema says what the loader accepts."""

import tomllib
from typing import get_args

import jsonschema
import msgspec
import pytest

from fcshim.config import Config, config_schema, model_settings, settings
from fcshim.config.load import load_document
from fcshim.config.model_settings import Group
from fcshim.errors import ConfigError


def test_every_field_but_the_tables_is_a_setting_with_flag_variable_group_and_help():
    table = settings()

    assert set(Config.__struct_fields__) - {"models", "upstreams"} == {setting.name for setting in table}
    assert list(get_args(Group)) == list(dict.fromkeys(setting.group for setting in table))
    assert all(setting.help and setting.group for setting in table)
    assert len(table) == len({setting.flag for setting in table}) == len({setting.env for setting in table})


def test_a_setting_says_how_it_is_given():
    rows = {setting.name: setting for setting in settings()}
    port, keys, rescue, reasoning = (rows[name] for name in ("port", "api_keys", "rescue", "reasoning"))

    assert ("value", "--port", "FCSHIM_PORT", "8181") == (port.kind, port.flag, port.env, port.default)
    assert ("list", "--api-key", "FCSHIM_API_KEYS", "") == (keys.kind, keys.flag, keys.env, keys.default)
    assert ("switch", "yes") == (rescue.kind, rescue.default)
    assert ("ignore", "recover", "promote") == reasoning.choices
    assert {"upstream_key", "api_keys", "web_search_key", "store_key"} == {
        name for name, row in rows.items() if row.secret
    }


def test_every_default_passes_its_own_check():
    for field in msgspec.structs.fields(Config):
        if isinstance(field.default, bool | int | float | str):
            assert field.default == msgspec.convert(field.default, field.type)


VALUES = ['"x"', '""', "1", "-1", "3.5", "100000000", "true", "[]", '["a"]', "[1]", "{}", '"auto"', '"native"', '"é"']
CHECKED_BY_NAME = {"upstream", "store", "dialect", "profile", "prompt_style", "constrain", "open_reasoning_tag"}
"""Settings whose text the loader parses, or compares with what is installed."""


def is_valid(document):
    return jsonschema.Draft202012Validator(config_schema()).is_valid(document)


def loads(document):
    try:
        load_document(document, {})
    except ConfigError:
        return False
    return True


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(config_schema())


def check_agreement(name, table):
    """Check for each value of a setting, in a table of the file, that the schema admits what the loader accepts."""
    for text in VALUES:
        document = tomllib.loads(f"{table}{name} = {text}")

        assert loads(document) <= is_valid(document), text
        if name not in CHECKED_BY_NAME:
            assert loads(document) == is_valid(document), text


@pytest.mark.parametrize("name", [setting.name for setting in settings()])
def test_it_agrees_with_the_loader_about_every_setting(name):
    check_agreement(name, "")


@pytest.mark.parametrize("name", [*(setting.name for setting in model_settings()), "upstream_model", "upstream"])
def test_it_agrees_with_the_loader_about_the_settings_of_models(name):
    check_agreement(name, '[models."q*"]\n')


@pytest.mark.parametrize("text", ["prot = 1", "[models.a]\nport = 1", "models = 1", "[models]\na = 1"])
def test_it_refuses_an_unknown_setting(text):
    assert not is_valid(tomllib.loads(text))


def test_every_setting_has_a_description_and_its_default():
    properties = config_schema()["properties"]

    of_models = properties["models"]["additionalProperties"]["properties"]

    assert all(properties[setting.name]["description"] == setting.help for setting in settings())
    assert all(of_models[setting.name]["description"] == setting.help for setting in model_settings())
    assert (8181, "auto") == (properties["port"]["default"], properties["dialect"]["default"])
