import json
from collections.abc import Iterable

import pytest

from fcshim.demo.asgi import MAX_BODY_BYTES, Message, read_body, send_chunk, send_end, send_json, wait_for_disconnect
from fcshim.errors import RequestError


class FakeConnection:
    """The client's side of one request: the messages that it sends, and those that it received."""

    def __init__(self, messages: Iterable[Message] = (), *, broken: bool = False) -> None:
        self._messages = iter(messages)
        self._broken = broken
        self.received: list[Message] = []

    async def receive(self) -> Message:
        return next(self._messages)

    async def send(self, message: Message) -> None:
        if self._broken:
            raise OSError("the client has left")
        self.received.append(message)


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_the_parts_of_a_body_are_joined() -> None:
    assert await read_body(FakeConnection([part(b"a"), part(b""), part(b"bc", more=False)]).receive) == b"abc"


async def test_a_disconnect_within_the_body_is_an_error() -> None:
    with pytest.raises(RequestError, match="left"):
        await read_body(FakeConnection([part(b"a"), {"type": "http.disconnect"}]).receive)


async def test_a_too_large_body_is_rejected() -> None:
    with pytest.raises(RequestError) as caught:
        await read_body(FakeConnection([part(b"x" * MAX_BODY_BYTES), part(b"x")]).receive)

    assert caught.value.status == 413


async def test_waiting_for_the_disconnect_skips_other_messages() -> None:
    connection = FakeConnection([part(b""), {"type": "http.disconnect"}, part(b"left over")])
    await wait_for_disconnect(connection.receive)

    assert (await connection.receive())["body"] == b"left over"


async def test_json_is_sent_with_status_and_content_type() -> None:
    connection = FakeConnection()
    await send_json(connection.send, 404, {"a": 1})

    assert connection.received[0]["status"] == 404
    assert connection.received[0]["headers"] == [(b"content-type", b"application/json")]
    assert json.loads(connection.received[1]["body"]) == {"a": 1}


async def test_sending_to_a_disconnected_client_is_no_error() -> None:
    connection = FakeConnection(broken=True)
    await send_chunk(connection.send, b"x")
    await send_end(connection.send)

    assert connection.received == []
