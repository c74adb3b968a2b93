"""Settings of a request: Ollama's `options`, `format` and `think`, and what they are called elsewhere.

Rule: what the vocabulary names goes there; what other engines know too goes to `extra` under the Chat API's name;
everything else stays as it came, for an upstream that is Ollama.
Neighbours: `request` reads settings, `outgoing` writes them.
"""

import msgspec

from fcshim.codecs.fields import expect, field_error, read_field, read_number
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import Request

KNOWN_OPTIONS = frozenset(["num_predict", "temperature", "top_p", "seed", "stop"])
"""Options with a field of their own in `Request`."""
ENGINE_OPTIONS = frozenset(
    [
        *("top_k", "min_p", "typical_p", "presence_penalty", "frequency_penalty", "repeat_penalty", "repeat_last_n"),
        *("mirostat", "mirostat_tau", "mirostat_eta"),
    ]
)
"""Options that engines behind the Chat API take under the same names."""

_EFFORTS = ("low", "medium", "high")
_THINK_LEVELS: dict[str, JSON] = {"none": False, "minimal": "low", "xhigh": "high", "max": "high"}


class OllamaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a request's settings come to."""

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
        max_tokens=limit if limit is None or limit >= 0 else None,  # -1 and -2: as much as there is room for
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
    """Take an integer, which Ollama's clients may write as 128.0."""
    value = read_number(options, name, "options.")
    if isinstance(value, float) and not value.is_integer():
        raise field_error(value, "an integer", f"options.{name}")
    return None if value is None else int(value)


def _read_stop(value: JSON) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, str | list):
        raise field_error(value, "a string or an array of strings", "options.stop")
    listed = [value] if isinstance(value, str) else value
    return tuple(text for at, text in enumerate(listed) if expect(text, str, f"options.stop[{at}]"))


def _response_format(form: JSON) -> dict[str, JSON]:
    match form:
        case None | "":
            return {}
        case "json":
            return {"response_format": {"type": "json_object"}}
        case dict():
            schema = {"name": "reply", "schema": form}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case _:
            raise field_error(form, "'json' or a JSON Schema", "format")


def _read_effort(think: JSON) -> dict[str, JSON]:
    if think is None or isinstance(think, bool):
        return {}
    if think not in _EFFORTS:
        raise field_error(think, "true, false, 'low', 'medium' or 'high'", "think")
    return {"reasoning_effort": think}


def write_settings(request: Request) -> dict[str, JSON]:
    """Give `options`, `format` and `think` for an upstream; a client of this API had its own, which are kept."""
    own = request.verbatim.get("ollama")
    settings = dict(own) if own is not None else _translate_extra(request)
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


def _translate_extra(request: Request) -> dict[str, JSON]:
    settings: dict[str, JSON] = {
        "options": {name: value for name, value in request.extra.items() if name in ENGINE_OPTIONS},
    }
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
    """Refuse what `/api/generate` offers and a chat endpoint behind us cannot do. Raises `RequestError`."""
    for name, instead in _UNSUPPORTED.items():
        if source.get(name):
            raise RequestError(f"{name}: not supported here; {instead}", param=name)


_UNSUPPORTED = {
    "raw": "send the prompt without it, or ask the upstream itself",
    "suffix": "say in the prompt what is to be filled in, or ask the upstream itself",
    "template": "the upstream's own template is used",
    "context": "send the conversation to /api/chat",
}
