"""llama-server's own `/completion`, of a prompt that its `/apply-template` has written: an upstream's half of a codec.

Rule: no client speaks it; it is asked where a grammar is to wait for its trigger, which no other endpoint can. What the
prompt was told in, and what is said of sampling, is the Chat API's, as the server's own chat endpoint reads it.
Neighbours: outgoing: what is asked; interpreter: the reply; `constrain.triggers` says what a grammar waits for.

What differs from the chat endpoint: text comes raw. Reasoning stands in it with its tags, for the parser to read; where
the template has opened it already, the reply is read as if it began with that tag.
"""

from dataclasses import dataclass

from fcshim.codecs.base import Decoder, Outgoing
from fcshim.codecs.llama_completion.interpreter import CompletionInterpreter
from fcshim.codecs.llama_completion.outgoing import write_request
from fcshim.codecs.single import SingleDecoder
from fcshim.codecs.sse import LINE_BYTES
from fcshim.messages import Request, has_media

__all__ = ["LlamaCompletion"]


@dataclass(frozen=True, slots=True)
class LlamaCompletion:
    """The codec. `begun`: whoever reads the reply knows already that it begins in reasoning."""

    begun: bool = False
    line_bytes: int = LINE_BYTES

    @staticmethod
    def can_ask(request: Request) -> bool:
        """Tell whether a request can be put so: media are not in a prompt, and there is one choice."""
        return request.n <= 1 and not has_media(request)

    def encode_request(self, request: Request) -> Outgoing:
        """Write what asks for the prompt; what asks for its completion follows from the answer."""
        return write_request(request, begun=self.begun)

    def decoder(self) -> Decoder:
        """Make a reader for one reply."""
        return SingleDecoder(CompletionInterpreter(), line_bytes=self.line_bytes)
