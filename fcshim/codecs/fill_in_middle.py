"""Requests to fill in the middle of a text: llama-server's `/infill`, and `/completions` with a `suffix`.

Rule: the prompt is the user's text, without a chat template and without instructions. The codecs serve only upstreams;
a server that ignores the suffix would continue the prompt instead, so the backend decides which codec is used.
"""

from typing import Literal

import msgspec

from fcshim.codecs.base import Decoder, UpstreamCodec, UpstreamRequest
from fcshim.codecs.json_text import DEFAULT_DECODER_LIMITS
from fcshim.codecs.llama_completion.decoder import CompletionDecoder
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_chat.upstream_request import build_body
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import RESPONSE_FORMAT, Request, UserMessage, has_media, text_of

FillInMiddle = Literal["infill", "suffix"]
"""How a server fills in the middle: llama-server's `/infill`, or `suffix` in a request of `/completions`."""

_CHAT_FIELDS = frozenset(["messages", "reasoning_effort", "max_tokens"])


class LlamaInfill:
    """llama-server's `/infill`; its reply is that of `/completion`."""

    def encode_request(self, request: Request) -> UpstreamRequest:
        """Write the request. Raises `RequestError` for what a text cannot have."""
        fields = {name: value for name, value in _sampling(request).items() if name != "stream_options"}
        parts = {"input_prefix": _prefix(request), "input_suffix": request.suffix, "prompt": ""}
        limit = {} if request.max_tokens is None else {"n_predict": request.max_tokens}
        return UpstreamRequest("//infill", msgspec.json.encode({**fields, **parts, **limit}))

    def decoder(self) -> Decoder:
        """Create a decoder for one reply."""
        return SingleChoiceDecoder(CompletionDecoder(), DEFAULT_DECODER_LIMITS)


class SuffixCompletion:
    """OpenAI's `/completions` with a `suffix`; its reply is that of the Chat API with `text` in place of deltas."""

    def encode_request(self, request: Request) -> UpstreamRequest:
        """Write the request. Raises `RequestError` for what a text cannot have."""
        limit = {} if request.max_tokens is None else {"max_tokens": request.max_tokens}
        body = {**_sampling(request), "prompt": _prefix(request), "suffix": request.suffix, **limit}
        return UpstreamRequest("/completions", msgspec.json.encode(body))

    def decoder(self) -> Decoder:
        """Create a decoder for one reply."""
        return OPENAI_CHAT.decoder()


CODECS: dict[FillInMiddle, UpstreamCodec] = {"infill": LlamaInfill(), "suffix": SuffixCompletion()}


def _sampling(request: Request) -> dict[str, JSON]:
    return {name: value for name, value in build_body(request).items() if name not in _CHAT_FIELDS}


def _prefix(request: Request) -> str:
    if has_media(request):
        raise RequestError("images: a request with a suffix can have only text", param="images")
    if RESPONSE_FORMAT in request.extra:
        raise RequestError("format: the text between a prompt and a suffix cannot have one", param="format")
    return "".join(text_of(message.content) for message in request.messages if isinstance(message, UserMessage))
