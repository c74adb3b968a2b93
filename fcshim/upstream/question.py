"""Short questions of our own to the model, beside the requests of clients: in general, and for translations."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fcshim.errors import FcshimError
from fcshim.events import JSON, Reasoning, Text
from fcshim.messages import Request, SystemMessage, TextPart, Tool, UserMessage, text_of
from fcshim.pipeline.backends import Backend
from fcshim.pipeline.exchange import Exchange
from fcshim.prompt.relevance import Relevance, words_of
from fcshim.sanitize import sanitize_line
from fcshim.upstream.endpoint import Upstream

logger = logging.getLogger("fcshim.upstream")


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


_INSTRUCTIONS = (
    "Translate the user's request into English. It is for one of these functions: {}. Write only the translation."
)
"""The names help small models with words of several meanings, such as the Italian `tempo`."""
_MAX_NAMES = 2_000
"""Characters of the names: some 500 tokens, which the server has in its cache from the second message on."""
_GRAMMAR = "root ::= [ -~]{3,200}"
"""One line of ASCII: small models go on in the message's own language otherwise."""
_MAX_TOKENS = 60
_MAX_TEXT = 1_000
"""Characters of a message that are translated: what is wanted stands at its beginning, as a rule."""
_MAX_MESSAGES = 4
"""Messages of one request that are translated: after a restart, not a whole conversation is."""
_MAX_KNOWN = 1_024
"""Translations that are remembered, some 0.5 MB."""
_TIME_LIMIT = 60.0
"""Seconds for one translation."""


class Translations:
    """English words for messages of the user in other languages, by which tools are searched.

    The model translates a message once, and the translation is remembered. A failure means that the message's own words
    have to do. The text only chooses which tools are described, so a wrong translation does no other harm.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._known: dict[tuple[str, str], str] = {}

    async def add_to(self, request: Request, backend: Backend) -> Request:
        """Return the request with translations of the user's messages that name no tool in their own words."""
        relevance = Relevance(request.tools)
        left = _MAX_MESSAGES
        messages = list(request.messages)
        for at, message in enumerate(messages):
            if not isinstance(message, UserMessage):
                continue
            # In most English requests, a word of the text is in a tool's name.
            words = words_of(text_of(message.content))
            if not words or any(relevance.matches_name(tool, words) for tool in range(len(request.tools))):
                continue
            key = request.model, text_of(message.content)[:_MAX_TEXT]
            if key not in self._known and left:
                left -= 1
                await self._translate(key, request.tools, backend)
            messages[at] = UserMessage(message.content, self._known.get(key, ""))
        return msgspec.structs.replace(request, messages=tuple(messages))

    async def _translate(self, key: tuple[str, str], tools: Sequence[Tool], backend: Backend) -> None:
        model, text = key
        try:
            async with asyncio.timeout(_TIME_LIMIT):
                translation = await self._ask(model, text, tools, backend)
        except (FcshimError, TimeoutError) as error:
            logger.info("%s: a message could not be translated: %s", model, str(error) or "no answer in time")
            return
        logger.info("%s: tools are searched by these words, too: %s", model, sanitize_line(translation))
        if len(self._known) >= _MAX_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[key] = translation

    async def _ask(self, model: str, text: str, tools: Sequence[Tool], backend: Backend) -> str:
        """Return what the model writes. Raises `FcshimError`."""
        instructions = _INSTRUCTIONS.format(", ".join(tool.name for tool in tools)[:_MAX_NAMES])
        written = await ask(
            self._upstream,
            model,
            instructions,
            text,
            max_tokens=_MAX_TOKENS,
            extra={"grammar": _GRAMMAR} if backend.form == "gbnf" else {},
            kinds=(Text, Reasoning),
        )
        return written.strip()
