import json
from typing import Any

import pytest

from fcshim.demo.endpoint import UNLIMITED, error_body, read_request
from fcshim.demo.generation import TokenSampling
from fcshim.errors import RequestError

HI = {"role": "user", "content": "hi"}


def body(**fields: Any) -> bytes:
    return json.dumps({"messages": [HI]} | fields).encode()


def test_messages_become_chatml() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = read_request(
        body(messages=[{"role": "system", "content": parts}, {"role": "assistant", "content": None}, HI])
    )

    assert request.prompt == (
        "<|im_start|>system\nab<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tools_and_unknown_fields_are_ignored() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]

    assert read_request(body(tools=tools, tool_choice="required", logit_bias={})) == read_request(body())


def test_the_defaults_are_greedy_unlimited_and_not_streamed() -> None:
    request = read_request(body())

    assert (request.sampling, request.max_tokens, request.stop_strings) == (
        TokenSampling(0.0, 1.0, None),
        UNLIMITED,
        (),
    )
    assert (request.stream, request.include_usage) == (False, False)


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 5),
        ({"max_tokens": -1}, UNLIMITED),
        ({"max_tokens": None}, UNLIMITED),
    ],
)
def test_the_limit_has_two_names(fields: dict[str, Any], max_tokens: int) -> None:
    assert read_request(body(**fields)).max_tokens == max_tokens


@pytest.mark.parametrize(("stop", "stops"), [("x", ("x",)), (["x", "", "yz"], ("x", "yz")), (None, ()), ("", ())])
def test_stop_is_a_string_or_a_list(stop: Any, stops: tuple[str, ...]) -> None:
    assert read_request(body(stop=stop)).stop_strings == stops


def test_sampling_and_streaming_are_read() -> None:
    request = read_request(
        body(temperature=0.5, top_p=0.9, seed=3, stream=True, stream_options={"include_usage": True})
    )

    assert (request.sampling, request.stream, request.include_usage) == (TokenSampling(0.5, 0.9, 3), True, True)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "not a chat request"),
        (b"{", "not a chat request"),
        (b"[]", "Expected `object`"),
        (b"\xff", "not a chat request"),
        (b"{}", "required field `messages`"),
        (body(messages=[]), "empty"),
        (body(messages=[{"role": "user", "content": 1}]), r"messages\[0\]\.content"),
        (body(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), "text only, not 'image_url'"),
        (body(max_tokens="many"), r"\$\.max_tokens"),
        (body(n=2), "'n' must be 1"),
    ],
)
def test_an_invalid_request_is_rejected_with_status_400(sent: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        read_request(sent)

    assert caught.value.status == 400


def test_an_error_has_the_format_of_llama_server() -> None:
    expected = {"error": {"code": 400, "message": "no", "type": "invalid_request_error", "n_ctx": 8}}

    assert error_body(400, "invalid_request_error", "no", n_ctx=8) == expected
