"""Writing the two requests: one that renders the prompt with the model's template, one for its completion.

Rule: both have the fields of the Chat API's request under the same names, because the server's chat endpoint passes
them on to sampling unchanged. Only the second has the grammar.
"""

import functools

import msgspec

from fcshim.codecs.base import FollowUp, UpstreamRequest
from fcshim.codecs.framing import write_data
from fcshim.codecs.openai_chat.upstream_request import build_body
from fcshim.codecs.upstream_errors import excerpt
from fcshim.constrain.triggers import LAZY_FIELDS, whole_tag_trigger
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request
from fcshim.parse.machine.known_markers import REASONING_TAGS

TEMPLATE_PATH, COMPLETION_PATH = "//apply-template", "//completion"

_CHAT_ONLY_FIELDS = frozenset(
    ["messages", "max_tokens", "max_completion_tokens", "n", "stream_options", "logprobs", "top_logprobs"]
)
_COMPLETION_ONLY_FIELDS = frozenset([*LAZY_FIELDS, "stream", "stream_options"])
_RESPONSE_FIELDS = ["content", "stop", "stop_type", "stopping_word", "tokens_evaluated", "tokens_predicted", "timings"]
"""The fields requested for the last event, which by default also repeats the prompt and the grammar."""


class _AppliedTemplate(msgspec.Struct):
    """The response to the first request."""

    prompt: str


_read = msgspec.json.Decoder(_AppliedTemplate).decode


def write_request(request: Request, *, starts_in_reasoning: bool = False) -> UpstreamRequest:
    """Write the first request; `starts_in_reasoning` as in `make_follow_up`."""
    body = build_body(request)
    template = {name: value for name, value in body.items() if name not in _COMPLETION_ONLY_FIELDS}
    sampling = {name: value for name, value in body.items() if name not in _CHAT_ONLY_FIELDS}
    if request.max_tokens is not None:
        sampling["n_predict"] = request.max_tokens
    follow_up = functools.partial(make_follow_up, sampling, starts_in_reasoning=starts_in_reasoning)
    return UpstreamRequest(TEMPLATE_PATH, msgspec.json.encode(template), follow_up=follow_up)


def make_follow_up(sampling: dict[str, JSON], template_response: bytes, *, starts_in_reasoning: bool) -> FollowUp:
    """Write the second request from the response to the first. Raises `UpstreamError` where that has no prompt.

    If the prompt ends with an opening tag of reasoning, the trigger of the grammar becomes the closing tag, and the
    opening tag is prepended to the reply. With `starts_in_reasoning` the grammar and the parser already expect that.
    """
    try:
        prompt = _read(template_response).prompt
    except (ValueError, RecursionError):
        raise UpstreamError(f"the upstream returned no prompt: {excerpt(template_response)}") from None
    body = {**sampling, "prompt": prompt, "response_fields": _RESPONSE_FIELDS}
    body_prefix = b""
    prompt_end = prompt.rstrip()
    for opening, closing in () if starts_in_reasoning else REASONING_TAGS:
        if prompt_end.endswith(opening.rstrip()):
            body["grammar_triggers"] = [whole_tag_trigger(closing)]
            body_prefix = write_data(msgspec.json.encode({"content": opening}))
            break
    return FollowUp(UpstreamRequest(COMPLETION_PATH, msgspec.json.encode(body)), body_prefix)
