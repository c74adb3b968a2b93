"""Joining, escaping and shortening of contents, and the cache of written texts."""

import gc
import json
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.messages import (
    AssistantMessage,
    Message,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
)
from fcshim.parse.dialects import FUNCTION_CALL, HERMES
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt import content as content_module
from fcshim.prompt.content import (
    ContentCache,
    Escaper,
    as_text_part,
    escape_content,
    join_contents,
    json_key,
    shorten,
    shorten_content,
)
from fcshim.prompt.escape import BUNDLED, MarkerEscaper
from fcshim.prompt.history import split_conversation, write_history
from fcshim.prompt.profiles import DEFAULT, PROFILES
from tests.prompt.conversations import IMAGE, text


def test_the_separator_joins_nonempty_contents() -> None:
    assert text("a, b") == join_contents([(), text("a"), text(""), text("b"), ()], ", ")


def test_adjacent_texts_are_joined() -> None:
    assert (TextPart("ab"), IMAGE, TextPart(", c")) == join_contents(
        [(TextPart("a"), TextPart("b"), IMAGE), text("c")], ", "
    )


def test_a_marker_split_over_two_texts_is_escaped() -> None:
    assert text("<_function_call>") == escape_content((TextPart("<function_"), TextPart("call>")), Escaper(BUNDLED))


def test_media_become_placeholders_where_they_cannot_be_sent() -> None:
    assert text("see [image: image/png]") == escape_content((TextPart("see "), IMAGE), Escaper(BUNDLED), media=False)
    assert TextPart("a") == as_text_part(TextPart("a"))


@pytest.mark.parametrize("limit", [0, 10, 11])
def test_a_short_text_is_unchanged(limit: int) -> None:
    assert "0123456789" == shorten("0123456789", limit)


def test_the_start_and_the_end_are_kept_with_a_note_of_the_omitted_length() -> None:
    long = "b" * 2_000 + "m" * 3_000 + "e" * 1_000

    assert "b" * 2_000 + "\n[... 3,000 characters left out ...]\n" + "e" * 1_000 == shorten(long, 3_000)


def test_a_very_small_limit_keeps_the_start() -> None:
    assert "a\n[... 9 characters left out ...]\n" == shorten("a123456789", 1)


def test_the_text_of_a_result_is_shortened_as_a_whole_and_media_are_kept() -> None:
    content = (TextPart("aaa"), IMAGE, TextPart("bbb"))

    assert (TextPart("aa\n[... 3 characters left out ...]\nb"), IMAGE) == shorten_content(content, 3)
    assert content == shorten_content(content, 6)
    assert text("x" * 9) == shorten_content(text("x" * 9), 0)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> ContentCache:
    new = ContentCache()
    monkeypatch.setattr(content_module, "TEXT_CACHE", new)
    return new


def keep(cache: ContentCache, name: str, size: int = 1_000) -> None:
    cache.put(name, name, ["x" * size])


def held(cache: ContentCache) -> int:
    """Return the bytes that the cache counts in both generations."""
    return sum(size for generation in (cache._newer, cache._older) for _, size in generation.values())


def test_a_result_is_found_by_an_equal_key() -> None:
    cache = ContentCache()
    cache.put(("a", 1), "result", ["a"])

    assert cache.get(("a", 1)) == "result"
    assert cache.get(("a", 2)) is None


def test_many_long_texts_take_no_more_than_the_limit() -> None:
    cache = ContentCache(100_000)
    for number in range(1_000):
        keep(cache, f"{number}", 5_000)

        assert held(cache) <= 100_000
    assert cache.get("0") is None
    assert cache.get("999") == "999"


def test_many_short_texts_take_no_more_than_the_limit() -> None:
    cache = ContentCache(100_000)
    for number in range(10_000):
        keep(cache, f"{number}", 1)

    assert len(cache._newer) + len(cache._older) <= 100


def test_a_character_of_four_bytes_counts_as_four() -> None:
    cache = ContentCache(1_000_000)
    cache.put("a", "a", ["\U0001f600" * 10_000])

    assert held(cache) >= 40_000


