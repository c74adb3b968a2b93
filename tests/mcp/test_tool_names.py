"""Tool names that are unique over many servers. Requirement 19."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.mcp.tool_names import all_names, direct_name, full_name, full_rules, qualified_name

PROVIDERS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
names = st.text(min_size=1, max_size=80) | st.from_regex(r"[a-c_-]{1,5}", fullmatch=True)


def test_valid_names_are_joined():
    assert "mcp__files__read_file" == full_name("files", "read_file")
    assert "files__read_file" == direct_name("files", "read_file")
    assert "files:read_file" == qualified_name("files", "read_file")


def test_a_tools_name_may_contain_the_separator():
    assert "mcp__a__b__c" == full_name("a", "b__c")
    assert full_name("a__b", "c") != full_name("a", "b__c")


def test_invalid_names_are_replaced_and_stay_distinct():
    assert re.fullmatch(r"mcp__my_server-[0-9a-f]{6}__get_x-[0-9a-f]{6}", full_name("my server", "get.x"))
    assert full_name("my server", "t") != full_name("my.server", "t")


@given(st.lists(st.tuples(names.filter(lambda name: ":" not in name), names), min_size=1, unique=True))
def test_every_name_identifies_one_tool(offered):
    for at, form in enumerate((full_name, qualified_name, direct_name)):
        index = {all_names(*pair)[at]: pair for pair in offered}

        assert [index[form(*pair)] for pair in offered] == offered
    assert all(PROVIDERS.fullmatch(full_name(*pair)) for pair in offered)


@pytest.mark.security
@pytest.mark.parametrize(
    ("rule", "tool"),
    [
        *(("files:delete.all", "delete.all"), ("files:delete.*", "delete.all"), ("files:*.all", "delete.all")),
        *(
            ("files:do it", "do it"),
            ("files:" + "x" * 80, "x" * 80),
            ("files:delete_*", "delete_all"),
            ("files:*", "a.b"),
        ),
    ],
)
def test_a_rule_finds_a_tool_whose_name_providers_do_not_accept(rule, tool):
    assert any(fnmatch.fnmatchcase(full_name("files", tool), each) for each in full_rules([rule]))


@pytest.mark.parametrize("rule", ["Bash(rm:*)", "WebFetch(domain:a.com)", "files:write(a/*)", "Write"])
def test_what_is_not_a_servers_tool_stays(rule):
    assert [rule] == full_rules([rule])
