"""Arguments in pieces, for clients that ask for them: what they add up to, and what has no form as a piece."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.gemini import GEMINI
from fcshim.codecs.gemini.decoder import PartialArg, PartialArguments
from fcshim.codecs.gemini.parts import ArgumentPieces, has_pieces
from fcshim.events import CallError, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Tool

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
TARGET = RequestTarget(path="/v1beta/models/m:streamGenerateContent", query="alt=sse", path_params={"model": "m"})
WRITE = {
    "name": "write",
    "parametersJsonSchema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "size": {"type": ["integer", "null"]}},
    },
}
LISTED = {
    "name": "listed",
    "parametersJsonSchema": {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string"}}}},
}


def assembled(pieces):
    arguments = PartialArguments(1_000_000)
    for piece in pieces:
        value = None if "nullValue" in piece else piece.get("boolValue")
        number = json.loads(bytes(piece["numberValue"])) if "numberValue" in piece else None
        arguments.add(
            PartialArg(
                json_path=piece["jsonPath"],
                string_value=piece.get("stringValue"),
                number_value=number,
                bool_value=value,
                will_continue=piece.get("willContinue", False),
            )
        )
    return arguments.value


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_ -]{1,8}", fullmatch=True), SCALARS, max_size=4), st.data())
def test_the_pieces_add_up_to_the_arguments_however_they_are_cut(arguments, data):
    for text in (json.dumps(arguments), json.dumps(arguments, indent=1, ensure_ascii=False)):
        size = data.draw(st.integers(1, 9))
        reader = ArgumentPieces()
        pieces = [piece for start in range(0, len(text), size) for piece in reader.feed(text[start : start + size])]

        assert (arguments, False) == (assembled(pieces), reader.failed)


@pytest.mark.parametrize(
    "text", ['{"a":"\\ud83d\\ude00 \\u00e9\\n"}', '{"a":"x\\\\","b":1.5e3,"c":true,"d":null,"e":""}']
)
def test_escapes_are_never_cut(text):
    reader = ArgumentPieces()

    assert json.loads(text) == assembled([piece for character in text for piece in reader.feed(character)])


@pytest.mark.parametrize("text", ['{"a":{}}', '{"a":[1]}', '{"' + "a" * 5000, '{"a":' + "1" * 5000])
def test_what_has_no_form_as_a_piece_fails(text):
    reader = ArgumentPieces()
    for start in range(0, len(text), 100):
        reader.feed(text[start : start + 100])

    assert reader.failed


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, True),
        ({"properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}}, True),
        ({"properties": {"a": {"type": "array"}}}, False),
        ({"properties": {"a": {}}}, False),
        ({"properties": {"a": {"anyOf": [{"type": "string"}]}}}, False),
        ({"properties": {"a": True}}, False),
        ({"properties": {}, "additionalProperties": True}, False),
    ],
)
def test_tools_whose_parameters_are_scalars_are_streamed(parameters, expected):
    assert expected == has_pieces(Tool("t", parameters=parameters))


def encoded(*events, asked=True):
    config = {"functionCallingConfig": {"streamFunctionCallArguments": asked}}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "tools": [{"functionDeclarations": [WRITE, LISTED]}],
        "toolConfig": config,
    }
    encoder = GEMINI.encoder(GEMINI.decode_request(json.dumps(body).encode(), TARGET), ReplyIdentity("r", 1, "m"))
    return encoder.encode(0, events) + encoder.close()


def read(data):
    chunks = [json.loads(line[6:]) for line in data.decode().split("\n") if line]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return calls, chunks[-1]["candidates"][0]["finishReason"]


def call(name, *chunks, index=0, error=None):
    return [
        ToolCallStart(f"c{index}", name, index),
        *(ToolCallChunk(f"c{index}", chunk, index) for chunk in chunks),
        ToolCallEnd(f"c{index}", name, "".join(chunks), index, (), error),
    ]


END = (Usage(1, 2), Stop("tool_use"))
WRITTEN = call("write", '{"pa', 'th": "a', 'b", "size"', ": 5}")


def test_a_client_that_asks_gets_the_arguments_while_they_come():
    calls, reason = read(encoded(Text("So."), *WRITTEN, *call("listed", '{"items":[]}', index=1), *END))

    assert "STOP" == reason
    assert [
        {"id": "c0", "name": "write", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.path", "stringValue": "a", "willContinue": True}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.path", "stringValue": "b"}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.size", "numberValue": 5}], "willContinue": True},
        {},
        {"id": "c1", "name": "listed", "args": {"items": []}},
    ] == calls


def test_other_clients_get_whole_calls():
    assert [{"id": "c0", "name": "write", "args": {"path": "ab", "size": 5}}] == read(
        encoded(*WRITTEN, *END, asked=False)
    )[0]


def test_a_call_that_fails_never_ends_and_no_call_follows():
    bad = call("write", '{"path": "a', index=1, error=CallError("malformed", "no", ""))
    calls, reason = read(encoded(*WRITTEN, *bad, *call("write", '{"path": "b"}', index=2), *END))

    assert "MALFORMED_FUNCTION_CALL" == reason
    assert [{}] == [each for each in calls if not each]
    assert ["c0", "c1"] == [each["id"] for each in calls if "id" in each]


def test_the_decoder_reads_the_pieces():
    decoder = GEMINI.decoder()
    events = [event for _, event in [*decoder.feed(encoded(*WRITTEN, *END)), *decoder.close()]]
    ends = [event for event in events if isinstance(event, ToolCallEnd)]

    assert [("c0", "write", '{"path":"ab","size":5}', None)] == [
        (end.tool_call_id, end.tool_call_name, end.tool_call_arguments_complete, end.error) for end in ends
    ]