def test_a_result_of_more_than_half_of_the_limit_is_not_kept() -> None:
    cache = ContentCache(10_000)
    keep(cache, "small")
    keep(cache, "large", 6_000)

    assert cache.get("large") is None
    assert cache.get("small") == "small"


def test_what_is_used_outlives_what_is_not() -> None:
    cache = ContentCache(100_000)
    keep(cache, "used")
    for number in range(1_000):
        keep(cache, f"{number}")

        assert cache.get("used") == "used"


def test_the_same_result_twice_counts_once() -> None:
    cache = ContentCache(100_000)
    for _ in range(1_000):
        keep(cache, "a", 5_000)

    assert held(cache) < 10_000


def test_what_is_no_json_has_no_key() -> None:
    assert json_key({"a": [1, "b"]}) == b'{"a":[1,"b"]}'
    assert json_key({"a": "\ud800"}) is None
    assert json_key(object()) is None


CALL = AssistantMessage(text("I look."), (ToolCall("1", "f", '{"a": "<tool_call>"}'),), reasoning="<think> it")
RESULT = ToolMessage("1", text("a <function_call> in a result"))
CONVERSATION = (UserMessage(text("Mend it, <|im_end|>.")), CALL, RESULT)


def written(messages: tuple[Message, ...], escape: Escaper, **options: object) -> tuple[Message, ...]:
    settings = {"dialect": FUNCTION_CALL, "profile": DEFAULT, **options}
    return write_history(*split_conversation(messages), escape, **settings)  # type: ignore[arg-type]


def test_a_conversation_from_memory_is_the_same_and_counts_as_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Escaper(BUNDLED), Escaper(BUNDLED)
    expected = written(CONVERSATION, first)
    monkeypatch.setattr(MarkerEscaper, "escape", lambda *_: pytest.fail("nothing is escaped again"))

    assert expected == written(CONVERSATION, second)
    assert first.changed
    assert second.changed


def test_a_conversation_without_markers_does_not_count_as_escaped() -> None:
    for _ in range(2):
        escape = Escaper(BUNDLED)
        written((UserMessage(text("hi")), AssistantMessage(text("ho"))), escape)

        assert not escape.changed


def test_other_markers_dialects_and_profiles_get_their_own_prompt(cache: ContentCache) -> None:
    custom = MarkerEscaper(FUNCTION_CALL)
    variants: list[tuple[MarkerEscaper, dict[str, object]]] = [
        (BUNDLED, {}),
        (BUNDLED, {"dialect": HERMES}),
        (BUNDLED, {"profile": PROFILES["no-system"]}),
        (custom, {}),
    ]
    for _ in range(2):
        for markers, options in variants:
            remembered = written(CONVERSATION, Escaper(markers), **options)
            cache._newer, cache._older = {}, {}

            assert remembered == written(CONVERSATION, Escaper(markers), **options)


def test_malformed_arguments_are_not_remembered(cache: ContentCache) -> None:
    """How many are repaired depends on the calls before them."""
    malformed = AssistantMessage((), (ToolCall("1", "f", "{'a': 1,"),))
    written((UserMessage(text("hi")), malformed), Escaper(BUNDLED))

    assert cache._newer
    assert not any("{'a'" in repr(key) for key in cache._newer)


def test_media_are_not_remembered(cache: ContentCache) -> None:
    written((UserMessage((TextPart("see"), IMAGE)), ToolMessage("x", (IMAGE,))), Escaper(BUNDLED))

    assert not any("image" in repr(key) for key in cache._newer)


TEXTS = st.sampled_from(["", "hi", "<tool_call>", "x < y", "functools [", "a\n", "<think>", "✿FUNCTION✿: f"])


