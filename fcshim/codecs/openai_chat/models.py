"""Reading and writing lists of models.

Only the names are read; the other fields differ from engine to engine, and stay as they are in a list that is
extended.
"""

from collections.abc import Mapping, Sequence

import msgspec

from fcshim.codecs.json_text import write_json
from fcshim.events import JSON


class _ChatModel(msgspec.Struct):
    id: str


class _ChatModelList(msgspec.Struct):
    data: list[_ChatModel]


class _RawModelList(msgspec.Struct):
    data: list[dict[str, JSON]]


def read_models(body: bytes) -> list[str]:
    """Return the names in `{"data": [{"id": ...}, ...]}`; empty where the body is something else."""
    try:
        return [model.id for model in msgspec.json.decode(body, type=_ChatModelList).data]
    except (ValueError, RecursionError):
        return []


def write_models(names: Sequence[str], created: int) -> bytes:
    """Write the list of all models."""
    return write_json({"object": "list", "data": [_model_object(name, created) for name in names]})


def extend_models(listed: bytes, aliases: Mapping[str, str], created: int, described: Mapping[str, JSON] = {}) -> bytes:
    """Add models to an upstream's list, each as a copy of the model that the alias stands for.

    `described`: what entries get as their field `fcshim`, by name.
    """
    try:
        source = msgspec.json.decode(listed, type=_RawModelList)
    except (ValueError, RecursionError):
        return listed
    known = {entry.get("id"): entry for entry in source.data}
    added = [{**known.get(name, _model_object(name, created)), "id": alias} for alias, name in aliases.items()]
    entries = [
        {**entry, "fcshim": described[entry["id"]]} if entry.get("id") in described else entry
        for entry in (*source.data, *added)
    ]
    return write_json({**msgspec.json.decode(listed), "data": entries})


def write_model(name: str, created: int) -> bytes:
    """Write one model."""
    return write_json(_model_object(name, created))


def _model_object(name: str, created: int) -> dict[str, JSON]:
    return {"id": name, "object": "model", "created": created, "owned_by": "fcshim"}
