"""Writes what Ollama's clients can query about models: the list, one model's details, the version.

Rule: names, sizes and context lengths are the upstream's if it reports them. Every model is listed as capable of tools,
because with fcshim every model is.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from fcshim.codecs.model_info import ModelInfo
from fcshim.errors import RequestError
from fcshim.events import JSON

MODELS_PATH = "//api/tags"

VERSION = "0.13.0"
"""The Ollama release whose API is implemented. Clients check it before they use tools, thinking or schemas."""

_ARCHITECTURE = "llama"
"""Clients look up `<architecture>.context_length`; any name works."""

_DAY = 86_400
_ERA = 146_097  # days in 400 years, after which the Gregorian calendar repeats


class _ModelQuery(msgspec.Struct):
    """The fields of a request to `/api/show` that are read."""

    model: str | None = None
    name: str | None = None


def read_requested_model(body: bytes) -> str:
    """Read the model name in a request to `/api/show`. Raises `RequestError`."""
    try:
        source = msgspec.json.decode(body, type=_ModelQuery)
    except (ValueError, RecursionError):
        raise RequestError("the request body is not a JSON object with the name of a model", param="model") from None
    name = source.model or source.name
    if name is None:
        raise RequestError("model: expected a model name", param="model")
    return name


def write_version() -> bytes:
    """Write the response to `/api/version`."""
    return msgspec.json.encode({"version": VERSION})


def write_tags(models: Sequence[ModelInfo]) -> bytes:
    """Write the response to `/api/tags`."""
    return msgspec.json.encode({"models": [_model_entry(model) for model in models]})


def write_running(models: Sequence[ModelInfo]) -> bytes:
    """Write the response to `/api/ps`: every model that the upstream lists counts as loaded."""
    loaded_fields = {"expires_at": timestamp(2**33), "size_vram": 0}
    return msgspec.json.encode(
        {
            "models": [
                {**_model_entry(model), **loaded_fields, "context_length": model.context_length} for model in models
            ]
        }
    )


def write_show(model: ModelInfo) -> bytes:
    """Write the response to `/api/show`."""
    info: dict[str, JSON] = {"general.architecture": _ARCHITECTURE, "general.basename": model.name}
    if model.parameter_count:
        info["general.parameter_count"] = model.parameter_count
    if model.context_length:
        info[f"{_ARCHITECTURE}.context_length"] = model.context_length
    return msgspec.json.encode(
        {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": _details(model),
            "model_info": info,
            "capabilities": ["completion", "tools", *(["vision"] if model.vision else [])],
            "modified_at": timestamp(model.created),
        }
    )


def _model_entry(model: ModelInfo) -> dict[str, JSON]:
    """Return an entry of the list. The digest is that of the name, because there is no model file to hash."""
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": timestamp(model.created),
        "size": model.size,
        "digest": hashlib.sha256(model.name.encode("utf-8", "replace")).hexdigest(),
        "details": _details(model),
    }


def _details(model: ModelInfo) -> dict[str, JSON]:
    size = (
        f"{model.parameter_count / 1e9:.1f}B"
        if model.parameter_count >= 10**9
        else f"{model.parameter_count / 1e6:.0f}M"
    )
    return {
        "parent_model": "",
        "format": "gguf",
        "family": _ARCHITECTURE,
        "families": [_ARCHITECTURE],
        "parameter_size": size if model.parameter_count else "",
        "quantization_level": "",
    }


def timestamp(seconds: int) -> str:
    """Format Unix seconds as RFC 3339 in UTC, such as 2026-11-21T07:30:00Z. Dates before 1970 become 1970."""
    days, rest = divmod(max(seconds, 0), _DAY)
    year, month, day = _civil_date(days)
    return f"{year:04}-{month:02}-{day:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}Z"


def _civil_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day. Years start in March internally, so that the leap day is the last of its year."""
    era, day = divmod(days + 719_468, _ERA)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    return era * 400 + year + (month >= 10), month + 3 if month < 10 else month - 9, day + 1
