import json

from fcshim.demo.chat_reply import DONE, ChatReplyEncoder, usage

ANSWER = ChatReplyEncoder("fcshim-tiny", id="chatcmpl-1", created=5)


def data(event: bytes) -> dict[str, object]:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    loaded: dict[str, object] = json.loads(event[6:])
    return loaded


def test_a_stream_is_what_llama_server_sends() -> None:
    head = {"created": 5, "id": "chatcmpl-1", "model": "fcshim-tiny", "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, object], reason: str | None = None) -> dict[str, object]:
        return {"choices": [{"finish_reason": reason, "index": 0, "delta": delta}], **head}

    assert data(ANSWER.encode_start()) == chunk({"role": "assistant", "content": None})
    assert data(ANSWER.encode_text("hé\n")) == chunk({"content": "hé\n"})
    assert data(ANSWER.encode_finish("length")) == chunk({}, "length")
    assert data(ANSWER.encode_usage(usage(3, 2))) == {**head, "choices": [], "usage": usage(3, 2)}
    assert DONE == b"data: [DONE]\n\n"


def test_a_whole_answer_has_message_reason_and_usage() -> None:
    assert json.loads(ANSWER.encode_complete("hi", "stop", usage(3, 2))) == {
        "created": 5,
        "id": "chatcmpl-1",
        "model": "fcshim-tiny",
        "object": "chat.completion",
        "choices": [{"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": "hi"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def test_every_answer_has_an_id_of_its_own() -> None:
    assert ChatReplyEncoder("m").id != ChatReplyEncoder("m").id
