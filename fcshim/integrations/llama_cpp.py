"""Tool calling for llama-cpp-python: `Llama(..., chat_handler=FcshimChatHandler())`.

Rule: the model's chat format gets text messages and no tools. Special tokens are part of the reply's text, because
the markers of many models' calls are special tokens, which llama-cpp-python leaves out.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Unpack

import msgspec

from fcshim.client import ClientSettings
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_chat.encoder import write_reply
from fcshim.errors import RequestError
from fcshim.events import JSON, Piece, Stop, Usage
from fcshim.extras import naming_extra
from fcshim.messages import Request
from fcshim.model_defaults import has_defaults
from fcshim.openai import Messages, choices
from fcshim.sync_client import SyncClient

with naming_extra("llama-cpp"):
    from llama_cpp import Llama, LlamaGrammar
    from llama_cpp.llama_chat_format import get_chat_completion_handler
    from llama_cpp.llama_tokenizer import BaseLlamaTokenizer

_REQUEST_OPTIONS = frozenset({"tool_choice", "parallel_tool_calls", "response_format", "stop", "max_tokens"})
"""Options that fcshim handles; all others go to the wrapped handler."""
_REFUSED = {"functions": "tools", "function_call": "tool_choice", "logprobs": "no logprobs, which calls do not have"}
"""Options of `create_chat_completion` that the handler does not have, and what is expected instead."""
_OWN_TEMPLATE = "chat_template.default"
"""The chat format that `Llama` makes of the template in the model's file."""


class FcshimChatHandler:
    """A chat handler that makes a model call tools, with all of `create_chat_completion`: streams, stops, seeds.

    `handler` writes the prompt and generates: another chat handler, or the name of a chat format; by default the chat
    template of the model's file. `settings` are those of `Client`: `dialect`, `max_retries`, `arguments`, ...; `model`
    is the name by which the dialect is chosen, by default that of the model's file. Where a call is demanded, or a
    `response_format`, a grammar makes the model write it.

    A call raises `RequestError` for options that the handler does not have, and what llama-cpp-python raises; a stream
    raises it with its first chunk, and `ModelOutputError` at its end if no call of the reply can run.
    """

    def __init__(self, handler: Callable[..., JSON] | str | None = None, **settings: Unpack[ClientSettings]) -> None:
        self._handler = handler
        self._settings = settings

    def __call__(
        self,
        *,
        llama: Llama,
        messages: Messages,
        tools: Sequence[dict[str, JSON]] | None = None,
        stream: bool = False,
        model: str | None = None,
        grammar: LlamaGrammar | None = None,
        **options: JSON,
    ) -> JSON:
        """Return a completion of the Chat API as a dict, or an iterator over its chunks."""
        for name, expected in _REFUSED.items():
            if options.pop(name, None):
                raise RequestError(f"{name}: expected {expected}", param=name)
        request = {name: value for name in _REQUEST_OPTIONS if (value := options.pop(name, None))}
        if grammar is not None and (tools or "response_format" in request):
            raise RequestError("grammar: expected none with tools or a response_format", param="grammar")
        if request.get("max_tokens", 1) < 0:
            del request["max_tokens"]  # llama-cpp-python's word for no limit
        attempts: list[_CountingTokenizer] = []
        settings: ClientSettings = {"constrain": "gbnf", "model": _name_of(llama), **self._settings}
        settings["generate"] = self._generator(llama, attempts, {**options, "model": model, "grammar": grammar})
        identity = ReplyIdentity(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), model or llama.model_path)
        if stream:
            return _stream(settings, messages, tools, request, identity)
        with SyncClient(**settings) as client:
            reply = client.complete(messages, tools, **request)
        usage = Usage(sum(each.prompt for each in attempts), sum(each.completion for each in attempts))
        reply = msgspec.structs.replace(reply, usage=usage)
        return msgspec.json.decode(write_reply(Request(model="", messages=()), identity, [reply]))

    def _generator(
        self, llama: Llama, attempts: "list[_CountingTokenizer]", options: dict[str, JSON]
    ) -> Callable[..., Iterator[Piece]]:
        """Return a function that generates text with the wrapped handler, and adds each run to `attempts`."""
        handler = self._handler or _OWN_TEMPLATE
        if isinstance(handler, str):
            handler = llama._chat_handlers.get(handler) or get_chat_completion_handler(handler)  # noqa: SLF001 - as `Llama` finds it

        def generate(
            messages: list[dict[str, JSON]], *, stop: list[str], grammar: str | None, max_tokens: int | None, **_: JSON
        ) -> Iterator[Piece]:
            fields = {**options, "stop": stop, "max_tokens": max_tokens}
            if grammar is not None:
                fields["grammar"] = LlamaGrammar.from_string(grammar, verbose=False)
            attempts.append(_CountingTokenizer(llama.tokenizer_))
            llama.tokenizer_ = attempts[-1]
            try:
                for chunk in handler(llama=llama, messages=messages, stream=True, **fields):
                    [choice] = chunk["choices"]
                    yield choice["delta"].get("content") or ""
                    if choice["finish_reason"] == "length":
                        yield Stop("max_tokens")
            finally:
                llama.tokenizer_ = attempts[-1].wrapped

        return generate


def _stream(
    settings: ClientSettings, messages: Messages, tools: JSON, request: dict[str, JSON], identity: ReplyIdentity
) -> Iterator[dict[str, JSON]]:
    head = {"id": identity.id, "object": "chat.completion.chunk", "created": identity.created, "model": identity.model}
    with SyncClient(**settings) as client:
        for choice in choices(client.stream(messages, tools, **request)):
            yield {**head, "choices": [choice]}


def _name_of(llama: Llama) -> str:
    """Return the model's name: that of its file, or the one in it if only that is known."""
    file = PurePath(llama.model_path).name.removesuffix(".gguf")
    names = (file, llama.metadata.get("general.name", "").replace(" ", "-"))
    return next(filter(has_defaults, names), file)


class _CountingTokenizer:
    """Writes special tokens as text, and counts the tokens of one completion."""

    def __init__(self, wrapped: BaseLlamaTokenizer) -> None:
        self.wrapped = wrapped
        self.prompt = self.completion = 0

    def tokenize(self, *arguments: JSON) -> list[int]:
        """Return the tokens of a text."""
        return list(self.wrapped.tokenize(*arguments))

    def detokenize(self, tokens: list[int], prev_tokens: list[int] | None = None, **_: JSON) -> bytes:
        """Return the text of tokens; the first call for a completion has its prompt as `prev_tokens`."""
        if prev_tokens is not None:
            self.prompt = self.prompt or len(prev_tokens)
            self.completion = max(self.completion, len(prev_tokens) + len(tokens) - self.prompt)
        return bytes(self.wrapped.detokenize(tokens, prev_tokens=prev_tokens, special=True))
