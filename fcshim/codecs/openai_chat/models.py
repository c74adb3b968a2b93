"""Reading and writing lists of models.

Rule: only the names are read; the other fields differ from engine to engine.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.json_text import write_json
from fcshim.events import JSON


class _ChatModel(msgspec.Struct):
    id: str


class _ChatModelList(msgspec.Struct):
    data: list[_ChatModel]


def read_models(body: bytes) -> list[str]:
    """Return the names in `{"data": [{"id": ...}, ...]}`; empty where the body is something else."""
    try:
        return [model.id for model in msgspec.json.decode(body, type=_ChatModelList).data]
    except (ValueError, RecursionError):
        return []


def write_models(names: Sequence[str], created: int) -> bytes:
    """Write the list of all models."""
    return write_json({"object": "list", "data": [_model_object(name, created) for name in names]})


def write_model(name: str, created: int) -> bytes:
    """Write one model."""
    return write_json(_model_object(name, created))


def _model_object(name: str, created: int) -> dict[str, JSON]:
    return {"id": name, "object": "model", "created": created, "owned_by": "fcshim"}
