"""Tries whether a model writes the start marker of a dialect when it is shown that dialect's prompt.

A template may name a marker that its weights never write: `<tool_call>` is one token of Qwen2.5-Coder's vocabulary, and
did not occur in 230 replies of the small models. So a template alone is no evidence.
"""

import asyncio
import logging

from fcshim.errors import FcshimError
from fcshim.events import Text
from fcshim.messages import Request, SystemMessage, TextPart, UserMessage
from fcshim.parse.dialect import Dialect
from fcshim.parse.recognition import start_marker
from fcshim.pipeline.exchange import Exchange
from fcshim.prompt.render import render_reminder
from fcshim.upstream.endpoint import Upstream
from fcshim.upstream.measured import ProbeResult

logger = logging.getLogger("fcshim.upstream")

_FUNCTION = "You have one function: lookup_time(city: string), which returns the time in a city."
_QUESTION = "Call lookup_time for Lima."
_MAX_TOKENS = 16
"""Enough for every start marker of the table, spelled in single characters or whole."""
_TIME_LIMIT = 30.0
"""Seconds; a server that needs longer is loading the model, or busy."""
_CALL_STARTS = ("{", "[", "<", "`")
"""How calls in other forms begin: bare and fenced JSON, other tags, lists of Python calls."""


async def probe_dialect(upstream: Upstream, model: str, dialect: Dialect) -> ProbeResult | None:
    """Ask the model for one call in `dialect`, and look at the first tokens of its reply.

    `unclear` if it answers in words. None if the upstream refuses the request or does not answer in time.
    """
    try:
        async with asyncio.timeout(_TIME_LIMIT):
            text = await _first_text(upstream, model, dialect)
    except (FcshimError, TimeoutError) as error:
        logger.info("%s: the dialect %s could not be tried: %s", model, dialect.name, str(error) or "no answer in time")
        return None
    return judge(text, dialect)


def judge(text: str, dialect: Dialect) -> ProbeResult:
    """Judge the beginning of a reply."""
    text, marker = text.lstrip(), start_marker(dialect).strip()
    if text.lower().startswith(marker.lower()):
        return "written"
    # The beginning of the marker alone may be a marker that was cut off.
    return "other" if text.startswith(_CALL_STARTS) and not marker.startswith(text) else "unclear"


async def _first_text(upstream: Upstream, model: str, dialect: Dialect) -> str:
    """Return the beginning of the reply, as soon as it is long enough. Raises `FcshimError`."""
    # A tenth of the dialect's whole prompt, which a CPU would read for seconds.
    instructions = f"{_FUNCTION}\n{render_reminder(dialect)}"
    request = Request(
        model=model,
        messages=(SystemMessage((TextPart(instructions),)), UserMessage((TextPart(_QUESTION),))),
        max_tokens=_MAX_TOKENS,
        temperature=0.0,
        stream=True,
    )
    codec, wanted = upstream.kind.codec, len(start_marker(dialect)) + 1
    exchange = Exchange()
    exchange.begin(request, codec)
    text = ""
    async with upstream.send_request(exchange.attempt.upstream_request) as reply:
        if reply.status != 200:
            raise codec.decode_error(reply.status, {}, await reply.read_error())
        async for data in reply:
            text += "".join(event.text for _, event in exchange.feed(data) if isinstance(event, Text))
            if exchange.finished or len(text.lstrip()) >= wanted:
                break
    return text
