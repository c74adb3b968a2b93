"""The table from which flags, variables and help are made."""

from typing import get_args

import msgspec

from fcshim.config import Config, settings
from fcshim.config.model_settings import Group


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
