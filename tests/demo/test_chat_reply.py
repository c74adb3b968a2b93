import json

from fcshim.demo.endpoint import DONE, ChatReplyEncoder, usage

ENCODER = ChatReplyEncoder("fcshim-tiny", id="chatcmpl-1", created=5)


def data(event: bytes) -> dict[str, object]:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    loaded: dict[str, object] = json.loads(event[6:])
    return loaded


def test_the_chunks_have_the_fields_of_llama_server() -> None:
    head = {"created": 5, "id": "chatcmpl-1", "model": "fcshim-tiny", "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, object], reason: str | None = None) -> dict[str, object]:
        return {"choices": [{"finish_reason": reason, "index": 0, "delta": delta}], **head}

    assert data(ENCODER.encode_start()) == chunk({"role": "assistant", "content": None})
    assert data(ENCODER.encode_text("hé\n")) == chunk({"content": "hé\n"})
    assert data(ENCODER.encode_finish("length")) == chunk({}, "length")
    assert data(ENCODER.encode_usage(usage(3, 2))) == {**head, "choices": [], "usage": usage(3, 2)}
    assert DONE == b"data: [DONE]\n\n"


def test_a_complete_reply_has_message_reason_and_usage() -> None:
    assert json.loads(ENCODER.encode_complete("hi", "stop", usage(3, 2))) == {
        "created": 5,
        "id": "chatcmpl-1",
        "model": "fcshim-tiny",
        "object": "chat.completion",
        "choices": [{"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": "hi"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def test_every_reply_has_a_unique_id() -> None:
    assert ChatReplyEncoder("m").id != ChatReplyEncoder("m").id
