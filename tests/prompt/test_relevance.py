"""Relevance scores of tools."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.messages import Tool
from fcshim.prompt.relevance import K1, B, Relevance, words_of
from tests.steps import steps


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Read FILES, please.", ["read", "file", "please"]),
        ("read_file send-mail", ["read", "file", "send", "mail"]),
        ("getHTTPResponse", ["gethttpresponse", "get", "http", "response"]),
        ("GitHub", ["github", "git", "hub"]),
        ("Straße ÉCOLE größerAls", ["strasse", "école", "grösseral", "grösser", "als"]),
        ("mp3 42", ["mp3", "42"]),
        ("class news", ["class", "new"]),
        ("查询天气 weather", ["查询", "询天", "天气", "weather"]),
        ("get天気", ["get", "天気"]),
        ("天", ["天"]),
        ("ｆｕｌｌ", ["full"]),
        ("_-_ ...", []),
    ],
)
def test_names_and_sentences_are_split_into_the_same_words(text: str, words: list[str]) -> None:
    assert words == words_of(text)


def tool(name: str, description: str = "", *parameters: str) -> Tool:
    return Tool(name, description, {"properties": {parameter: {} for parameter in parameters}})


def best(tools: Sequence[Tool], asked: str) -> str:
    scores = Relevance(tools).scores(words_of(asked))
    return tools[max(range(len(tools)), key=scores.__getitem__)].name


TOOLS = (
    tool("send_email", "Send a message to somebody.", "recipient", "subject"),
    tool("getWeather", "The forecast for a place.", "city"),
    tool("search_files", "Find files by a pattern. Does not send anything.", "glob"),
    tool("queryWeatherArchive", "天气 of the past", "year"),
    Tool(
        "convert",
        "",
        {
            "properties": {
                "unit": {"enum": ["pounds", 1, None]},
                "of": {"type": "array", "items": {"properties": {"x": {"description": "A hallway."}}}},
            }
        },
    ),
)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("please send an e-mail to Bob", "send_email"),
        ("What will the weather be?", "getWeather"),
        ("which recipient?", "send_email"),
        ("150 pounds in kilograms", "convert"),
        ("for the hallway", "convert"),
        ("look for patterns", "search_files"),
        ("what can you do for a file", "search_files"),
        ("昨天的天气", "queryWeatherArchive"),
    ],
)
def test_the_relevant_tool_scores_best(asked: str, name: str) -> None:
    assert name == best(TOOLS, asked)


def test_the_score_is_bm25s() -> None:
    tools = [Tool("a", "x x y"), Tool("b", "z")]
    lengths = [3 + 3, 3 + 1]
    mean = sum(lengths) / 2
    weight = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    score = weight * 2 * (K1 + 1) / (2 + K1 * (1 - B + B * lengths[0] / mean))

    assert [pytest.approx(score), 0.0] == Relevance(tools).scores(["x", "x", "unknown"])


def test_a_word_of_a_tools_name_is_found() -> None:
    relevance = Relevance(TOOLS)

    assert relevance.matches_name(1, ["rain", "weather"])
    assert not relevance.matches_name(1, ["forecast"])


def test_without_words_or_tools_scores_are_zero() -> None:
    assert [] == Relevance([]).scores(["x"])
    assert [0.0] == Relevance([Tool("_", "", "no schema")]).scores([])


@given(st.text(max_size=40))
def test_any_text_has_words(text: str) -> None:
    assert all(words_of(text))


def test_the_largest_tools_are_read_in_bounded_time() -> None:
    schema = {"properties": {f"p{at}" * 300: {"enum": ["wordOf text " * 90] * 9, "items": {}} for at in range(20)}}
    large = [Tool(f"tool_{at}", "wordOf text " * 20_000, schema) for at in range(128)]

    assert steps(lambda: Relevance(large).scores(words_of("some text")), "line") < 4_000_000
