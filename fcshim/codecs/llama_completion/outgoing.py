"""The two requests: one for the prompt as the model's template writes it, one for the text that follows it.

Rule: both carry what the Chat API's request says beside the messages, under the same names: the server's chat endpoint
hands them on to sampling just so. A grammar goes to the second alone.
Neighbours: `openai_chat.outgoing` writes messages and fields, `constrain.triggers` what the grammar waits for.
"""

import functools

import msgspec

from fcshim.codecs.base import Outgoing, Sequel
from fcshim.codecs.faults import excerpt
from fcshim.codecs.openai_chat.outgoing import request_body
from fcshim.codecs.sse import write_data
from fcshim.constrain.triggers import LAZY_FIELDS, behind
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.parse.machine.context import REASONING_TAGS

TEMPLATE_PATH, COMPLETION_PATH = "//apply-template", "//completion"

_OF_THE_CHAT_API = frozenset(
    ["messages", "max_tokens", "max_completion_tokens", "n", "stream_options", "logprobs", "top_logprobs"]
)
_OF_COMPLETION = frozenset([*LAZY_FIELDS, "stream", "stream_options"])
_TOLD = ["content", "stop", "stop_type", "stopping_word", "tokens_evaluated", "tokens_predicted", "timings"]
"""What the last event says; it would repeat the prompt and the grammar besides."""


class _Page(msgspec.Struct):
    """The answer to the first."""

    prompt: str


_read = msgspec.json.Decoder(_Page).decode


def write_request(request: Request, *, begun: bool = False) -> Outgoing:
    """Write the first request; `begun` as in `complete`."""
    body = request_body(request)
    template = {name: value for name, value in body.items() if name not in _OF_COMPLETION}
    sampling = {name: value for name, value in body.items() if name not in _OF_THE_CHAT_API}
    if request.max_tokens is not None:
        sampling["n_predict"] = request.max_tokens
    then = functools.partial(complete, sampling, begun=begun)
    return Outgoing(TEMPLATE_PATH, msgspec.json.encode(template), then=then)


def complete(sampling: dict[str, JSON], answer: bytes, *, begun: bool) -> Sequel:
    """Write the second request of the answer to the first. Raises `UpstreamError` where that holds no prompt.

    Where the prompt opens reasoning, the grammar waits for its end; the reply then begins with the tag, unless that is
    known (`begun`).
    """
    try:
        prompt = _read(answer).prompt
    except (ValueError, RecursionError):
        raise UpstreamError(f"the upstream wrote no prompt: {excerpt(answer)}") from None
    body = {**sampling, "prompt": prompt, "response_fields": _TOLD}
    lead = b""
    opened = prompt.rstrip()
    for opening, closing in () if begun else REASONING_TAGS:
        if opened.endswith(opening.rstrip()):
            body["grammar_triggers"] = [behind(closing)]
            lead = write_data(msgspec.json.encode({"content": opening}))
            break
    return Sequel(Outgoing(COMPLETION_PATH, msgspec.json.encode(body)), lead)
