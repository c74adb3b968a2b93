"""Reading the client's request: a JSON body of the Responses API becomes a `Request`.

Rule: fields that `Request` has are validated; the whole body is kept, because the response repeats its fields. An
unknown field is never an error; a known feature that is not supported is rejected by name.
"""

from fcshim.codecs.fields import read_field, read_integer, read_number, read_object
from fcshim.codecs.limits import RequestLimits
from fcshim.codecs.openai_responses.input_resolver import InputResolver
from fcshim.codecs.openai_responses.request_items import ItemReader
from fcshim.codecs.openai_responses.request_tools import ResponsesTools, read_tool_choice, read_tools
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import Message, Request, SystemMessage, TextPart

API = "openai_responses"

_UNSUPPORTED = {
    "background": "leave it out, and stream the response",
    "conversation": "use previous_response_id, or send the whole history",
    "prompt": "send instructions and input",
}


def read_request(body: bytes, resolver: InputResolver, limits: RequestLimits) -> Request:
    """Read a request. Raises `RequestError`."""
    source = read_object(body)
    _reject_unsupported(source)
    messages, loaded_tools = _read_messages(source, resolver)
    offered = read_tools(read_field(source, "tools", list, []), loaded_tools, limits)
    return Request(
        model=read_field(source, "model", str, ""),
        messages=messages,
        tools=tuple(offered.tools.values()),
        tool_choice=read_tool_choice(source, offered),
        parallel_tool_calls=read_field(source, "parallel_tool_calls", bool, default=True),
        stream=read_field(source, "stream", bool, default=False),
        include_usage=True,
        max_tokens=read_integer(source, "max_output_tokens", minimum=1),
        temperature=read_number(source, "temperature"),
        top_p=read_number(source, "top_p"),
        extra=_read_extra(source),
        verbatim={API: source},
        client_options=offered.client_options(),
        notes=_make_notes(offered),
    )


def _reject_unsupported(source: dict[str, JSON]) -> None:
    for name, alternative in _UNSUPPORTED.items():
        if source.get(name):
            raise RequestError(f"{name}: not supported here; {alternative}", param=name, kind="unsupported_parameter")


def _read_messages(source: dict[str, JSON], resolver: InputResolver) -> tuple[tuple[Message, ...], list[JSON]]:
    """Return the messages, instructions first, and the tools that input items contain."""
    items = resolver.resolve(source)
    reader = ItemReader(skipped=resolver.has_unresolved)
    for position, item in enumerate(items):
        reader.read(item, f"input[{position}]")
    instructions = read_field(source, "instructions", str, "")
    before = (SystemMessage((TextPart(instructions),)),) if instructions else ()
    messages = (*before, *reader.close())
    if not messages and not resolver.has_unresolved:
        raise RequestError("input: expected a string or at least one message", param="input")
    return messages, reader.loaded_tools


def _read_extra(source: dict[str, JSON]) -> dict[str, JSON]:
    """Return the settings that local engines support, under their names in the Chat API."""
    extra: dict[str, JSON] = {}
    match read_field(source, "text", dict, {}).get("format"):
        case {"type": "json_schema", **rest}:
            form = {name: rest[name] for name in ("name", "description", "schema", "strict") if name in rest}
            extra["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", **form}}
        case {"type": "json_object"}:
            extra["response_format"] = {"type": "json_object"}
    effort = read_field(source, "reasoning", dict, {}).get("effort")
    if isinstance(effort, str):
        extra["reasoning_effort"] = effort
    return extra


def _make_notes(offered: ResponsesTools) -> tuple[str, ...]:
    hosted = ", ".join(sorted(set(offered.hosted)))
    return (f"not offered, because only their provider can run them: {hosted}",) if hosted else ()
