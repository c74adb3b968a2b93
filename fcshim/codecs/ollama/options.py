"""Settings of a request: Ollama's `options`, `format` and `think`, and their equivalents.

Rule: a setting that `Request` has a field for goes there. One that other engines know goes to `extra` under the Chat
API's name. All others are stored unchanged, for an upstream that is Ollama.
"""

import msgspec

from fcshim.codecs.json_text import expect, field_error, read_field, read_number
from fcshim.codecs.option_table import OPTIONS, write_options
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import ClientOptions, Request

KNOWN_OPTIONS = frozenset(["num_predict", "temperature", "top_p", "seed", "stop"])
"""Options with a field of their own in `Request`."""
ENGINE_OPTIONS = frozenset(row.name for row in OPTIONS if row.ollama == f"options.{row.name}")
"""Options that engines with the Chat API accept under the same names."""

_EFFORTS = ("low", "medium", "high")
_THINK_LEVELS: dict[str, JSON] = {"none": False, "minimal": "low", "xhigh": "high", "max": "high"}


class OllamaClientOptions(ClientOptions, frozen=True, kw_only=True):
    """The client's options that change only how the reply is written, never the upstream request."""

    generate: bool = False
    """`/api/generate`: one prompt, and a reply in `response` instead of a message."""
    thinking: bool = True
    """Whether reasoning is written; a client turns it off with `think: false`."""
    unload: bool = False
    """A request without a prompt that asks to unload the model."""


class OllamaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a request."""

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: tuple[str, ...]
    extra: dict[str, JSON]
    ollama_options: dict[str, JSON]
    """Options that only Ollama has."""


def read_settings(source: dict[str, JSON]) -> OllamaSettings:
    """Read the settings of a request body. Raises `RequestError`."""
    options = read_field(source, "options", dict, {})
    limit = _take_integer(options, "num_predict")
    return OllamaSettings(
        max_tokens=limit if limit is None or limit >= 0 else None,  # -1 and -2 mean no limit
        temperature=read_number(options, "temperature", "options."),
        top_p=read_number(options, "top_p", "options."),
        seed=_take_integer(options, "seed"),
        stop=_read_stop(options.get("stop")),
        extra={
            **{name: value for name, value in options.items() if name in ENGINE_OPTIONS and value is not None},
            **_response_format(source.get("format")),
            **_read_effort(source.get("think")),
        },
        ollama_options={name: value for name, value in options.items() if name not in KNOWN_OPTIONS},
    )


def _take_integer(options: dict[str, JSON], name: str) -> int | None:
    """Read an integer, which Ollama's clients may write as 128.0."""
    value = read_number(options, name, "options.")
    if isinstance(value, float) and not value.is_integer():
        raise field_error(value, "an integer", f"options.{name}")
    return None if value is None else int(value)


def _read_stop(value: JSON) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, str | list):
        raise field_error(value, "a string or an array of strings", "options.stop")
    sequences = [value] if isinstance(value, str) else value
    return tuple(text for index, text in enumerate(sequences) if expect(text, str, f"options.stop[{index}]"))


def _response_format(value: JSON) -> dict[str, JSON]:
    match value:
        case None | "":
            return {}
        case "json":
            return {"response_format": {"type": "json_object"}}
        case dict():
            schema = {"name": "reply", "schema": value}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case _:
            raise field_error(value, "'json' or a JSON Schema", "format")


def _read_effort(think: JSON) -> dict[str, JSON]:
    if think is None or isinstance(think, bool):
        return {}
    if think not in _EFFORTS:
        raise field_error(think, "true, false, 'low', 'medium' or 'high'", "think")
    return {"reasoning_effort": think}


def write_settings(request: Request) -> dict[str, JSON]:
    """Return `options`, `format` and `think` for an upstream.

    Those of a client of this API are passed on, with the fields of `Request` in front of them.
    """
    verbatim = request.verbatim.get("ollama")
    settings = dict(verbatim) if verbatim is not None else _write_options(request)
    options = {
        **settings.get("options", {}),
        "num_predict": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "stop": list(request.stop) or None,
    }
    settings["options"] = {name: value for name, value in options.items() if value is not None}
    return settings if settings["options"] else {name: settings[name] for name in settings if name != "options"}


def _write_options(request: Request) -> dict[str, JSON]:
    settings = write_options(request, "ollama")
    match request.extra.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            settings["format"] = schema
        case {"type": "json_object"}:
            settings["format"] = "json"
    effort = request.extra.get("reasoning_effort")
    if isinstance(effort, str) and (effort in _EFFORTS or effort in _THINK_LEVELS):
        settings["think"] = _THINK_LEVELS.get(effort, effort)
    return settings


def refuse_unsupported(source: dict[str, JSON]) -> None:
    """Reject features of `/api/generate` that a chat endpoint cannot provide. Raises `RequestError`."""
    for name, advice in UNSUPPORTED.items():
        if source.get(name):
            raise RequestError(f"{name}: not supported here; {advice}", param=name)


UNSUPPORTED = {
    "raw": "send the prompt without it, or send the request to the upstream directly",
    "template": "the upstream's own template is used",
    "context": "send the conversation to /api/chat",
}
