"""The client's request: a JSON body of the Chat API becomes a `Request`.

Rule: fields with a meaning of ours are checked and named, all others travel verbatim in `extra`; an unknown field is
never an error.
Neighbours: `request_messages` and `request_tools` read the two large parts; `outgoing` is the way back.
"""

from fcshim.codecs.fields import expect, read_object, take, take_count, take_number, wrong
from fcshim.codecs.limits import RequestLimits
from fcshim.codecs.openai_chat.request_messages import read_messages
from fcshim.codecs.openai_chat.request_tools import read_tool_choice, read_tools
from fcshim.codecs.openai_chat.style import Style
from fcshim.events import JSON
from fcshim.messages import Request

_NAMED = frozenset(
    [
        *("model", "messages", "stream", "stream_options", "n", "stop", "max_tokens", "max_completion_tokens"),
        *("temperature", "top_p", "seed"),
        *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
    ]
)


def read_request(body: bytes, limits: RequestLimits) -> Request:
    """Read a request. Raises `RequestError` with the offending field in `param`."""
    source = read_object(body)
    tools, custom = read_tools(source, limits)
    legacy = not source.get("tools") and bool(source.get("functions"))
    options = take(source, "stream_options", dict, {})
    style = Style(
        functions=legacy,
        max_completion_tokens=source.get("max_completion_tokens") is not None,
        custom=custom,
    )
    return Request(
        model=take(source, "model", str, ""),
        messages=read_messages(source),
        tools=tools,
        tool_choice=read_tool_choice(source, tools, legacy=legacy),
        parallel_tool_calls=take(source, "parallel_tool_calls", bool, not legacy),
        stream=take(source, "stream", bool, default=False),
        include_usage=take(options, "include_usage", bool, default=False, place="stream_options."),
        n=take_count(source, "n", least=1, most=limits.choices) or 1,
        stop=_stop(source.get("stop")),
        max_tokens=_max_tokens(source),
        temperature=take_number(source, "temperature"),
        top_p=take_number(source, "top_p"),
        seed=take_count(source, "seed", least=-(2**63)),
        extra=_extra(source, options),
        style=style.to_text(),
    )


def _max_tokens(source: dict[str, JSON]) -> int | None:
    """Take the newer name first; llama-server means "no limit" by -1 and 0."""
    newer = take_count(source, "max_completion_tokens", least=-1)
    older = take_count(source, "max_tokens", least=-1)
    return older if newer is None else newer


def _stop(value: JSON) -> tuple[str, ...]:
    """Read stop strings; an empty one would stop everything and is left out, as upstreams do."""
    if value is None:
        return ()
    if not isinstance(value, str | list):
        raise wrong(value, "a string or an array of strings", "stop")
    listed = [value] if isinstance(value, str) else value
    return tuple(text for at, text in enumerate(listed) if expect(text, str, f"stop[{at}]", param="stop"))


def _extra(source: dict[str, JSON], options: dict[str, JSON]) -> dict[str, JSON]:
    extra = {name: value for name, value in source.items() if name not in _NAMED}
    if others := {name: value for name, value in options.items() if name != "include_usage"}:
        extra["stream_options"] = others
    return extra
