"""The client's request: a JSON body of `/api/chat` or `/api/generate` becomes a `Request`.

Rule: fields that `Request` knows are validated; an unknown field is never an error. A request without messages asks to
load or unload the model, and for no reply.
"""

from fcshim.codecs.fields import expect, read_field, read_object
from fcshim.codecs.limits import RequestLimits
from fcshim.codecs.ollama.options import OllamaClientOptions, read_settings, refuse_unsupported
from fcshim.codecs.ollama.request_messages import read_messages, read_prompt
from fcshim.codecs.openai_chat.request_tools import read_tools
from fcshim.events import JSON
from fcshim.messages import Request, Tool

_VERBATIM_FIELDS = ("format", "think", "keep_alive", "logprobs", "top_logprobs", "truncate", "shift")
_UNLOAD_VALUES = frozenset([0, "0", "0s", "0m", "0h"])


def read_request(body: bytes, limits: RequestLimits, *, generate: bool) -> Request:
    """Read a request. Raises `RequestError` with the offending field in `param`."""
    source = read_object(body)
    if generate:
        refuse_unsupported(source)
    messages = read_prompt(source) if generate else read_messages(source)
    settings = read_settings(source)
    verbatim = {name: source[name] for name in _VERBATIM_FIELDS if source.get(name) is not None}
    client_options = OllamaClientOptions(
        generate=generate, thinking=source.get("think") is not False, unload=_is_unloading(source)
    )
    return Request(
        model=expect(source.get("model"), str, "model"),
        messages=messages,
        tools=() if generate else _tools(source, limits),
        stream=read_field(source, "stream", bool, default=True),
        include_usage=True,
        stop=settings.stop,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seed=settings.seed,
        extra=settings.extra,
        verbatim={"ollama": {**verbatim, **({"options": settings.ollama_options} if settings.ollama_options else {})}},
        client_options=client_options,
    )


def _tools(source: dict[str, JSON], limits: RequestLimits) -> tuple[Tool, ...]:
    """Read tools, which have the Chat API's form; other types are dropped."""
    items = read_field(source, "tools", list, [])
    functions = [tool for tool in items if not isinstance(tool, dict) or tool.get("type", "function") == "function"]
    tools, _ = read_tools({"tools": functions}, limits)
    return tools


def _is_unloading(source: dict[str, JSON]) -> bool:
    keep_alive = source.get("keep_alive")
    return isinstance(keep_alive, int | float | str) and keep_alive in _UNLOAD_VALUES