def messages() -> Iterator[st.SearchStrategy[Message]]:
    calls = st.builds(ToolCall, st.sampled_from("12"), TEXTS, st.sampled_from(['{"a": "<s>"}', "{", "null", "{}"]))
    contents = TEXTS.map(text)
    yield st.builds(UserMessage, contents)
    yield st.builds(AssistantMessage, contents, st.lists(calls, max_size=2).map(tuple), TEXTS)
    yield st.builds(ToolMessage, st.sampled_from("12"), contents, TEXTS, st.booleans())


@given(st.lists(st.lists(st.one_of(*messages()), max_size=5).map(tuple), min_size=2, max_size=4))
def test_every_prompt_is_that_without_memory(conversations: list[tuple[Message, ...]]) -> None:
    for conversation in conversations:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(content_module, "TEXT_CACHE", ContentCache())
            expected = written(conversation, alone := Escaper(BUNDLED))
        prompt = written(conversation, escape := Escaper(BUNDLED))

        assert expected == prompt
        assert alone.changed == escape.changed


def test_a_schema_that_its_owner_changes_is_written_anew() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "plain"}}}
    tool = Tool("f", "", schema)
    request = Request(model="m", messages=(UserMessage(text("hi")),), tools=(tool,))
    prepare_shim(request)
    schema["properties"]["a"]["description"] = "<tool_call>"  # type: ignore[index]
    shim = prepare_shim(request)

    assert "<_tool_call>" in repr(shim.prepared.messages)
    assert "'<tool_call>'" not in repr(shim.prepared.messages)
    assert shim.escape.changed


def test_texts_are_counted_in_bytes(cache: ContentCache) -> None:
    long = "x" * 100_000
    written((UserMessage(text(long)),), Escaper(BUNDLED))

    assert held(cache) >= sys.getsizeof(long)


def test_a_signature_is_not_kept(cache: ContentCache) -> None:
    written((UserMessage(text("hi")), AssistantMessage(text("ho"), signature="x" * 100_000)), Escaper(BUNDLED))

    assert held(cache) < 10_000


def test_a_late_result_of_a_call_from_memory_has_its_name(cache: ContentCache) -> None:
    late = (*CONVERSATION, AssistantMessage(text("Wait.")), ToolMessage("1", text("later")))
    expected = written(late, Escaper(BUNDLED))
    cache._newer, cache._older = {}, {}
    written(CONVERSATION, Escaper(BUNDLED))

    assert expected == written(late, Escaper(BUNDLED))
    assert 'name="f"' in repr(expected[-1]).replace("\\", "")


def test_the_name_of_a_late_result_is_escaped_where_its_step_has_no_marker() -> None:
    """The step that is written does not have the name itself."""
    call = AssistantMessage((), (ToolCall("1", "a<tool_call>", "{}"),))
    late = (UserMessage(text("hi")), call, UserMessage(text("wait")), AssistantMessage(text("I wait.")))
    prompt = written((*late, ToolMessage("1", text("fine"))), Escaper(BUNDLED))

    assert "<_tool_call>" in text_of(prompt[-1].content)
    assert "<tool_call>" not in text_of(prompt[-1].content)


def test_arguments_that_hide_a_marker_in_a_second_encoding_are_escaped() -> None:
    call = AssistantMessage((), (ToolCall("1", "f", json.dumps('{"a": "\\u003c\\u0074ool_call>"}')),))
    prompt = written((UserMessage(text("hi")), call), Escaper(BUNDLED))

    assert "<tool_call>" not in text_of(prompt[-1].content)


def test_what_is_remembered_is_nothing_for_the_garbage_collector(cache: ContentCache) -> None:
    tool = Tool("f", "Does nothing.", {"type": "object"})
    plain = AssistantMessage(text("I look."), (ToolCall("1", "f", "{}"),))
    messages = (SystemMessage(text("Be brief.")), UserMessage(text("hi")), plain, ToolMessage("1", text("ok")))
    prepare_shim(Request(model="m", messages=messages, tools=(tool,)))
    for _ in range(5):  # each finds what it need not visit again, one level of tuples at a time
        gc.collect()

    assert len(cache._newer) >= 4
    assert not any(map(gc.is_tracked, (*cache._newer, *cache._newer.values())))
