"""Lists of models in the form of the Messages API.

Rule: a required field whose value is unknown (the creation time) gets a valid placeholder.
"""

from collections.abc import Sequence

from fcshim.codecs.json_text import write_json
from fcshim.events import JSON


def write_models(names: Sequence[str], created: int) -> bytes:  # noqa: ARG001  # contract
    """Write the list, always as one page."""
    page = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return write_json({"data": [_model(name) for name in names], "has_more": False, **page})


def write_model(name: str, created: int) -> bytes:  # noqa: ARG001  # contract
    """Write one model."""
    return write_json(_model(name))


def _model(name: str) -> dict[str, JSON]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
