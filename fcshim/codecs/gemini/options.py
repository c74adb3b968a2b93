"""The settings of a request, read and written.

Rule: a setting that other engines know is stored in `extra` under the Chat API's name. The client's own fields are
stored as well, for an upstream of this API.
"""

from typing import Final

import msgspec

from fcshim.codecs.body_fields import FieldRules
from fcshim.codecs.gemini.field_names import get_field, other_fields, snake_case, take_field
from fcshim.codecs.json_text import DEFAULT_LIMITS, expect, read_integer, read_number
from fcshim.codecs.option_table import OPTIONS, write_options
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import ClientOptions, Request
from fcshim.schema.limits import exceeds_depth
from fcshim.schema.openapi import from_openapi

API: Final = "gemini"

_CONFIG = "generationConfig"
_KNOWN_FIELDS = ("contents", "systemInstruction", "tools", "toolConfig", "model", _CONFIG)
_KNOWN_CONFIG_FIELDS = ("temperature", "topP", "seed", "maxOutputTokens", "stopSequences", "candidateCount")
FIELDS = FieldRules(
    known=frozenset(
        [*_KNOWN_FIELDS, *map(snake_case, _KNOWN_FIELDS), "generateContentRequest", "generate_content_request"]
    )
)
_CHAT_API_NAMES = {
    row.gemini.removeprefix(f"{_CONFIG}."): row.name for row in OPTIONS if row.gemini and not row.converted
}


_THINKING_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
"""Tokens for an effort, as the provider's own endpoint with OpenAI's API translates it."""
_THINKING_MODELS = ("gemini-2.5", "gemini-3")
"""Models that take a budget; others refuse one."""


class GeminiClientOptions(ClientOptions, frozen=True, kw_only=True):
    """The client's options for the form of the reply."""

    array: bool = False
    """The stream is one JSON array instead of server-sent events."""
    thoughts: bool = False
    """The reply includes thoughts."""
    pieces: bool = False
    """The arguments of calls come in pieces."""


class GeminiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in `generationConfig`, and the fields that only this API has."""

    n: int
    stop: tuple[str, ...]
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    extra: dict[str, JSON]
    verbatim: dict[str, dict[str, JSON]]


def read_settings(source: dict[str, JSON]) -> GeminiSettings:
    """Read the settings. Raises `RequestError`."""
    config = take_field(source, _CONFIG, dict, {})
    values = {name: get_field(config, name) for name in (*_KNOWN_CONFIG_FIELDS, *_CHAT_API_NAMES)}
    extra = {name: values[field] for field, name in _CHAT_API_NAMES.items() if read_number(values, field) is not None}
    return GeminiSettings(
        n=read_integer(values, "candidateCount", minimum=1, maximum=DEFAULT_LIMITS.choices) or 1,
        stop=_read_stop(values["stopSequences"]),
        max_tokens=read_integer(values, "maxOutputTokens", minimum=0),
        temperature=read_number(values, "temperature"),
        top_p=read_number(values, "topP"),
        seed=read_integer(values, "seed", minimum=-(2**63)),
        extra={**extra, **_response_format(config)},
        verbatim={API: {**other_fields(source, _KNOWN_FIELDS), _CONFIG: other_fields(config, _KNOWN_CONFIG_FIELDS)}},
    )


def _read_stop(value: JSON) -> tuple[str, ...]:
    sequences = [] if value is None else expect(value, list, "stopSequences")
    return tuple(text for index, text in enumerate(sequences) if expect(text, str, f"stopSequences[{index}]"))


def _response_format(config: dict[str, JSON]) -> dict[str, JSON]:
    """Return the Chat API's form of a request for JSON."""
    if get_field(config, "responseMimeType") != "application/json":
        return {}
    schema = get_field(config, "responseJsonSchema")
    if schema is None:
        schema = get_field(config, "responseSchema")
        if exceeds_depth(schema, DEFAULT_LIMITS.schema_depth):
            raise RequestError("responseSchema: the schema is nested too deeply", param="responseSchema")
        schema = from_openapi(schema)
    if not isinstance(schema, dict):
        return {"response_format": {"type": "json_object"}}
    json_schema = {"name": "reply", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def write_settings(request: Request) -> dict[str, JSON]:
    """Return `generationConfig` and the other fields for an upstream of this API."""
    verbatim = request.verbatim.get(API)
    body = dict(verbatim) if verbatim is not None else {_CONFIG: _write_options(request)}
    fields = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "seed": request.seed,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": list(request.stop) or None,
    }
    config = {**body.pop(_CONFIG), **{name: value for name, value in fields.items() if value is not None}}
    return {**body, _CONFIG: config} if config else body


def _write_options(request: Request) -> dict[str, JSON]:
    config: dict[str, JSON] = write_options(request, API).get(_CONFIG, {})
    budget = _THINKING_BUDGETS.get(str(request.extra.get("reasoning_effort")))
    if budget is not None and request.model.removeprefix("models/").startswith(_THINKING_MODELS):
        config["thinkingConfig"] = {"thinkingBudget": budget}
    match request.extra.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return {**config, "responseMimeType": "application/json", "responseJsonSchema": schema}
        case {"type": "json_object"}:
            return {**config, "responseMimeType": "application/json"}
    return config
