"""llama-server's own `/completion`, of a prompt that its `/apply-template` has written: an upstream's half of a codec.

Rule: no client speaks it; it is asked where a grammar is to wait for its trigger, which no other endpoint can. What the
prompt was told in, and what is said of sampling, is the Chat API's, as the server's own chat endpoint reads it.
Neighbours: outgoing: what is asked; interpreter: the reply; `constrain.triggers` says what a grammar waits for.

What differs from the chat endpoint: text comes raw. Reasoning stands in it with its tags, for the parser to read; where
the template has opened it already, the reply is read as if it began with that tag.
"""

from dataclasses import dataclass

from fcshim.codecs.base import Decoder, UpstreamRequest
from fcshim.codecs.llama_completion.decoder import CompletionDecoder
from fcshim.codecs.llama_completion.upstream_request import write_request
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.codecs.sse import LINE_BYTES
from fcshim.messages import Request, has_media

__all__ = ["LlamaCompletion"]


@dataclass(frozen=True, slots=True)
class LlamaCompletion:
    """The codec. `begun`: whoever reads the reply knows already that it begins in reasoning."""

    starts_in_reasoning: bool = False
    line_bytes: int = LINE_BYTES

    @staticmethod
    def supports(request: Request) -> bool:
        """Tell whether a request can be put so: media are not in a prompt, and there is one choice."""
        return request.n <= 1 and not has_media(request)

    def encode_request(self, request: Request) -> UpstreamRequest:
        """Write what asks for the prompt; what asks for its completion follows from the answer."""
        return write_request(request, starts_in_reasoning=self.starts_in_reasoning)

    def decoder(self) -> Decoder:
        """Make a reader for one reply."""
        return SingleChoiceDecoder(CompletionDecoder(), line_bytes=self.line_bytes)
