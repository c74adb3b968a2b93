"""Which offered tool a written name means."""

import itertools
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.messages import Tool
from fcshim.parse.tool_lookup import ToolLookup

TOOLS = ("get_weather", "sendEmail", "list-files", "db.query", "search", "mcp__fs__read_file", "größe_ändern")


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("getWeather", "get_weather"),
        ("GET-WEATHER", "get_weather"),
        ("get weather", "get_weather"),
        ("Get.Weather", "get_weather"),
        ("get/weather", "get_weather"),
        ("get:weather", "get_weather"),
        ("_get__weather_", "get_weather"),
        ("get\u2011weather", "get_weather"),
        ("send_email", "sendEmail"),
        ("Send Email", "sendEmail"),
        ("list_files", "list-files"),
        ("listFiles", "list-files"),
        ("dbQuery", "db.query"),
        ("DB_QUERY", "db.query"),
        ("GRÖSSE ÄNDERN", "größe_ändern"),
        ("functions.get_weather", "get_weather"),
        ("functions.getWeather", "get_weather"),
        ("function.search", "search"),
        ("tools.search", "search"),
        ("tool/search", "search"),
        ("default_api.search", "search"),
        ("default_api:search", "search"),
        ("functions.default_api.search", "search"),
        ("weather::get_weather", "get_weather"),
        ("a::b::search", "search"),
        ("mcp__web__search", "search"),
        ("mcp__my_server__list_files", "list-files"),
        ("mcp_fs_read_file", "mcp__fs__read_file"),
        ("`search`", "search"),
        ("**search**", "search"),
        ('"search"', "search"),
        ("search()", "search"),
        (" search\n", "search"),
    ],
)
def test_a_name_means_the_tool_with_its_letters_and_digits(name, tool):
    assert tool == find(TOOLS, name)


@pytest.mark.parametrize(
    "name",
    [
        *("search ..", "search .", "search /", "search -", "search *", "search ...", "search...", "search \\n"),
        *("", " ", "...", "::", "functions.", "functions", "mcp__fs__"),
        *("get_weathers", "weather", "get_weather2", "research", "search!", "no search", "search search"),
        *("web.search", "os.search", "web_search", "web/search", "web:search", "fs.read_file", "read_file"),
        *("mcp__search", "search(q)", "search" * 100, "functions." * 5 + "search", " " * 300 + "search"),
    ],
)
def test_any_other_name_means_none(name):
    assert find(TOOLS, name) is None


@pytest.mark.parametrize(
    ("tools", "name", "tool"),
    [
        (("get_weather", "getWeather"), "get_weather", "get_weather"),
        (("get_weather", "getWeather"), "getWeather", "getWeather"),
        (("get_weather", "getWeather"), "get-weather", None),
        (("get_weather", "getWeather"), "functions.getWeather", "getWeather"),
        (("get_weather", "getWeather"), "functions.GetWeather", None),
        (("get_weather", "getWeather", "GET_WEATHER"), "get weather", None),
        (("tools_search", "search"), "tools.search", None),
        (("tools_search", "search"), "tools_search", "tools_search"),
        (("tools_search", "search"), "functions.search", "search"),
        (("mcp__a__find", "mcp__b__find"), "find", None),
        (("mcp__a__find", "mcp__b__find"), "mcp__c__find", None),
        (("mcp__a__find", "find"), "mcp__a__find", "mcp__a__find"),
        (("mcp__a__find", "find"), "mcp-a-find", "mcp__a__find"),
        (("mcp__a__find", "find"), "mcp__A__find", None),
        (("की", "का"), "के", None),
        (("---", "___"), "...", None),
    ],
)
def test_a_name_that_two_tools_could_have_means_none(tools, name, tool):
    assert tool == find(tools, name)


WORDS = st.lists(st.sampled_from(["get", "Set", "a", "B2", "tools", "mcp", "über"]), min_size=1, max_size=4)
NAMES = st.builds(
    lambda words, separators: "".join(itertools.chain(*zip(words, separators, strict=False))),
    WORDS,
    st.lists(st.sampled_from(["", "_", "-", ".", "::", "__", " ", "/"]), min_size=4, max_size=4),
)


@given(tools=st.lists(NAMES, max_size=6, unique=True), name=NAMES)
def test_whatever_is_found_is_alone_with_its_letters(tools, name):
    found = find(tools, name)
    written, letters = letters_of(name), [letters_of(tool) for tool in tools]

    assert found is None or written.endswith(letters_of(found))
    assert found == name or letters.count(written) < 2
    assert name not in tools or found == name


def find(tools: Iterable[str], name: str) -> str | None:
    return ToolLookup({tool: Tool(tool) for tool in tools}).find(name)


def letters_of(name: str) -> str:
    return re.sub("[^a-z0-9äöü]", "", name.lower())
