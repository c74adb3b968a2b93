"""What Ollama's clients can query about models: the list, one model's details, the version.

Rule: names, sizes and context lengths are the upstream's if it reports them. Every model is listed as capable of tools,
because with fcshim every model is.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from fcshim.codecs.json_text import read_count
from fcshim.errors import RequestError
from fcshim.events import JSON

MODELS_PATH = "//api/tags"

VERSION = "0.13.0"
"""The Ollama release whose API is implemented. Clients check it before they use tools, thinking or schemas."""

_ARCHITECTURE = "llama"
"""Clients look up `<architecture>.context_length`; any name works."""

_DAY = 86_400
_ERA = 146_097  # days in 400 years, after which the Gregorian calendar repeats


class OllamaModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the upstream; 0 for what the upstream does not report."""

    name: str
    created: int = 0
    size: int = 0
    parameter_count: int = 0
    context_length: int = 0
    vision: bool = False


def read_models(body: bytes) -> tuple[OllamaModel, ...]:
    """Read the upstream's list of models; empty if the body is something else.

    Forms: OpenAI's `{data: [...]}`, with the additions of llama-server and vLLM, and Ollama's own.
    """
    try:
        source = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(source, dict):
        return ()
    described = {_name(entry): entry for entry in _entries(source, "models")}
    entries = _entries(source, "data") or _entries(source, "models")
    return tuple(_model(entry, described.get(_name(entry), {})) for entry in entries if _name(entry))


def _entries(source: dict[str, JSON], name: str) -> list[dict[str, JSON]]:
    entries = source.get(name)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _name(entry: dict[str, JSON]) -> str:
    name = entry.get("id") or entry.get("model") or entry.get("name")
    return name if isinstance(name, str) else ""


def _model(entry: dict[str, JSON], described: dict[str, JSON]) -> OllamaModel:
    entry_meta = entry.get("meta")
    meta = entry_meta if isinstance(entry_meta, dict) else {}
    capabilities = described.get("capabilities")
    return OllamaModel(
        name=_name(entry),
        created=read_count(entry, "created"),
        size=read_count(meta, "size") or read_count(entry, "size"),
        parameter_count=read_count(meta, "n_params"),
        context_length=read_count(meta, "n_ctx")
        or read_count(meta, "n_ctx_train")
        or read_count(entry, "max_model_len"),
        vision=isinstance(capabilities, list) and bool({"multimodal", "vision"} & set(map(str, capabilities))),
    )


def read_requested_model(body: bytes) -> str:
    """Read the model name in a request to `/api/show`. Raises `RequestError`."""
    try:
        source = msgspec.json.decode(body, type=dict[str, JSON])
    except (ValueError, RecursionError):
        raise RequestError("the request body is not a JSON object") from None
    name = source.get("model") or source.get("name")
    if not isinstance(name, str):
        raise RequestError("model: expected a model name", param="model")
    return name


def find_model(models: Sequence[OllamaModel], name: str) -> OllamaModel:
    """Find a model; `:latest` is the default tag. Raises `RequestError` (404)."""
    for model in models:
        if model.name.removesuffix(":latest") == name.removesuffix(":latest"):
            return model
    raise RequestError(f"model {name[:200]!r} not found", param="model", status=404, kind="not_found")


def write_version() -> bytes:
    """Write the response to `/api/version`."""
    return msgspec.json.encode({"version": VERSION})


def write_tags(models: Sequence[OllamaModel]) -> bytes:
    """Write the response to `/api/tags`."""
    return msgspec.json.encode({"models": [_model_entry(model) for model in models]})


def write_running(models: Sequence[OllamaModel]) -> bytes:
    """Write the response to `/api/ps`: every model that the upstream lists counts as loaded."""
    loaded_fields = {"expires_at": timestamp(2**33), "size_vram": 0}
    return msgspec.json.encode(
        {
            "models": [
                {**_model_entry(model), **loaded_fields, "context_length": model.context_length} for model in models
            ]
        }
    )


def write_show(model: OllamaModel) -> bytes:
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


def _model_entry(model: OllamaModel) -> dict[str, JSON]:
    """Return an entry of the list. The digest is that of the name, because there is no model file to hash."""
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": timestamp(model.created),
        "size": model.size,
        "digest": hashlib.sha256(model.name.encode("utf-8", "replace")).hexdigest(),
        "details": _details(model),
    }


def _details(model: OllamaModel) -> dict[str, JSON]:
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
