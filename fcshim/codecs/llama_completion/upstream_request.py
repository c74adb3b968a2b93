"""The two requests: one for the prompt as the model's template writes it, one for the text that follows it.

Rule: both carry what the Chat API's request says beside the messages, under the same names: the server's chat endpoint
hands them on to sampling just so. A grammar goes to the second alone.
Neighbours: `openai_chat.outgoing` writes messages and fields, `constrain.triggers` what the grammar waits for.
"""

import functools

import msgspec

from fcshim.codecs.base import FollowUp, UpstreamRequest
from fcshim.codecs.openai_chat.upstream_request import build_body
from fcshim.codecs.sse import write_data
from fcshim.codecs.upstream_errors import excerpt
from fcshim.constrain.triggers import LAZY_FIELDS, whole_tag_trigger
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.parse.machine.context import REASONING_TAGS

TEMPLATE_PATH, COMPLETION_PATH = "//apply-template", "//completion"

_CHAT_ONLY_FIELDS = frozenset(
    ["messages", "max_tokens", "max_completion_tokens", "n", "stream_options", "logprobs", "top_logprobs"]
)
_COMPLETION_ONLY_FIELDS = frozenset([*LAZY_FIELDS, "stream", "stream_options"])
_RESPONSE_FIELDS = ["content", "stop", "stop_type", "stopping_word", "tokens_evaluated", "tokens_predicted", "timings"]
"""What the last event says; it would repeat the prompt and the grammar besides."""


class _AppliedTemplate(msgspec.Struct):
    """The answer to the first."""

    prompt: str


_read = msgspec.json.Decoder(_AppliedTemplate).decode


def write_request(request: Request, *, starts_in_reasoning: bool = False) -> UpstreamRequest:
    """Write the first request; `begun` as in `complete`."""
    body = build_body(request)
    template = {name: value for name, value in body.items() if name not in _COMPLETION_ONLY_FIELDS}
    sampling = {name: value for name, value in body.items() if name not in _CHAT_ONLY_FIELDS}
    if request.max_tokens is not None:
        sampling["n_predict"] = request.max_tokens
    then = functools.partial(make_follow_up, sampling, starts_in_reasoning=starts_in_reasoning)
    return UpstreamRequest(TEMPLATE_PATH, msgspec.json.encode(template), follow_up=then)


def make_follow_up(sampling: dict[str, JSON], template_response: bytes, *, starts_in_reasoning: bool) -> FollowUp:
    """Write the second request of the answer to the first. Raises `UpstreamError` where that holds no prompt.

    Where the prompt opens reasoning, the grammar waits for its end; the reply then begins with the tag, unless that is
    known (`begun`).
    """
    try:
        prompt = _read(template_response).prompt
    except (ValueError, RecursionError):
        raise UpstreamError(f"the upstream wrote no prompt: {excerpt(template_response)}") from None
    body = {**sampling, "prompt": prompt, "response_fields": _RESPONSE_FIELDS}
    lead = b""
    opened = prompt.rstrip()
    for opening, closing in () if starts_in_reasoning else REASONING_TAGS:
        if opened.endswith(opening.rstrip()):
            body["grammar_triggers"] = [whole_tag_trigger(closing)]
            lead = write_data(msgspec.json.encode({"content": opening}))
            break
    return FollowUp(UpstreamRequest(COMPLETION_PATH, msgspec.json.encode(body)), lead)
