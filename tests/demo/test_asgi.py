import json
from collections.abc import Iterable

import pytest

from fcshim.demo.asgi import MAX_BODY_BYTES, Message, read_body, send_chunk, send_end, send_json, wait_for_disconnect
from fcshim.errors import RequestError


class FakeConnection:
    """A client's side of one request: what it sends, and what it got."""

    def __init__(self, messages: Iterable[Message] = (), *, broken: bool = False) -> None:
        self._messages = iter(messages)
        self._broken = broken
        self.got: list[Message] = []

    async def receive(self) -> Message:
        return next(self._messages)

    async def send(self, message: Message) -> None:
        if self._broken:
            raise OSError("the client has left")
        self.got.append(message)


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_parts_is_joined() -> None:
    assert await read_body(FakeConnection([part(b"a"), part(b""), part(b"bc", more=False)]).receive) == b"abc"


async def test_a_client_that_leaves_in_its_body_is_told_of() -> None:
    with pytest.raises(RequestError, match="left"):
        await read_body(FakeConnection([part(b"a"), {"type": "http.disconnect"}]).receive)


async def test_a_body_that_is_too_large_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        await read_body(FakeConnection([part(b"x" * MAX_BODY_BYTES), part(b"x")]).receive)

    assert caught.value.status == 413


async def test_waiting_for_the_end_passes_over_everything_else() -> None:
    line = FakeConnection([part(b""), {"type": "http.disconnect"}, part(b"left over")])
    await wait_for_disconnect(line.receive)

    assert (await line.receive())["body"] == b"left over"


async def test_json_is_sent_whole() -> None:
    line = FakeConnection()
    await send_json(line.send, 404, {"a": 1})

    assert line.got[0]["status"] == 404
    assert line.got[0]["headers"] == [(b"content-type", b"application/json")]
    assert json.loads(line.got[1]["body"]) == {"a": 1}


async def test_sending_to_a_client_that_left_is_no_error() -> None:
    line = FakeConnection(broken=True)
    await send_chunk(line.send, b"x")
    await send_end(line.send)

    assert line.got == []
