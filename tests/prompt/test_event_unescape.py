"""Unescaping of the events of a reply."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fcshim.events import (
    CallError,
    Coercion,
    Error,
    Event,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.prompt.escape import BUNDLED
from fcshim.prompt.event_unescape import EventUnescaper


def unescaped(*events: Event) -> list[Event]:
    unescaper = EventUnescaper(BUNDLED)
    return [made for event in events for made in unescaper.apply([event])]


def test_text_is_unescaped_across_events() -> None:
    assert [Text("see <"), Text("think>"), Stop("complete")] == unescaped(
        Text("see <_th"), Text("ink"), Text(">"), Stop("complete")
    )


def test_held_back_text_comes_before_other_events() -> None:
    assert [Text("a<"), Text("_"), Reasoning("hm")] == unescaped(Text("a<_"), Reasoning("hm"))
    assert [Text("<"), Text("_"), ToolCallStart("1", "f", 0)] == unescaped(Text("<_"), ToolCallStart("1", "f", 0))
    assert [Text("<"), Text("_"), Error("k", "m")] == unescaped(Text("<_"), Error("k", "m"))
    assert [Text("<"), Text("_"), Usage(), Stop("complete")] == unescaped(Text("<_"), Usage(), Stop("complete"))


def test_reasoning_is_unescaped_unless_it_is_signed() -> None:
    signed = Reasoning("<_think>", signature="sig")

    assert [Reasoning("<"), Reasoning("think>"), signed] == unescaped(Reasoning("<_thi"), Reasoning("nk>"), signed)


def test_reasoning_and_text_are_unescaped_separately() -> None:
    assert [Reasoning("<"), Text("_think>")] == unescaped(Reasoning("<"), Text("_think>"))


def test_all_fields_of_a_call_are_unescaped() -> None:
    end = ToolCallEnd(
        "1",
        "f<_s>",
        '{"<_s>": "<_s>"}',
        0,
        [Coercion("/<_s>", {"a": ["<_s>"]}, "<_s>")],
        CallError("invalid", "not <_s>", "<_s>"),
    )

    assert [
        ToolCallStart("1", "f<s>", 0),
        ToolCallEnd(
            "1",
            "f<s>",
            '{"<s>": "<s>"}',
            0,
            [Coercion("/<s>", {"a": ["<s>"]}, "<s>")],
            CallError("invalid", "not <s>", "<s>"),
        ),
    ] == unescaped(ToolCallStart("1", "f<_s>", 0), end)


WRITTEN = st.lists(
    st.sampled_from(["<function_call>", "<s>", "\\u003cthink>", "[INST]", "<", "[", "_", "a", "\n"])
).map(lambda pieces: json.dumps({"text": "".join(pieces)}))


@given(WRITTEN, st.data())
def test_the_chunks_of_an_unescaped_call_join_to_its_arguments(arguments: str, data: st.DataObject) -> None:
    written = BUNDLED.escape(arguments)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(written) - 1))))
    chunks = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    events = unescaped(*(ToolCallChunk("1", chunk, 0) for chunk in chunks), ToolCallEnd("1", "f", written, 0))

    assert arguments == "".join(event.tool_call_arguments_chunk for event in events if isinstance(event, ToolCallChunk))
    assert ToolCallEnd("1", "f", arguments, 0) == events[-1]
