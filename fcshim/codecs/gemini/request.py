"""The client's request: a JSON body and the request path become a `Request`.

Rule: the path tells the model, and whether the reply is streamed. Both spellings of a field are equivalent. An unknown
field or part is never an error.
"""

from urllib.parse import parse_qs

from fcshim.codecs.base import RequestTarget
from fcshim.codecs.fields import expect, read_object
from fcshim.codecs.gemini.field_names import get_field, take_field
from fcshim.codecs.gemini.options import GeminiClientOptions, read_settings
from fcshim.codecs.gemini.request_contents import read_contents
from fcshim.codecs.gemini.request_tools import read_tool_choice, read_tools
from fcshim.codecs.limits import RequestLimits
from fcshim.events import JSON
from fcshim.messages import Request

STREAM = ":streamGenerateContent"


def read_request(body: bytes, target: RequestTarget, limits: RequestLimits) -> Request:
    """Read a request. Raises `RequestError` with the offending field in `param`."""
    return _request(read_object(body), target, limits)


def read_count_request(body: bytes, target: RequestTarget, limits: RequestLimits) -> Request:
    """Read a token count request: contents, or a whole request inside one field."""
    source = read_object(body)
    inner = get_field(source, "generateContentRequest")
    return _request(source if inner is None else expect(inner, dict, "generateContentRequest"), target, limits)


def _request(source: dict[str, JSON], target: RequestTarget, limits: RequestLimits) -> Request:
    tools, notes = read_tools(source, limits)
    settings = read_settings(source)
    stream = target.path.endswith(STREAM)
    client_options = GeminiClientOptions(
        array=stream and "sse" not in parse_qs(target.query).get("alt", ()),
        thoughts=_wants_thoughts(source),
    )
    return Request(
        model=target.path_params.get("model", ""),
        messages=read_contents(source),
        tools=tools,
        tool_choice=read_tool_choice(source, tools),
        stream=stream,
        include_usage=True,
        n=settings.n,
        stop=settings.stop,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seed=settings.seed,
        extra=settings.extra,
        verbatim=settings.verbatim,
        client_options=client_options,
        notes=notes,
    )


def _wants_thoughts(source: dict[str, JSON]) -> bool:
    config = take_field(source, "generationConfig", dict, {})
    thinking = take_field(config, "thinkingConfig", dict, {}, "generationConfig.")
    return get_field(thinking, "includeThoughts") is True
