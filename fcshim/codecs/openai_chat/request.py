"""Reading the client's request: a JSON body of the Chat API becomes a `Request`.

Rule: fields that `Request` has are validated; all others are kept verbatim in `extra`. An unknown field is never an
error.
"""

from fcshim.codecs.fields import expect, field_error, read_field, read_integer, read_number, read_object
from fcshim.codecs.limits import RequestLimits
from fcshim.codecs.openai_chat.request_messages import read_messages
from fcshim.codecs.openai_chat.request_tools import read_tool_choice, read_tools
from fcshim.events import JSON
from fcshim.messages import ClientOptions, Request

_KNOWN_FIELDS = frozenset(
    [
        *("model", "messages", "stream", "stream_options", "n", "stop", "max_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "seed"),
        *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
    ]
)


class ChatClientOptions(ClientOptions, frozen=True, kw_only=True):
    """The forms that the client used. They affect the form of requests and replies, never their meaning."""

    functions: bool = False
    """The legacy `functions` and `function_call` instead of `tools` and `tool_calls`."""
    max_completion_tokens: bool = False
    """The newer name of `max_tokens`."""
    custom: frozenset[str] = frozenset()
    """Names of the tools that were offered as custom tools."""


def read_request(body: bytes, limits: RequestLimits) -> Request:
    """Read a request. Raises `RequestError` with the invalid field in `param`."""
    source = read_object(body)
    tools, custom = read_tools(source, limits)
    legacy = not source.get("tools") and bool(source.get("functions"))
    options = read_field(source, "stream_options", dict, {})
    client_options = ChatClientOptions(
        functions=legacy,
        max_completion_tokens=source.get("max_completion_tokens") is not None,
        custom=custom,
    )
    return Request(
        model=read_field(source, "model", str, ""),
        messages=read_messages(source),
        tools=tools,
        tool_choice=read_tool_choice(source, tools, legacy=legacy),
        parallel_tool_calls=read_field(source, "parallel_tool_calls", bool, not legacy),
        stream=read_field(source, "stream", bool, default=False),
        include_usage=read_field(options, "include_usage", bool, default=False, prefix="stream_options."),
        n=read_integer(source, "n", minimum=1, maximum=limits.choices) or 1,
        stop=_read_stop(source.get("stop")),
        max_tokens=_read_max_tokens(source),
        temperature=read_number(source, "temperature"),
        top_p=read_number(source, "top_p"),
        seed=read_integer(source, "seed", minimum=-(2**63)),
        extra=_collect_extra(source, options),
        client_options=client_options,
    )


def _read_max_tokens(source: dict[str, JSON]) -> int | None:
    """Read the token limit, preferring the newer name; -1 and 0 are valid, llama-server reads them as "no limit"."""
    newer = read_integer(source, "max_completion_tokens", minimum=-1)
    older = read_integer(source, "max_tokens", minimum=-1)
    return older if newer is None else newer


def _read_stop(value: JSON) -> tuple[str, ...]:
    """Read stop strings; an empty string would match everywhere and is dropped, as upstreams do."""
    if value is None:
        return ()
    if not isinstance(value, str | list):
        raise field_error(value, "a string or an array of strings", "stop")
    listed = [value] if isinstance(value, str) else value
    return tuple(text for at, text in enumerate(listed) if expect(text, str, f"stop[{at}]", param="stop"))


def _collect_extra(source: dict[str, JSON], options: dict[str, JSON]) -> dict[str, JSON]:
    extra = {name: value for name, value in source.items() if name not in _KNOWN_FIELDS}
    if others := {name: value for name, value in options.items() if name != "include_usage"}:
        extra["stream_options"] = others
    return extra
