"""The client's request: a JSON body of the Messages API becomes a `Request`.

Rule: fields that `Request` knows are validated; `options` takes the others. An unknown field or block is never an
error. Error messages are worded as the API documents them.
"""

from fcshim.codecs.anthropic.errors import THREAD_UNSUPPORTED
from fcshim.codecs.anthropic.options import AnthropicClientOptions, read_extra, read_verbatim
from fcshim.codecs.anthropic.request_messages import read_messages
from fcshim.codecs.anthropic.request_tools import read_tool_choice, read_tools
from fcshim.codecs.fields import expect, read_field, read_integer, read_number, read_object
from fcshim.codecs.limits import RequestLimits
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import Request


def read_request(body: bytes, limits: RequestLimits, *, stored_upstream: bool = False) -> Request:
    """Read a request.

    `stored_upstream`: the upstream stores what the request refers to, and gets the request unchanged. Raises
    `RequestError` with the offending field in `param`.
    """
    source = read_object(body)
    if source.get("thread") is not None and not stored_upstream:
        raise RequestError("threads are not supported; send the whole history", param="thread", kind=THREAD_UNSUPPORTED)
    messages, loaded = read_messages(source, complete_history=not stored_upstream)
    tools, notes = read_tools(source, loaded, limits)
    choice, parallel = read_tool_choice(source, tools)
    return Request(
        model=read_field(source, "model", str, ""),
        messages=messages,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        stream=read_field(source, "stream", bool, default=False),
        include_usage=True,
        stop=_read_stop(source),
        max_tokens=read_integer(source, "max_tokens", minimum=0),
        temperature=read_number(source, "temperature"),
        top_p=read_number(source, "top_p"),
        extra=read_extra(source),
        verbatim=read_verbatim(source),
        client_options=AnthropicClientOptions(thinking=_is_thinking_enabled(source.get("thinking"))),
        notes=notes,
    )


def _read_stop(source: dict[str, JSON]) -> tuple[str, ...]:
    """Read stop sequences. An empty one would match everywhere and is dropped."""
    sequences = read_field(source, "stop_sequences", list, [])
    return tuple(
        text
        for index, text in enumerate(sequences)
        if expect(text, str, f"stop_sequences.{index}", param="stop_sequences")
    )


def _is_thinking_enabled(thinking: JSON) -> bool:
    return isinstance(thinking, dict) and thinking.get("type") not in (None, "disabled")
