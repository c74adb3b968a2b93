"""Asks the model a short question of our own, beside the requests of clients."""

from collections.abc import Callable, Mapping

from fcshim.events import JSON, Reasoning, Text
from fcshim.messages import Request, SystemMessage, TextPart, UserMessage
from fcshim.pipeline.exchange import Exchange
from fcshim.upstream.endpoint import Upstream


async def ask(
    upstream: Upstream,
    model: str,
    instructions: str,
    question: str,
    *,
    max_tokens: int,
    extra: Mapping[str, JSON] | None = None,
    kinds: tuple[type[Text] | type[Reasoning], ...] = (Text,),
    is_enough: Callable[[str], bool] = lambda _: False,
) -> str:
    """Return the text of the reply at temperature 0, or its beginning as soon as that `is_enough`.

    `extra`: further fields of the request. `kinds`: the events whose text counts. Raises `FcshimError`.
    """
    request = Request(
        model=model,
        messages=(SystemMessage((TextPart(instructions),)), UserMessage((TextPart(question),))),
        max_tokens=max_tokens,
        temperature=0.0,
        stream=True,
        extra=dict(extra or {}),
    )
    codec, exchange, text = upstream.kind.codec, Exchange(), ""
    exchange.begin(request, codec)
    async with upstream.send_request(exchange.attempt.upstream_request) as reply:
        if reply.status != 200:
            raise codec.decode_error(reply.status, {}, await reply.read_error())
        async for data in reply:
            text += "".join(event.text for _, event in exchange.feed(data) if isinstance(event, kinds))
            if exchange.finished or is_enough(text):
                break
    return text
