"""Reads what servers report about their models, in the forms of OpenAI, Ollama, LM Studio and llama-server.

Rule: only what is known to mean the same everywhere is read; 0 stands for what a server does not report.
"""

from collections.abc import Mapping, Sequence

import msgspec

from fcshim.codecs.json_text import read_count
from fcshim.errors import RequestError
from fcshim.events import JSON

_DEFAULT_TAG = ":latest"


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the upstream; 0 for what the upstream does not report."""

    name: str
    created: int = 0
    size: int = 0
    parameter_count: int = 0
    context_length: int = 0
    vision: bool = False

    def completed_by(self, other: "ModelInfo") -> "ModelInfo":
        """Return this model, completed from another source, whose context length takes precedence."""
        return msgspec.structs.replace(
            self,
            size=self.size or other.size,
            parameter_count=self.parameter_count or other.parameter_count,
            context_length=other.context_length or self.context_length,
            vision=self.vision or other.vision,
        )


def read_models(body: bytes) -> tuple[ModelInfo, ...]:
    """Read a list of models; empty if the body is something else.

    Forms: OpenAI's `{data: [...]}`, with the additions of llama-server, vLLM and LM Studio, and Ollama's own.
    """
    source = read_page(body)
    described = {_name(entry): entry for entry in _entries(source, "models")}
    entries = _entries(source, "data") or _entries(source, "models")
    return tuple(read_entry(entry, described.get(_name(entry), {})) for entry in entries if _name(entry))


def read_page(body: bytes) -> dict[str, JSON]:
    """Read a JSON object; an empty one if the body is something else."""
    try:
        source = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    return source if isinstance(source, dict) else {}


def read_entry(entry: dict[str, JSON], described: Mapping[str, JSON] = {}) -> ModelInfo:
    """Read an entry of a list; llama-server has a second list, with what is `described`."""
    entry_meta = entry.get("meta")
    meta = entry_meta if isinstance(entry_meta, dict) else {}
    return ModelInfo(
        name=_name(entry),
        created=read_count(entry, "created"),
        size=read_count(meta, "size") or read_count(entry, "size"),
        parameter_count=read_count(meta, "n_params"),
        context_length=read_count(meta, "n_ctx")
        or read_count(meta, "n_ctx_train")
        or read_count(entry, "max_model_len")
        or read_count(entry, "loaded_context_length")
        or read_count(entry, "max_context_length"),
        vision=_has_vision(described) or entry.get("type") == "vlm",
    )


def read_show(page: dict[str, JSON]) -> ModelInfo:
    """Read Ollama's page about one model, whose keys begin with the name of its architecture."""
    found = page.get("model_info")
    info = found if isinstance(found, dict) else {}
    lengths = [read_count(info, key) for key in info if key.endswith(".context_length")]
    return ModelInfo(
        name="",
        parameter_count=read_count(info, "general.parameter_count"),
        context_length=max(lengths, default=0),
        vision=_has_vision(page),
    )


def read_props(page: dict[str, JSON]) -> ModelInfo:
    """Read llama-server's properties: the context of a slot, which is often much smaller than that of the model."""
    settings, modalities = page.get("default_generation_settings"), page.get("modalities")
    return ModelInfo(
        name="",
        context_length=read_count(settings, "n_ctx") if isinstance(settings, dict) else 0,
        vision=isinstance(modalities, dict) and modalities.get("vision") is True,
    )


def find_model(models: Sequence[ModelInfo], name: str) -> ModelInfo:
    """Find a model; `:latest` is the default tag. Raises `RequestError` (404)."""
    for model in models:
        if model.name.removesuffix(_DEFAULT_TAG) == name.removesuffix(_DEFAULT_TAG):
            return model
    raise RequestError(f"model {name[:200]!r} not found", param="model", status=404, kind="not_found")


def with_aliases(models: Sequence[ModelInfo], aliases: Mapping[str, str]) -> list[ModelInfo]:
    """Return the models, and those that the settings give another name."""
    known = {model.name: model for model in models}
    added = [
        msgspec.structs.replace(known.get(target, ModelInfo(name=target)), name=alias)
        for alias, target in aliases.items()
        if alias not in known
    ]
    return [*models, *added]


def _entries(source: dict[str, JSON], name: str) -> list[dict[str, JSON]]:
    entries = source.get(name)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _name(entry: dict[str, JSON]) -> str:
    name = entry.get("id") or entry.get("model") or entry.get("name")
    return name if isinstance(name, str) else ""


def _has_vision(described: Mapping[str, JSON]) -> bool:
    capabilities = described.get("capabilities")
    return isinstance(capabilities, list) and bool({"multimodal", "vision"} & set(map(str, capabilities)))
