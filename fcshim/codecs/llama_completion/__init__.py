"""llama-server's `/completion` endpoint with a prompt rendered by its `/apply-template`: the upstream half of a codec.

Rule: it is used only for lazy grammars (`constrain.triggers`), because the chat endpoint drops their triggers and
applies the grammar from the first token. Messages and sampling fields are those of the Chat API, as the server's own
chat endpoint passes them on.

Unlike the chat endpoint, the reply is raw text: reasoning comes with its tags, for the parser to read. Where the
template has already opened reasoning, the opening tag is prepended to the reply.
"""

import functools
from dataclasses import dataclass

import msgspec

from fcshim.codecs.base import Decoder, FollowUp, UpstreamRequest
from fcshim.codecs.framing import write_data
from fcshim.codecs.json_text import DEFAULT_DECODER_LIMITS, DecoderLimits
from fcshim.codecs.llama_completion.decoder import CompletionDecoder
from fcshim.codecs.openai_chat.upstream_request import build_body
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.codecs.upstream_errors import excerpt
from fcshim.constrain.triggers import LAZY_FIELDS, whole_tag_trigger
from fcshim.errors import UpstreamError
from fcshim.events import JSON
from fcshim.messages import Request, has_media
from fcshim.parse.machine.known_markers import REASONING_TAGS

__all__ = ["LlamaCompletion"]


@dataclass(frozen=True, slots=True)
class LlamaCompletion:
    """The codec. `starts_in_reasoning`: the parser already expects a reply that begins inside reasoning."""

    starts_in_reasoning: bool = False
    limits: DecoderLimits = DEFAULT_DECODER_LIMITS

    @staticmethod
    def supports(request: Request) -> bool:
        """Return whether the endpoint can serve a request: a prompt has no media, and a reply has one choice."""
        return request.n <= 1 and not has_media(request)

    def encode_request(self, request: Request) -> UpstreamRequest:
        """Write the request for the prompt; its follow-up is the request for the completion."""
        return write_request(request, starts_in_reasoning=self.starts_in_reasoning)

    def decoder(self) -> Decoder:
        """Create a decoder for one reply."""
        return SingleChoiceDecoder(CompletionDecoder(), self.limits)


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
    """Write the first request, which renders the prompt; `starts_in_reasoning` as in `make_follow_up`.

    Both have the fields of the Chat API's request, because the server's chat endpoint passes them on to sampling
    unchanged. Only the second has the grammar.
    """
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
