"""Lists of models, read and written.

Rule: only the names; what else engines tell of their models differs from one to the next.
Neighbours: the codec.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.json_writer import write_json
from fcshim.events import JSON

MODELS_PATH = "/models"


class _ChatModel(msgspec.Struct):
    id: str


class _ChatModelList(msgspec.Struct):
    data: list[_ChatModel]


def read_models(body: bytes) -> list[str]:
    """Give the names in `{"data": [{"id": ...}, ...]}`; none where the body is something else."""
    try:
        return [model.id for model in msgspec.json.decode(body, type=_ChatModelList).data]
    except (ValueError, RecursionError):
        return []


def write_models(names: Sequence[str], created: int) -> bytes:
    """Write the list."""
    return write_json({"object": "list", "data": [_model_object(name, created) for name in names]})


def write_model(name: str, created: int) -> bytes:
    """Write one model."""
    return write_json(_model_object(name, created))


def _model_object(name: str, created: int) -> dict[str, JSON]:
    return {"id": name, "object": "model", "created": created, "owned_by": "fcshim"}
