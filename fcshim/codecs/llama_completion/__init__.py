"""llama-server's `/completion` endpoint with a prompt rendered by its `/apply-template`: the upstream half of a codec.

Rule: it is used only for lazy grammars (`constrain.triggers`), because the chat endpoint drops their triggers and
applies the grammar from the first token. Messages and sampling fields are those of the Chat API, as the server's own
chat endpoint passes them on.

Unlike the chat endpoint, the reply is raw text: reasoning comes with its tags, for the parser to read. Where the
template has already opened reasoning, the opening tag is prepended to the reply.
"""

from dataclasses import dataclass

from fcshim.codecs.base import Decoder, UpstreamRequest
from fcshim.codecs.json_text import DEFAULT_DECODER_LIMITS, DecoderLimits
from fcshim.codecs.llama_completion.decoder import CompletionDecoder
from fcshim.codecs.llama_completion.upstream_request import write_request
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.messages import Request, has_media

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
