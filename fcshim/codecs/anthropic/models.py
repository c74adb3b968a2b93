"""Lists of models in the form of the Messages API, written and read.

Rule: a required field whose value is unknown (the creation time) gets a valid placeholder.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.json_writer import write_json
from fcshim.events import JSON

MODELS_PATH = "/models"


class _AnthropicModel(msgspec.Struct):
    id: str


class _AnthropicModelList(msgspec.Struct):
    data: list[_AnthropicModel]


def write_models(names: Sequence[str]) -> bytes:
    """Write the list, always as one page."""
    page = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return write_json({"data": [_model(name) for name in names], "has_more": False, **page})


def write_model(name: str) -> bytes:
    """Write one model."""
    return write_json(_model(name))


def read_models(body: bytes) -> list[str]:
    """Return the names in a list; none if the body is something else."""
    try:
        return [model.id for model in msgspec.json.decode(body, type=_AnthropicModelList).data]
    except (ValueError, RecursionError):
        return []


def _model(name: str) -> dict[str, JSON]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
